// Makes the single binary of what the build laid in dist/: Node of the lock file with the program and its files inside (Node's SEA).
//   npm run build:binary [-- linux-x64 ... | host] [--compressed]
// lays dist/binary/plantroom-<version>-<target>, its .sha256, and dist/binary/<target>/better_sqlite3.node for those who put it beside the
// binary (an image whose data volume is noexec). Each is started where this machine can.
import { execFileSync, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { chmodSync, copyFileSync, existsSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { findProgram, host, runtimeOf, TARGETS } from './targets.mjs';

const FUSE = 'NODE_SEA_FUSE_fce680ab2cc467b6e072b8b5df1996b2';
const OUT = 'dist/binary';
const ENGINE = 'better_sqlite3.node';
const { version } = JSON.parse(readFileSync('package.json', 'utf8'));

/** The binary of a target; renamed into place, for an older one may be running. */
function make(target) {
  const work = mkdtempSync(join(OUT, '.making-'));
  try {
    const draft = join(work, 'plantroom');
    const isStripped = layRuntime(target, draft);
    const blob = join(work, 'program.blob');
    writeFileSync(join(work, 'sea.json'), JSON.stringify({ ...SEA, output: blob, assets: { ...assetsOf(target), ...program(target, work) } }));
    execFileSync(process.execPath, ['--experimental-sea-config', join(work, 'sea.json')], { stdio: 'pipe' });
    execFileSync(process.execPath, ['node_modules/postject/dist/cli.js', draft, 'NODE_SEA_BLOB', blob, '--sentinel-fuse', FUSE], { stdio: 'ignore' });
    const file = join(OUT, `plantroom-${version}-${target}`);
    renameSync(draft, file);
    writeFileSync(`${file}.sha256`, `${createHash('sha256').update(readFileSync(file)).digest('hex')}  plantroom-${version}-${target}\n`);
    mkdirSync(join(OUT, target), { recursive: true });
    copyFileSync(engineOf(target), join(OUT, target, ENGINE));
    return { file, isStripped };
  } finally {
    rmSync(work, { recursive: true });
  }
}

/** Node without the names of its functions, which nobody reads in a core dump of ours and which are a seventh of it. */
function layRuntime(target, draft) {
  const runtime = runtimeOf(target);
  const strip = findProgram(TARGETS[target].strip);
  if (strip) execFileSync(strip, ['-o', draft, runtime]);
  else copyFileSync(runtime, draft);
  chmodSync(draft, 0o755);
  return strip !== undefined;
}

// NODE_OPTIONS of whoever starts it is not for us.
const SEA = { main: 'scripts/binary/launcher.cjs', disableExperimentalSEAWarning: true, execArgvExtension: 'none' };

/** The program as the launcher wants it; where it is made for this machine, with what its start compiles, which takes half of the time otherwise. */
function program(target, work) {
  const source = join(work, 'program.js');
  const ascii = readFileSync('dist/main.js', 'utf8').replaceAll(/[^\0-\x7f]/g, (letter) => `\\u${letter.charCodeAt(0).toString(16).padStart(4, '0')}`);
  writeFileSync(source, `(function (exports, require, module, __filename, __dirname) {${ascii}\n})`);
  if (target !== host) return { 'program.js': source };
  const cache = join(work, 'program.cache');
  // In an environment of its own: settings of the machine would start it on a real database.
  execFileSync(process.execPath, ['scripts/binary/warmUp.cjs', source, cache, join(work, 'data')], { env: { PATH: process.env.PATH }, stdio: ['ignore', 'ignore', 'inherit'], timeout: 60_000 });
  return { 'program.js': source, 'program.cache': cache };
}

function assetsOf(target) {
  const files = readdirSync('dist/assets', { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile() && !entry.name.endsWith('.new'));
  const assets = Object.fromEntries(files.map((entry) => join(entry.parentPath, entry.name)).map((file) => [relative('dist/assets', file), file]));
  return { ...assets, [ENGINE]: engineOf(target) };
}

const engineOf = (target) => `node_modules/better-sqlite3/prebuilds/${target}.node`;

/** What came of `version`, in an empty environment where the machine runs it itself. */
function started(target, file) {
  const starter = starterOf(target);
  if (starter === undefined) return `NOT STARTED: it needs ${TARGETS[target].emulator.join(' and ')}`;
  const [command, ...args] = [...starter, file, 'version', '--json'];
  const { status, stdout, stderr, error } = spawnSync(command, args, { env: starter.length > 0 ? { PATH: process.env.PATH } : {}, encoding: 'utf8', timeout: 60_000 });
  if (status !== 0) throw new Error(`${file} does not start: ${error?.message ?? stderr}`);
  const found = JSON.parse(stdout);
  if (found.version !== version || found.platform !== target) throw new Error(`${file} says that it is ${found.version} for ${found.platform}`);
  return [`${found.version} (${found.commit})`, ...starter.slice(0, 1)].join(', by ');
}

/** What starts a binary of the target here, before its name; undefined: nothing does. */
function starterOf(target) {
  if (target === host) return [];
  const [emulator, libraries] = TARGETS[target].emulator;
  return findProgram([emulator]) && existsSync(libraries) ? [emulator, '-L', libraries] : undefined;
}

const COMPRESSORS = { gzip: ['-9', '-k', '-c'], zstd: ['-19', '-T0', '-q', '-c'], xz: ['-6', '-T0', '-k', '-c'] };

function compressedSizes(file) {
  const size = ([program, args]) => `${program} ${mib(execFileSync(program, [...args, file], { maxBuffer: 2 ** 30 }).length)}`;
  return Object.entries(COMPRESSORS).filter(([program]) => findProgram([program])).map(size).join(', ');
}

const mib = (bytes) => `${(bytes / 1e6).toFixed(1)} MB`;

const args = process.argv.slice(2);
const wanted = args.filter((arg) => !arg.startsWith('--')).map((arg) => (arg === 'host' ? host : arg));
const unknown = wanted.filter((target) => !(target in TARGETS));
if (unknown.length > 0) throw new Error(`there is no ${unknown.join(', ')}; give some of ${Object.keys(TARGETS).join(', ')}, host, or nothing for all`);
mkdirSync(OUT, { recursive: true });
for (const target of wanted.length > 0 ? wanted : Object.keys(TARGETS)) {
  const { file, isStripped } = make(target);
  console.log(`${file}\n  size        ${mib(statSync(file).size)}${isStripped ? '' : ' (not stripped: no strip for it on this machine)'}`);
  if (args.includes('--compressed')) console.log(`  compressed  ${compressedSizes(file)}`);
  console.log(`  started     ${started(target, file)}`);
}

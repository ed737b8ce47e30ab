// Builds the single binary from dist/: the Node.js of the lock file with the program and its files inside (Node.js
// SEA).
//   npm run build:binary [-- linux-x64 ... | host] [--compressed]
// It writes dist/binary/plantroom-<version>-<target>, its .sha256, and its SBOM (.cdx.json) with a .sha256, and into
// dist/binary/<target> THIRD_PARTY_NOTICES.txt and better_sqlite3.node, for installations that need the native module
// next to the binary (an image whose data volume is noexec). Each binary is started if this machine can run it.
import { execFileSync, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { basename, join, relative } from 'node:path';
import { NOTICES, writeNotices, writeSbom } from '../notices/writeNotices.mjs';
import { findLicenseFile, findProgram, host, findRuntime, TARGETS } from './targets.mjs';

const FUSE = 'NODE_SEA_FUSE_fce680ab2cc467b6e072b8b5df1996b2';
const OUT = 'dist/binary';
const NATIVE_MODULE = 'better_sqlite3.node';
const { version } = JSON.parse(readFileSync('package.json', 'utf8'));

/** Builds the binary of a target. It is renamed into place, because an older one may be running. */
function buildBinary(target) {
  const work = mkdtempSync(join(OUT, '.building-'));
  try {
    const tempFile = join(work, 'plantroom');
    const isStripped = copyRuntime(target, tempFile);
    const node = { platform: target, licenseFile: findLicenseFile(findRuntime(target)) };
    const notices = join(work, NOTICES);
    writeNotices(notices, node);
    const blob = join(work, 'program.blob');
    writeFileSync(
      join(work, 'sea.json'),
      JSON.stringify({
        ...SEA,
        output: blob,
        assets: { ...listAssets(target), [NOTICES]: notices, ...createProgramAssets(target, work) },
      }),
    );
    execFileSync(process.execPath, ['--experimental-sea-config', join(work, 'sea.json')], { stdio: 'pipe' });
    execFileSync(
      process.execPath,
      ['node_modules/postject/dist/cli.js', tempFile, 'NODE_SEA_BLOB', blob, '--sentinel-fuse', FUSE],
      { stdio: 'ignore' },
    );
    const file = join(OUT, `plantroom-${version}-${target}`);
    renameSync(tempFile, file);
    writeSbom(`${file}.cdx.json`, node, writeChecksum(file));
    writeChecksum(`${file}.cdx.json`);
    mkdirSync(join(OUT, target), { recursive: true });
    copyFileSync(notices, join(OUT, target, NOTICES));
    copyFileSync(findNodeBinary(target), join(OUT, target, NATIVE_MODULE));
    return { file, isStripped };
  } finally {
    rmSync(work, { recursive: true });
  }
}

/** Writes the SHA-256 of a file to <file>.sha256, in the format of `sha256sum -c`, and returns it. */
function writeChecksum(file) {
  const sha256 = createHash('sha256').update(readFileSync(file)).digest('hex');
  writeFileSync(`${file}.sha256`, `${sha256}  ${basename(file)}\n`);
  return sha256;
}

/**
 * Copies Node.js to `tempFile`, without its symbol table, which is a seventh of the size. Returns whether it was stripped.
 */
function copyRuntime(target, tempFile) {
  const runtime = findRuntime(target);
  const strip = findProgram(TARGETS[target].strip);
  if (strip) execFileSync(strip, ['-o', tempFile, runtime]);
  else copyFileSync(runtime, tempFile);
  chmodSync(tempFile, 0o755);
  return strip !== undefined;
}

// The binary ignores NODE_OPTIONS.
const SEA = { main: 'scripts/binary/launcher.cjs', disableExperimentalSEAWarning: true, execArgvExtension: 'none' };

/**
 * Creates the program file that the launcher runs and, for this machine, the V8 code cache of its start, which halves the
 * start time.
 */
function createProgramAssets(target, work) {
  const source = join(work, 'program.js');
  const ascii = readFileSync('dist/main.js', 'utf8').replaceAll(
    /[^\0-\x7f]/g,
    (letter) => `\\u${letter.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
  writeFileSync(source, `(function (exports, require, module, __filename, __dirname) {${ascii}\n})`);
  if (target !== host) return { 'program.js': source };
  const cache = join(work, 'program.cache');
  // With an empty environment: settings of the machine could start it on a real database.
  execFileSync(process.execPath, ['scripts/binary/warmUp.cjs', source, cache, join(work, 'data')], {
    env: { PATH: process.env.PATH },
    stdio: ['ignore', 'ignore', 'inherit'],
    timeout: 60_000,
  });
  return { 'program.js': source, 'program.cache': cache };
}

function listAssets(target) {
  const files = readdirSync('dist/assets', { recursive: true, withFileTypes: true }).filter(
    (entry) => entry.isFile() && !entry.name.endsWith('.new'),
  );
  const assets = Object.fromEntries(
    files.map((entry) => join(entry.parentPath, entry.name)).map((file) => [relative('dist/assets', file), file]),
  );
  return { ...assets, [NATIVE_MODULE]: findNodeBinary(target) };
}

const findNodeBinary = (target) => `node_modules/better-sqlite3/prebuilds/${target}.node`;

/**
 * Runs `plantroom version` with the binary and describes the result. The environment is empty unless it is emulated.
 */
function checkStart(target, file) {
  const launcher = getLauncher(target);
  if (launcher === undefined) return `SKIPPED: needs ${TARGETS[target].emulator.join(' and ')}`;
  const [command, ...args] = [...launcher, file, 'version', '--json'];
  const { status, stdout, stderr, error } = spawnSync(command, args, {
    env: launcher.length > 0 ? { PATH: process.env.PATH } : {},
    encoding: 'utf8',
    timeout: 60_000,
  });
  if (status !== 0) throw new Error(`${file} does not start: ${error?.message ?? stderr}`);
  const found = JSON.parse(stdout);
  if (found.version !== version || found.platform !== target)
    throw new Error(`${file} reports version ${found.version} for ${found.platform}`);
  return [`${found.version} (${found.commit})`, ...launcher.slice(0, 1)].join(', by ');
}

/** Returns the command that runs binaries of the target on this machine; undefined if there is none. */
function getLauncher(target) {
  if (target === host) return [];
  const [emulator, libraries] = TARGETS[target].emulator;
  return findProgram([emulator]) && existsSync(libraries) ? [emulator, '-L', libraries] : undefined;
}

const COMPRESSORS = { gzip: ['-9', '-k', '-c'], zstd: ['-19', '-T0', '-q', '-c'], xz: ['-6', '-T0', '-k', '-c'] };

function formatCompressedSizes(file) {
  const size = ([program, args]) =>
    `${program} ${formatMegabytes(execFileSync(program, [...args, file], { maxBuffer: 2 ** 30 }).length)}`;
  return Object.entries(COMPRESSORS)
    .filter(([program]) => findProgram([program]))
    .map(size)
    .join(', ');
}

const formatMegabytes = (bytes) => `${(bytes / 1e6).toFixed(1)} MB`;

const args = process.argv.slice(2);
const requestedTargets = args.filter((arg) => !arg.startsWith('--')).map((arg) => (arg === 'host' ? host : arg));
const unknown = requestedTargets.filter((target) => !(target in TARGETS));
if (unknown.length > 0)
  throw new Error(
    `unknown target ${unknown.join(', ')}: use ${Object.keys(TARGETS).join(', ')} or host; without a target, all are built`,
  );
mkdirSync(OUT, { recursive: true });
for (const target of requestedTargets.length > 0 ? requestedTargets : Object.keys(TARGETS)) {
  const { file, isStripped } = buildBinary(target);
  console.log(
    `${file}\n  size        ${formatMegabytes(statSync(file).size)}${isStripped ? '' : ' (not stripped: no matching strip tool is installed)'}`,
  );
  if (args.includes('--compressed')) console.log(`  compressed  ${formatCompressedSizes(file)}`);
  console.log(`  started     ${checkStart(target, file)}`);
}

// Runs before `npm start`, `npm test` and other npm scripts, on Node 20 or later: installs missing dependencies and
// rebuilds after changes. It prints what it does, and nothing if everything is up to date.
import { createHash } from 'node:crypto';
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join, sep } from 'node:path';
import { fileURLToPath } from 'node:url';

process.chdir(join(dirname(fileURLToPath(import.meta.url)), '..'));
const started = Date.now();
const GENERATED = [join('src', 'gen'), join('src', 'client', 'gen')];
const isWindows = process.platform === 'win32';
const log = (text) => console.error(`setup: ${text}`);
const hashFiles = (files) =>
  files.reduce((h, file) => h.update(file).update(readFileSync(file)), createHash('sha256')).digest('hex');
const listFiles = (folder) =>
  readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((f) => f.isFile())
    .map((f) => join(f.parentPath ?? f.path, f.name));
const readStamp = (file) => (existsSync(file) ? readFileSync(file, 'utf8') : '');
let hasWorked = false;

function run(step, command, args) {
  hasWorked = true;
  log(step);
  const result = spawnSync(command, args, { stdio: ['ignore', 2, 2] });
  if (result.status === 0) return;
  log(
    `"${step}" failed (${result.error?.message ?? `exit code ${result.status}`}). Fix the problem and run the same command again.`,
  );
  process.exit(1);
}

function install() {
  const stamp = 'node_modules/.plantroom-installed';
  const wanted = `${hashFiles(['package-lock.json'])} ${process.platform}-${process.arch}`;
  if (readStamp(stamp) === wanted) return;
  const npm = process.env.npm_execpath ? [process.execPath, process.env.npm_execpath] : [isWindows ? 'npm.cmd' : 'npm'];
  // None of our dependencies needs an install script, so all of them are disabled.
  const args = [
    'ci',
    '--include=dev',
    '--include=optional',
    '--ignore-scripts',
    '--engine-strict=false',
    '--no-audit',
    '--no-fund',
    '--loglevel=error',
  ];
  run('installing dependencies (the first time: a download of about 150 MB)', npm[0], [...npm.slice(1), ...args]);
  writeFileSync(stamp, wanted);
}

/**
 * Creates the link node_modules/.bin/node, which npm 10 omits when several optional packages provide it, and returns
 * the path of Node 24. The link puts Node 24 first in the PATH of every npm script.
 */
function linkPinnedNode() {
  const pinned = [
    `node-${isWindows ? 'win' : process.platform}-${process.arch}`,
    `node-bin-${process.platform}-${process.arch}`,
  ].find((p) => existsSync(join('node_modules', p)));
  const link = join('node_modules', '.bin', isWindows ? 'node.cmd' : 'node');
  if (pinned && !existsSync(link)) {
    mkdirSync(dirname(link), { recursive: true });
    if (isWindows) writeFileSync(link, `@"%~dp0\\..\\${pinned}\\bin\\node.exe" %*\r\n`);
    else symlinkSync(`../${pinned}/bin/node`, link);
  }
  if (existsSync(link)) return join(process.cwd(), link);
  if (Number(process.versions.node.split('.')[0]) >= 24) return process.execPath;
  log(
    `Node 24 is required: npm has no package of it for ${process.platform}-${process.arch}, and this is Node ${process.versions.node}. Install Node 24 and run this command again.`,
  );
  return process.exit(1);
}

function build(node) {
  const stamp = 'dist/.plantroom-built';
  const sources = [
    ...listFiles('proto'),
    ...listFiles('src').filter((f) => !GENERATED.some((folder) => f.startsWith(folder + sep))),
    ...listFiles('scripts'),
    'package-lock.json',
    'buf.yaml',
    'buf.gen.yaml',
    'buf.gen.client.yaml',
  ];
  const wanted = hashFiles(sources.toSorted((a, b) => (a < b ? -1 : 1)));
  if (readStamp(stamp) === wanted && ['dist/main.js', ...GENERATED].every((path) => existsSync(path))) return;
  rmSync(stamp, { force: true });
  run('building', node, ['scripts/build.mjs']);
  writeFileSync(stamp, wanted);
}

install();
build(linkPinnedNode());
if (hasWorked) log(`done in ${((Date.now() - started) / 1000).toFixed(1)} s`);

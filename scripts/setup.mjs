// Runs before `npm start`, `npm test` and the like, on any Node from 20: installs what is missing, builds what changed,
// says what it is doing, and is silent when nothing is to do.
import { createHash } from 'node:crypto';
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join, sep } from 'node:path';
import { fileURLToPath } from 'node:url';

process.chdir(join(dirname(fileURLToPath(import.meta.url)), '..'));
const started = Date.now();
const GENERATED = [join('src', 'gen'), join('src', 'client', 'gen')];
const windows = process.platform === 'win32';
const say = (text) => console.error(`setup: ${text}`);
const hash = (files) => files.reduce((h, file) => h.update(file).update(readFileSync(file)), createHash('sha256')).digest('hex');
const filesBelow = (folder) => readdirSync(folder, { recursive: true, withFileTypes: true }).filter((f) => f.isFile()).map((f) => join(f.parentPath ?? f.path, f.name));
const stampOf = (file) => (existsSync(file) ? readFileSync(file, 'utf8') : '');
let worked = false;

function run(what, command, args) {
  worked = true;
  say(what);
  const result = spawnSync(command, args, { stdio: ['ignore', 2, 2] });
  if (result.status === 0) return;
  say(`"${what}" failed (${result.error?.message ?? `exit ${result.status}`}); mend that and run the same command again`);
  process.exit(1);
}

function install() {
  const stamp = 'node_modules/.plantroom-installed';
  const wanted = `${hash(['package-lock.json'])} ${process.platform}-${process.arch}`;
  if (stampOf(stamp) === wanted) return;
  const npm = process.env.npm_execpath ? [process.execPath, process.env.npm_execpath] : [windows ? 'npm.cmd' : 'npm'];
  // No package of ours needs an install script, so none runs.
  const args = ['ci', '--include=dev', '--include=optional', '--ignore-scripts', '--engine-strict=false', '--no-audit', '--no-fund', '--loglevel=error'];
  run('installing dependencies, about 150 MB to download the first time', npm[0], [...npm.slice(1), ...args]);
  writeFileSync(stamp, wanted);
}

/** npm 10 leaves out the link .bin/node when several optional packages offer it. It puts Node 24 first in PATH of every npm script. */
function linkPinnedNode() {
  const pinned = [`node-${windows ? 'win' : process.platform}-${process.arch}`, `node-bin-${process.platform}-${process.arch}`].find((p) => existsSync(join('node_modules', p)));
  const link = join('node_modules', '.bin', windows ? 'node.cmd' : 'node');
  if (pinned && !existsSync(link)) {
    mkdirSync(dirname(link), { recursive: true });
    if (windows) writeFileSync(link, `@"%~dp0\\..\\${pinned}\\bin\\node.exe" %*\r\n`);
    else symlinkSync(`../${pinned}/bin/node`, link);
  }
  if (existsSync(link)) return join(process.cwd(), link);
  if (Number(process.versions.node.split('.')[0]) >= 24) return process.execPath;
  say(`npm has no pinned Node 24 for ${process.platform}-${process.arch}, and this is Node ${process.versions.node}; install Node 24 and run this again`);
  return process.exit(1);
}

function build(node) {
  const stamp = 'dist/.plantroom-built';
  const sources = [...filesBelow('proto'), ...filesBelow('src').filter((f) => !GENERATED.some((folder) => f.startsWith(folder + sep))), ...filesBelow('scripts'), 'package-lock.json', 'buf.yaml', 'buf.gen.yaml', 'buf.gen.client.yaml'];
  const wanted = hash(sources.toSorted((a, b) => (a < b ? -1 : 1)));
  if (stampOf(stamp) === wanted && ['dist/main.js', ...GENERATED].every((path) => existsSync(path))) return;
  rmSync(stamp, { force: true });
  run('building', node, ['scripts/build.mjs']);
  writeFileSync(stamp, wanted);
}

install();
build(linkPinnedNode());
if (worked) say(`done in ${((Date.now() - started) / 1000).toFixed(1)} s`);

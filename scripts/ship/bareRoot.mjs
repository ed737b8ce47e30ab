// A bare Debian: the packages that every one has, curl, and nothing of Node. Made once by Debian's own tools and kept as an archive.
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { whyNoContainers } from './container.mjs';

const HERE = dirname(fileURLToPath(import.meta.url));
const SUITE = 'bookworm';
const ARCHIVE = `debian-${SUITE}-curl.tar`;
const TOOLS = { mmdebstrap: (out) => ['--quiet', '--variant=minbase', '--include=curl,ca-certificates', SUITE, `${out}.tar`], debootstrap: (out) => ['--variant=minbase', '--include=curl,ca-certificates', SUITE, out] };
const has = (tool) => `${process.env.PATH}:/usr/sbin:/sbin`.split(':').some((folder) => existsSync(join(folder, tool)));

/** Why no bare root can be made or entered here; undefined: it can. */
export function whyNoBareRoot(cache) {
  const why = whyNoContainers();
  if (why !== undefined) return why;
  return existsSync(join(cache, ARCHIVE)) || Object.keys(TOOLS).some(has) ? undefined : 'there is neither mmdebstrap nor debootstrap (apt-get install mmdebstrap)';
}

/** Unpacks it to `root`. Throws where Debian's packages cannot be had. */
export function layBareRoot(root, cache) {
  const archive = join(cache, ARCHIVE);
  if (!existsSync(archive)) make(archive, join(cache, `.making-${process.pid}`));
  mkdirSync(root, { recursive: true });
  execFileSync('tar', ['--extract', '--file', archive, '--directory', root, '--numeric-owner', '--exclude', './dev/*']);
  writeFileSync(join(root, 'etc/hosts'), '127.0.0.1 localhost\n');
}

function make(archive, draft) {
  mkdirSync(dirname(archive), { recursive: true });
  const tool = Object.keys(TOOLS).find(has);
  try {
    execFileSync(tool, TOOLS[tool](draft), { stdio: ['ignore', 'ignore', 'inherit'], timeout: 600_000 });
    if (tool === 'debootstrap') execFileSync('tar', ['--create', '--file', `${draft}.tar`, '--directory', draft, '--numeric-owner', '.']);
    renameSync(`${draft}.tar`, archive);
  } finally {
    for (const left of [draft, `${draft}.tar`]) rmSync(left, { recursive: true, force: true });
  }
}

/** Runs a script of bash inside, at most `seconds` long, and returns what it said. Throws with that where it fails. All that it started is over then. */
export async function inside(root, script, seconds = 60) {
  writeFileSync(join(root, 'step.sh'), `set -euo pipefail\n${script}\n`);
  const env = { PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin', HOME: '/root', LANG: 'C.UTF-8' };
  const child = spawn('unshare', ['--mount', '--pid', '--net', '--uts', '--ipc', '--fork', '--kill-child', 'sh', join(HERE, 'bareRoot.sh'), root, '/step.sh'], { env, stdio: ['ignore', 'pipe', 'pipe'] });
  const tooLong = setTimeout(() => child.kill('SIGKILL'), seconds * 1000);
  const [stdout, stderr, [code, signal]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'close')]);
  clearTimeout(tooLong);
  if (code !== 0) throw new Error(`a step on the bare root ended with ${signal ? `${signal} after ${seconds} s` : code}:\n${stdout.slice(-3000)}\n${stderr.slice(-3000)}`);
  return stdout;
}

// A minimal Debian root file system with curl and without Node.js. It is built once by Debian's tools and cached.
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
const TOOLS = {
  mmdebstrap: (out) => ['--quiet', '--variant=minbase', '--include=curl,ca-certificates', SUITE, `${out}.tar`],
  debootstrap: (out) => ['--variant=minbase', '--include=curl,ca-certificates', SUITE, out],
};
const hasTool = (tool) =>
  `${process.env.PATH}:/usr/sbin:/sbin`.split(':').some((folder) => existsSync(join(folder, tool)));

/** Returns reason no root file system can be built or used here; undefined if it can. */
export function whyNoBareRoot(cache) {
  const reason = whyNoContainers();
  if (reason !== undefined) return reason;
  return existsSync(join(cache, ARCHIVE)) || Object.keys(TOOLS).some(hasTool)
    ? undefined
    : 'mmdebstrap and debootstrap are not installed (apt-get install mmdebstrap)';
}

/** Unpacks the file system to `root`. Throws if Debian's packages cannot be downloaded. */
export function unpackBareRoot(root, cache) {
  const archive = join(cache, ARCHIVE);
  if (!existsSync(archive)) buildArchive(archive, join(cache, `.building-${process.pid}`));
  mkdirSync(root, { recursive: true });
  execFileSync('tar', ['--extract', '--file', archive, '--directory', root, '--numeric-owner', '--exclude', './dev/*']);
  writeFileSync(join(root, 'etc/hosts'), '127.0.0.1 localhost\n');
}

function buildArchive(archive, tempPath) {
  mkdirSync(dirname(archive), { recursive: true });
  const tool = Object.keys(TOOLS).find(hasTool);
  try {
    execFileSync(tool, TOOLS[tool](tempPath), { stdio: ['ignore', 'ignore', 'inherit'], timeout: 600_000 });
    if (tool === 'debootstrap')
      execFileSync('tar', ['--create', '--file', `${tempPath}.tar`, '--directory', tempPath, '--numeric-owner', '.']);
    renameSync(`${tempPath}.tar`, archive);
  } finally {
    for (const left of [tempPath, `${tempPath}.tar`]) rmSync(left, { recursive: true, force: true });
  }
}

/**
 * Runs a bash script in the root file system for at most `seconds`, and returns its output. Throws with the output if it
 * fails. All processes that it started are killed at its end.
 */
export async function runInRoot(root, script, seconds = 60) {
  writeFileSync(join(root, 'step.sh'), `set -euo pipefail\n${script}\n`);
  const env = { PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin', HOME: '/root', LANG: 'C.UTF-8' };
  const child = spawn(
    'unshare',
    [
      '--mount',
      '--pid',
      '--net',
      '--uts',
      '--ipc',
      '--fork',
      '--kill-child',
      'sh',
      join(HERE, 'bareRoot.sh'),
      root,
      '/step.sh',
    ],
    { env, stdio: ['ignore', 'pipe', 'pipe'] },
  );
  const timeout = setTimeout(() => child.kill('SIGKILL'), seconds * 1000);
  const [stdout, stderr, [code, signal]] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    once(child, 'close'),
  ]);
  clearTimeout(timeout);
  if (code !== 0)
    throw new Error(
      `a script in the root file system exited with ${signal ? `${signal} after ${seconds} s` : code}:\n${stdout.slice(-3000)}\n${stderr.slice(-3000)}`,
    );
  return stdout;
}

// Runs a container without a container engine: in namespaces (util-linux), with the settings of the image.
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const HERE = dirname(fileURLToPath(import.meta.url));
const TOOLS = ['unshare', 'nsenter', 'setpriv', 'mount', 'ip'];

/** Returns why containers cannot run here; undefined if they can. */
export function whyNoContainers() {
  if (process.platform !== 'linux') return 'this is not Linux';
  if (process.getuid() !== 0) return 'this user is not root';
  const folders = `${process.env.PATH}:/usr/sbin:/sbin`.split(':');
  const missing = TOOLS.filter((tool) => !folders.some((folder) => existsSync(join(folder, tool))));
  if (missing.length > 0) return `${missing.join(', ')} not installed (apt-get install util-linux mount iproute2)`;
  const attempt = spawnSync('unshare', ['--mount', '--pid', '--net', '--fork', 'mount', '--make-rprivate', '/'], {
    encoding: 'utf8',
  });
  return attempt.status === 0 ? undefined : `namespaces cannot be created on this machine (${attempt.stderr.trim()})`;
}

/**
 * Starts the command of the image. `volumes`: mount point in the image -> folder of this machine. `moreEnv`: additional
 * environment variables.
 */
export function runImage(image, volumes, moreEnv = {}) {
  const mounts = Object.entries(volumes).map(([mountPoint, folder]) => `${mountPoint}=${folder}`);
  const command = [...image.entrypoint, ...image.command];
  const args = [
    '--mount',
    '--pid',
    '--net',
    '--uts',
    '--ipc',
    '--fork',
    '--kill-child',
    'sh',
    join(HERE, 'container.sh'),
    image.root,
    image.uid,
    image.gid,
    image.workdir,
    ...mounts,
    '--',
    ...command,
  ];
  const child = spawn('unshare', args, {
    env: { PATH: process.env.PATH, ...image.env, ...moreEnv },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const container = { child, image, output: '', ended: once(child, 'close').then(([code]) => code) };
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk) => (container.output += chunk));
  return container;
}

/** Returns the PID, on this machine, of the first process in the container. */
export function getFirstProcess({ child }) {
  return Number(readFileSync(`/proc/${child.pid}/task/${child.pid}/children`, 'utf8').trim().split(' ')[0]);
}

/** Runs another command in the container, like `docker exec`. */
export function execIn(container, command) {
  const { uid, gid, env } = container.image;
  const started = performance.now();
  const { status, stdout, stderr } = spawnSync(
    'nsenter',
    [
      '--target',
      String(getFirstProcess(container)),
      '--mount',
      '--net',
      '--pid',
      '--root',
      '--wd',
      '--setuid',
      uid,
      '--setgid',
      gid,
      ...command,
    ],
    { env: { PATH: process.env.PATH, ...env }, encoding: 'utf8', timeout: 30_000 },
  );
  return { status, stdout, stderr, ms: Math.round(performance.now() - started) };
}

/** Sends a signal to the first process in the container, like `docker stop`; resolves to the exit code. */
export async function sendSignal(container, name) {
  process.kill(getFirstProcess(container), name);
  return await container.ended;
}

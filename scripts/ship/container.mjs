// A container without a container engine: namespaces by util-linux, everything else as the image says.
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const HERE = dirname(fileURLToPath(import.meta.url));
const TOOLS = ['unshare', 'nsenter', 'setpriv', 'mount', 'ip'];

/** Why containers cannot be run here; undefined: they can. */
export function whyNoContainers() {
  if (process.platform !== 'linux') return 'this is no Linux';
  if (process.getuid() !== 0) return 'this user is not root';
  const folders = `${process.env.PATH}:/usr/sbin:/sbin`.split(':');
  const missing = TOOLS.filter((tool) => !folders.some((folder) => existsSync(join(folder, tool))));
  if (missing.length > 0) return `there is no ${missing.join(', ')} (apt-get install util-linux mount iproute2)`;
  const tried = spawnSync('unshare', ['--mount', '--pid', '--net', '--fork', 'mount', '--make-rprivate', '/'], { encoding: 'utf8' });
  return tried.status === 0 ? undefined : `this machine lets no namespaces be made (${tried.stderr.trim()})`;
}

/** Starts the image's own command; `volumes`: place in the image -> folder here; `more`: variables beyond the image's. */
export function runImage(image, volumes, more = {}) {
  const places = Object.entries(volumes).map(([place, folder]) => `${place}=${folder}`);
  const command = [...image.entrypoint, ...image.command];
  const args = ['--mount', '--pid', '--net', '--uts', '--ipc', '--fork', '--kill-child', 'sh', join(HERE, 'container.sh'), image.root, image.uid, image.gid, image.workdir, ...places, '--', ...command];
  const child = spawn('unshare', args, { env: { PATH: process.env.PATH, ...image.env, ...more }, stdio: ['ignore', 'pipe', 'pipe'] });
  const container = { child, image, output: '', ended: once(child, 'close').then(([code]) => code) };
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk) => (container.output += chunk));
  return container;
}

/** The process that is number 1 inside. */
export function firstProcess({ child }) {
  return Number(readFileSync(`/proc/${child.pid}/task/${child.pid}/children`, 'utf8').trim().split(' ')[0]);
}

/** Runs one more command inside, as `docker exec` does. */
export function execIn(container, command) {
  const { uid, gid, env } = container.image;
  const started = performance.now();
  const { status, stdout, stderr } = spawnSync('nsenter', ['--target', String(firstProcess(container)), '--mount', '--net', '--pid', '--root', '--wd', '--setuid', uid, '--setgid', gid, ...command], { env: { PATH: process.env.PATH, ...env }, encoding: 'utf8', timeout: 30_000 });
  return { status, stdout, stderr, ms: Math.round(performance.now() - started) };
}

/** Sends a signal to the process that is number 1 inside, as `docker stop` does; resolves with the exit code. */
export async function signal(container, name) {
  process.kill(firstProcess(container), name);
  return await container.ended;
}

// Proves the image without a container engine: builds the root file system that the Dockerfile describes and runs it as an engine would.
//   node scripts/ship/image.mjs        as root, on Debian, after npm run build:binary
// Where that cannot be done it says so and ends with 0.
import { execFileSync } from 'node:child_process';
import { chownSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { execIn, firstProcess, runImage, signal, whyNoContainers } from './container.mjs';
import { buildImage, debianOf, shellsIn } from './imageOf.mjs';
import { freshBinary } from './program.mjs';

const CACHE = 'node_modules/.cache/plantroom-image';
const began = performance.now();

function say(what) {
  console.log(`image: ${((performance.now() - began) / 1000).toFixed(1).padStart(5)} s  ${what}`);
}

function must(holds, what, seen = '') {
  if (!holds) throw new Error(`${what}${seen === '' ? '' : `; seen: ${typeof seen === 'string' ? seen.slice(-2000) : JSON.stringify(seen)}`}`);
}

/** Folders of a new installation, as an engine makes its volumes: with the owner and the rights that they have in the image. */
function newVolumes(image, work) {
  const volumes = Object.fromEntries(image.volumes.map((place) => [place, mkdtempSync(join(work, 'volume-'))]));
  for (const [place, folder] of Object.entries(volumes)) {
    const { uid, gid } = statSync(join(image.root, place));
    chownSync(folder, uid, gid);
  }
  return volumes;
}

/** Waits until the HEALTHCHECK of the image says 0. */
async function healthy(container) {
  const { health } = container.image;
  const until = Date.now() + Number.parseInt(health.flags['start-period'], 10) * 1000;
  while (Date.now() < until) {
    must(container.child.exitCode === null, 'the server ended instead of starting', container.output);
    if (container.output.includes('"server.ready"')) {
      const asked = execIn(container, health.command);
      must(asked.status === 0, 'a server that is ready must be healthy', asked);
      return asked.ms;
    }
    await pause(25);
  }
  throw new Error(`the server was not ready in time: ${container.output}`);
}

function call(container, method, body = '{}') {
  const { status, stdout, stderr } = execIn(container, [...container.image.entrypoint, 'call', method, body]);
  must(status === 0, `${method} must be answered`, stderr);
  return JSON.parse(stdout);
}

function looksAt(image) {
  must(image.uid !== '0' && /^\d+$/.test(image.uid), 'USER must be a number and not root', image.uid);
  must(Array.isArray(image.entrypoint) && Array.isArray(image.command), 'ENTRYPOINT and CMD must be written as JSON: there is no shell');
  must(shellsIn(image.root).length === 0, 'there must be no shell in the image', shellsIn(image.root));
  must(execFileSync('find', [image.root, '-xdev', '-perm', '/6000', '-type', 'f'], { encoding: 'utf8' }) === '', 'no program may change its user');
  const bytes = Number(execFileSync('du', ['-sb', image.root], { encoding: 'utf8' }).split('\t')[0]);
  const packed = Number(execFileSync('sh', ['-c', 'tar -C "$1" -c . | gzip -1 | wc -c', 'sh', image.root], { encoding: 'utf8' }));
  say(`size ${(bytes / 1e6).toFixed(1)} MB, as layers in a registry ${(packed / 1e6).toFixed(1)} MB (gzip -1); base ${image.from} from Debian's packages; no shell, nothing setuid`);
}

function looksInside(container) {
  const { uid } = container.image;
  const status = readFileSync(`/proc/${firstProcess(container)}/status`, 'utf8');
  const field = (name) => new RegExp(`^${name}:\\s+(\\S+)`, 'm').exec(status)?.[1];
  must(field('Uid') === uid && [field('CapEff'), field('CapPrm')].every((set) => /^0+$/.test(set)) && field('NoNewPrivs') === '1', `it must run as ${uid} without capabilities`, status);
  const mounts = readFileSync(`/proc/${firstProcess(container)}/mountinfo`, 'utf8').split('\n');
  const optionsOf = (place) => mounts.findLast((line) => line.split(' ')[4] === place)?.split(' ')[5] ?? '';
  must(/\bro\b/.test(optionsOf('/')) && /noexec/.test(optionsOf('/tmp')) && container.image.volumes.every((place) => /noexec/.test(optionsOf(place))), 'the root must be read-only, /tmp and the volumes noexec', mounts.join('\n'));
  say(`it runs as user ${uid} without capabilities; root read-only, /tmp and volumes noexec`);
}

async function firstRun(image, volumes) {
  const started = performance.now();
  const container = runImage(image, volumes);
  const ms = await healthy(container);
  say(`ready and healthy ${Math.round(performance.now() - started)} ms after its start; HEALTHCHECK answers in ${ms} ms`);
  looksInside(container);
  const keyFile = image.env.PLANTROOM_BOOTSTRAP_KEY_FILE;
  must((statSync(join(volumes['/var/lib/plantroom'], keyFile.replace('/var/lib/plantroom/', ''))).mode & 0o777) === 0o600, 'the first key must be a file of its user alone');
  must(!container.output.includes('plr_'), 'no key may stand in the log');
  call(container, 'ConnectionService/CreateConnection', '{"connectorId": "gateway", "name": "Boiler room"}');
  const backup = execIn(container, [...image.entrypoint, 'backup']);
  must(backup.status === 0 && readdirSync(volumes[image.env.PLANTROOM_BACKUP_DIR]).some((name) => name.endsWith('.tar.zst')), 'a backup must be made', backup);
  const code = await signal(container, image.stopSignal);
  must(code === 0 && container.output.includes('"server.stopped"'), `${image.stopSignal} must end it with 0`, `${code}: ${container.output}`);
  say(`the first key is in its file and not in the log; a call is answered; a backup is made; ${image.stopSignal} ends it with 0`);
}

async function afterKill(image, volumes) {
  const second = runImage(image, volumes);
  await healthy(second);
  await signal(second, 'SIGKILL');
  const third = runImage(image, volumes);
  await healthy(third);
  const { connections } = call(third, 'ConnectionService/ListConnections');
  must(connections.length === 1 && connections[0].name === 'Boiler room', 'what was stored must be there after a kill', connections);
  const silent = execIn(third, [...image.entrypoint, 'health', '--data-dir', '/tmp/elsewhere']);
  must(silent.status === 1, 'where no server runs nothing is healthy', silent);
  must((await signal(third, image.stopSignal)) === 0, 'it must stop in peace', third.output);
  say('killed and started again on the same volume: everything is there');
}

async function wrongRights(image, work) {
  const volumes = newVolumes(image, work);
  chownSync(volumes['/var/lib/plantroom'], 0, 0);
  const refused = runImage(image, volumes);
  const code = await refused.ended;
  const message = refused.output.trim().split('\n').at(-1) ?? '';
  must(code === 1 && message.includes('/var/lib/plantroom') && message.includes(`uid ${image.uid}`), 'a volume of another user must be refused with a clear message', `${code}: ${refused.output}`);
  say(`a volume of another user is refused: ${message}`);
}

async function prove() {
  const release = existsSync('/etc/os-release') ? readFileSync('/etc/os-release', 'utf8') : '';
  const why = whyNoContainers() ?? (/^VERSION_ID="?12"?$/m.test(release) && /^ID=debian$/m.test(release) ? undefined : `this is no Debian ${debianOf('gcr.io/distroless/cc-debian12')}, whose packages the base image is made of`);
  if (why !== undefined) return console.log(`NOT HERE: ${why}; the image of the Dockerfile was neither built nor run`);
  freshBinary();
  const work = mkdtempSync(join(tmpdir(), 'plantroom-image-'));
  try {
    mkdirSync(CACHE, { recursive: true });
    const image = buildImage(work, CACHE);
    looksAt(image);
    const volumes = newVolumes(image, work);
    await firstRun(image, volumes);
    await afterKill(image, volumes);
    await wrongRights(image, work);
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}

await prove();

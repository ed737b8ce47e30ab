// Tests the image without a container engine: builds the root file system of the Dockerfile and runs it.
//   node scripts/ship/image.mjs        as root, on Debian, after npm run build:binary
// If this machine cannot do that, it prints SKIPPED and exits with 0.
import { execFileSync } from 'node:child_process';
import { chownSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { execIn, getFirstProcess, runImage, sendSignal, whyNoContainers } from './container.mjs';
import { buildImage, getDebianRelease, findShells } from './buildImage.mjs';
import { findCurrentBinary } from './program.mjs';

const CACHE = 'node_modules/.cache/plantroom-image';
const began = performance.now();

function log(text) {
  console.log(`image: ${((performance.now() - began) / 1000).toFixed(1).padStart(5)} s  ${text}`);
}

function assertThat(condition, message, details = '') {
  if (!condition)
    throw new Error(
      `${message}${details === '' ? '' : `; got: ${typeof details === 'string' ? details.slice(-2000) : JSON.stringify(details)}`}`,
    );
}

/** Creates the volumes of a new installation, with the owner of their mount points in the image. */
function createVolumes(image, work) {
  const volumes = Object.fromEntries(image.volumes.map((place) => [place, mkdtempSync(join(work, 'volume-'))]));
  for (const [place, folder] of Object.entries(volumes)) {
    const { uid, gid } = statSync(join(image.root, place));
    chownSync(folder, uid, gid);
  }
  return volumes;
}

/**
 * Waits deadline the server is ready and its HEALTHCHECK succeeds. Returns the duration of the check in milliseconds.
 */
async function waitUntilHealthy(container) {
  const { health } = container.image;
  const deadline = Date.now() + Number.parseInt(health.flags['start-period'], 10) * 1000;
  while (Date.now() < deadline) {
    assertThat(container.child.exitCode === null, 'the server exited instead of starting', container.output);
    if (container.output.includes('"server.ready"')) {
      const check = execIn(container, health.command);
      assertThat(check.status === 0, 'a ready server must be healthy', check);
      return check.ms;
    }
    await pause(25);
  }
  throw new Error(`the server was not ready in time: ${container.output}`);
}

function call(container, method, body = '{}') {
  const { status, stdout, stderr } = execIn(container, [...container.image.entrypoint, 'call', method, body]);
  assertThat(status === 0, `${method} must succeed`, stderr);
  return JSON.parse(stdout);
}

function checkImage(image) {
  assertThat(image.uid !== '0' && /^\d+$/.test(image.uid), 'USER must be a number and not root', image.uid);
  assertThat(
    Array.isArray(image.entrypoint) && Array.isArray(image.command),
    'ENTRYPOINT and CMD must be written as JSON: there is no shell',
  );
  assertThat(findShells(image.root).length === 0, 'there must be no shell in the image', findShells(image.root));
  assertThat(
    execFileSync('find', [image.root, '-xdev', '-perm', '/6000', '-type', 'f'], { encoding: 'utf8' }) === '',
    'no file may be setuid or setgid',
  );
  for (const name of ['THIRD_PARTY_NOTICES.txt', 'sbom.cdx.json'])
    assertThat(
      existsSync(join(image.root, 'usr/share/doc/plantroom', name)),
      `/usr/share/doc/plantroom must contain ${name}`,
    );
  const bytes = Number(execFileSync('du', ['-sb', image.root], { encoding: 'utf8' }).split('\t')[0]);
  const compressedBytes = Number(
    execFileSync('sh', ['-c', 'tar -C "$1" -c . | gzip -1 | wc -c', 'sh', image.root], { encoding: 'utf8' }),
  );
  log(
    `size ${(bytes / 1e6).toFixed(1)} MB, compressed ${(compressedBytes / 1e6).toFixed(1)} MB (gzip -1); base ${image.from} from Debian's packages; no shell, no setuid files`,
  );
}

function checkContainer(container) {
  const { uid } = container.image;
  const status = readFileSync(`/proc/${getFirstProcess(container)}/status`, 'utf8');
  const field = (name) => new RegExp(`^${name}:\\s+(\\S+)`, 'm').exec(status)?.[1];
  assertThat(
    field('Uid') === uid &&
      [field('CapEff'), field('CapPrm')].every((set) => /^0+$/.test(set)) &&
      field('NoNewPrivs') === '1',
    `the server must run as ${uid} without capabilities`,
    status,
  );
  const mounts = readFileSync(`/proc/${getFirstProcess(container)}/mountinfo`, 'utf8').split('\n');
  const getOptions = (place) => mounts.findLast((line) => line.split(' ')[4] === place)?.split(' ')[5] ?? '';
  assertThat(
    /\bro\b/.test(getOptions('/')) &&
      /noexec/.test(getOptions('/tmp')) &&
      container.image.volumes.every((place) => /noexec/.test(getOptions(place))),
    'the root must be read-only, /tmp and the volumes noexec',
    mounts.join('\n'),
  );
  log(`the server runs as user ${uid} without capabilities; root read-only, /tmp and volumes noexec`);
}

async function checkFirstRun(image, volumes) {
  const started = performance.now();
  const container = runImage(image, volumes);
  const ms = await waitUntilHealthy(container);
  log(`ready and healthy ${Math.round(performance.now() - started)} ms after its start; HEALTHCHECK takes ${ms} ms`);
  checkContainer(container);
  const keyFile = image.env.PLANTROOM_BOOTSTRAP_KEY_FILE;
  assertThat(
    (statSync(join(volumes['/var/lib/plantroom'], keyFile.replace('/var/lib/plantroom/', ''))).mode & 0o777) === 0o600,
    'the first key file must have mode 0600',
  );
  assertThat(!container.output.includes('plr_'), 'the log must not contain an API key');
  call(container, 'ConnectionService/CreateConnection', '{"connectorId": "gateway", "name": "Boiler room"}');
  const backup = execIn(container, [...image.entrypoint, 'backup']);
  assertThat(
    backup.status === 0 &&
      readdirSync(volumes[image.env.PLANTROOM_BACKUP_DIR]).some((name) => name.endsWith('.tar.zst')),
    'a backup must be created',
    backup,
  );
  const code = await sendSignal(container, image.stopSignal);
  assertThat(
    code === 0 && container.output.includes('"server.stopped"'),
    `${image.stopSignal} must stop the server with exit code 0`,
    `${code}: ${container.output}`,
  );
  log(
    `the first key is in its file and not in the log; a call succeeds; a backup is created; ${image.stopSignal} stops the server with exit code 0`,
  );
}

async function checkRestartAfterKill(image, volumes) {
  const second = runImage(image, volumes);
  await waitUntilHealthy(second);
  await sendSignal(second, 'SIGKILL');
  const third = runImage(image, volumes);
  await waitUntilHealthy(third);
  const { connections } = call(third, 'ConnectionService/ListConnections');
  assertThat(
    connections.length === 1 && connections[0].name === 'Boiler room',
    'stored data must exist after a kill',
    connections,
  );
  const healthCheck = execIn(third, [...image.entrypoint, 'health', '--data-dir', '/tmp/elsewhere']);
  assertThat(healthCheck.status === 1, 'the health check must fail where no server runs', healthCheck);
  assertThat((await sendSignal(third, image.stopSignal)) === 0, 'the server must stop cleanly', third.output);
  log('killed and restarted on the same volumes: all data exists');
}

async function checkForeignVolume(image, work) {
  const volumes = createVolumes(image, work);
  chownSync(volumes['/var/lib/plantroom'], 0, 0);
  const rejected = runImage(image, volumes);
  const code = await rejected.ended;
  const message = rejected.output.trim().split('\n').at(-1) ?? '';
  assertThat(
    code === 1 && message.includes('/var/lib/plantroom') && message.includes(`uid ${image.uid}`),
    'a volume of another user must be rejected with a clear message',
    `${code}: ${rejected.output}`,
  );
  log(`a volume of another user is rejected: ${message}`);
}

async function testImage() {
  const release = existsSync('/etc/os-release') ? readFileSync('/etc/os-release', 'utf8') : '';
  const reason =
    whyNoContainers() ??
    (/^VERSION_ID="?12"?$/m.test(release) && /^ID=debian$/m.test(release)
      ? undefined
      : `this is not Debian ${getDebianRelease('gcr.io/distroless/cc-debian12')}, whose packages the base image contains`);
  if (reason !== undefined)
    return console.log(`SKIPPED: ${reason}; the image of the Dockerfile was neither built nor run`);
  findCurrentBinary();
  const work = mkdtempSync(join(tmpdir(), 'plantroom-image-'));
  try {
    mkdirSync(CACHE, { recursive: true });
    const image = buildImage(work, CACHE);
    checkImage(image);
    const volumes = createVolumes(image, work);
    await checkFirstRun(image, volumes);
    await checkRestartAfterKill(image, volumes);
    await checkForeignVolume(image, work);
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}

await testImage();

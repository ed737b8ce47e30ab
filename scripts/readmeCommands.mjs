// Runs the marked blocks of the README and the guides in one shell, exactly as a reader would paste them, against a
// server that it starts. The grpcurl block is skipped, with a message, if grpcurl is not installed. The guides for MQTT
// and ChirpStack require Mosquitto. scripts/tours/script.mjs documents the marks.
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { connect, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as pause } from 'node:timers/promises';
import { listBlocks, buildScript } from './tours/script.mjs';

const PAGES = [
  { file: 'README.md' },
  { file: 'docs/rest.md' },
  { file: 'docs/access.md' },
  { file: 'docs/profiles.md' },
  { file: 'docs/connect-mqtt.md', hasBroker: true },
  { file: 'docs/connect-chirpstack.md', hasBroker: true },
];
// Files and folders that the blocks create in the current folder; the last lines of the pages remove them too.
const CREATED_FILES = [
  'connection.json',
  'device.json',
  'command.json',
  'execution.json',
  'codecs',
  'key.json',
  'page.json',
  'picture.json',
  'valve.png',
  'copy.png',
  'thumbnail.webp',
  'device.etag',
  'openapi.json',
  'client',
  'whoami.json',
  'member.json',
  'role.json',
  'admin.json',
  'organization.json',
  'deletion.json',
  'profiles-copy',
];
// Blocks with these marks are run by npm run ship.
const BINARY_ONLY_KINDS = ['serve', 'binary'];
const hasGrpcurl = spawnSync('grpcurl', ['--version'], { stdio: 'ignore' }).status === 0;
const log = (text) => console.log(`tour: ${text}`);
const selectedFiles = process.argv.slice(2);
if (spawnSync('curl', ['--version'], { stdio: 'ignore' }).status !== 0)
  throw new Error('curl is not installed. Install it (Debian: apt-get install curl).');

const existingFiles = CREATED_FILES.filter((file) => existsSync(file));
if (existingFiles.length > 0) {
  log(`the commands would overwrite ${existingFiles.join(', ')} in this folder. Move or remove these files first.`);
  process.exit(1);
}

/**
 * Runs `npm start` until the server is ready. Returns the process, the API key and organization id that it printed, and
 * the gRPC and HTTP addresses.
 */
async function startServer(env) {
  const server = spawn('npm', ['start'], { env, stdio: ['ignore', 'pipe', 'pipe'] });
  const printed = { key: undefined, organization: undefined, grpc: undefined, http: undefined };
  await new Promise((resolve, reject) => {
    const readLine = (line) => {
      printed.key ??= line.match(/plr_[0-9A-Za-z]{49}/)?.[0];
      printed.organization ??= line.match(/^ *organization +(\S+)/)?.[1];
      if (line.includes('"server.ready"')) ({ grpc: printed.grpc, http: printed.http } = JSON.parse(line));
      if (printed.key && printed.grpc) resolve();
    };
    createInterface({ input: server.stdout }).on('line', readLine);
    createInterface({ input: server.stderr }).on('line', readLine);
    server.on('exit', (code) =>
      reject(
        new Error(
          `npm start exited with code ${code} before the server was ready (key printed: ${Boolean(printed.key)}, ready event logged: ${Boolean(printed.grpc)})`,
        ),
      ),
    );
  });
  return { server, ...printed };
}

/** Starts Mosquitto with its default configuration (local clients only, no passwords) on a free port. */
async function startBroker() {
  const folders = [...process.env.PATH.split(delimiter), '/usr/sbin', '/usr/local/sbin', '/opt/homebrew/sbin'];
  const program = folders.map((folder) => join(folder, 'mosquitto')).find((file) => existsSync(file));
  if (!program) throw new Error('Mosquitto is not installed. Install it (Debian: apt-get install mosquitto).');
  const port = await findFreePort();
  const broker = spawn(program, ['-p', String(port)], { stdio: ['ignore', 'ignore', 'ignore'] });
  while (!(await acceptsConnections(port))) {
    if (broker.exitCode !== null) throw new Error(`mosquitto exited with code ${broker.exitCode}`);
    await pause(20);
  }
  return { broker, port };
}

async function findFreePort() {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address();
  server.close();
  await once(server, 'close');
  return port;
}

async function acceptsConnections(port) {
  const socket = connect(port, '127.0.0.1');
  const isConnected = await new Promise((resolve) =>
    socket.once('connect', () => resolve(true)).once('error', () => resolve(false)),
  );
  socket.destroy();
  return isConnected;
}

/** Runs the blocks of one page. Returns whether all of them succeeded. */
async function runPage({ file, hasBroker }) {
  const blocks = listBlocks(file).filter(({ kind }) => !BINARY_ONLY_KINDS.includes(kind));
  const runnable = blocks.filter(({ kind }) => kind !== 'grpcurl' || hasGrpcurl);
  const folder = mkdtempSync(join(tmpdir(), 'plantroom-tour-'));
  const env = {
    ...process.env,
    PLANTROOM_DATA_DIR: join(folder, 'data'),
    PLANTROOM_GRPC_LISTEN: '127.0.0.1:0',
    PLANTROOM_HTTP_LISTEN: '127.0.0.1:0',
    PLANTROOM_METRICS_LISTEN: '127.0.0.1:0',
  };
  const { broker, port } = hasBroker ? await startBroker() : {};
  const { server, ...printed } = await startServer(env);
  try {
    log(
      `${file}: the server is ready on ${printed.grpc} and ${printed.http}; ${blocks.length} blocks to run${runnable.length === blocks.length ? '' : '; grpcurl is not installed: its block is SKIPPED'}`,
    );
    const result = spawnSync('bash', ['-c', buildScript(runnable, { ...printed, port, folder })], {
      env,
      encoding: 'utf8',
      timeout: 180_000,
    });
    const hasSucceeded = result.status === 0 && result.stdout.includes('TOUR COMPLETE');
    if (hasSucceeded) log(`${file}: all blocks succeeded`);
    else
      console.error(
        result.stdout,
        result.stderr,
        existsSync(join(folder, 'simulator.log')) ? readFileSync(join(folder, 'simulator.log'), 'utf8') : '',
      );
    return hasSucceeded;
  } finally {
    const exited = once(server, 'exit');
    server.kill('SIGTERM');
    await exited;
    broker?.kill('SIGTERM');
    for (const file of CREATED_FILES) rmSync(file, { recursive: true, force: true });
    rmSync(folder, { recursive: true, force: true });
  }
}

for (const page of PAGES) {
  if (selectedFiles.length > 0 && !selectedFiles.includes(page.file)) continue;
  if (!(await runPage(page))) process.exit(1);
}

// Follows the tours of the README and of the guides word by word against a server of its own: every marked block is pasted into one shell,
// as a newcomer would. The grpcurl block runs where grpcurl is on the machine; else it says plainly that it was skipped. The guides for MQTT
// and ChirpStack get a real Mosquitto, and fail where there is none. Which marks there are: scripts/tours/script.mjs.
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { connect, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as pause } from 'node:timers/promises';
import { blocksOf, scriptOf } from './tours/script.mjs';

const TOURS = [{ file: 'README.md' }, { file: 'docs/rest.md' }, { file: 'docs/access.md' }, { file: 'docs/profiles.md' }, { file: 'docs/connect-mqtt.md', hasBroker: true }, { file: 'docs/connect-chirpstack.md', hasBroker: true }];
// What the tours leave in the folder; their own last lines remove the same.
const notes = ['connection.json', 'device.json', 'command.json', 'execution.json', 'codecs', 'key.json', 'page.json', 'picture.json', 'valve.png', 'copy.png', 'thumbnail.webp', 'device.etag', 'openapi.json', 'client', 'whoami.json', 'member.json', 'role.json', 'admin.json', 'organization.json', 'deletion.json', 'profiles-copy'];
// npm run ship follows these.
const FOR_THE_BINARY = ['serve', 'binary'];
const hasGrpcurl = spawnSync('grpcurl', ['--version'], { stdio: 'ignore' }).status === 0;
const say = (text) => console.log(`tour: ${text}`);
const wanted = process.argv.slice(2);
if (spawnSync('curl', ['--version'], { stdio: 'ignore' }).status !== 0) throw new Error('there is no curl on this machine, and the tours need it: install it (Debian: apt-get install curl)');

const kept = notes.filter((note) => existsSync(note));
if (kept.length > 0) {
  say(`the tour would write over ${kept.join(', ')} in this folder; move or remove them first`);
  process.exit(1);
}

/** `npm start`, until it is ready; the key and the organization as they are shown on the terminal. */
async function startServer(env) {
  const server = spawn('npm', ['start'], { env, stdio: ['ignore', 'pipe', 'pipe'] });
  const seen = { key: undefined, organization: undefined, grpc: undefined, http: undefined };
  await new Promise((resolve, reject) => {
    const look = (line) => {
      seen.key ??= line.match(/plr_[0-9A-Za-z]{49}/)?.[0];
      seen.organization ??= line.match(/^ *organization +(\S+)/)?.[1];
      if (line.includes('"server.ready"')) ({ grpc: seen.grpc, http: seen.http } = JSON.parse(line));
      if (seen.key && seen.grpc) resolve();
    };
    createInterface({ input: server.stdout }).on('line', look);
    createInterface({ input: server.stderr }).on('line', look);
    server.on('exit', (code) => reject(new Error(`npm start ended with ${code} before it was ready; key seen: ${Boolean(seen.key)}, ready line seen: ${Boolean(seen.grpc)}`)));
  });
  return { server, ...seen };
}

/** Mosquitto as it is right after its installation: for this machine alone, without passwords. On a port of its own. */
async function startBroker() {
  const folders = [...process.env.PATH.split(delimiter), '/usr/sbin', '/usr/local/sbin', '/opt/homebrew/sbin'];
  const program = folders.map((folder) => join(folder, 'mosquitto')).find((file) => existsSync(file));
  if (!program) throw new Error('there is no Mosquitto on this machine, and the guides need one: install it (Debian: apt-get install mosquitto)');
  const port = await freePort();
  const broker = spawn(program, ['-p', String(port)], { stdio: ['ignore', 'ignore', 'ignore'] });
  while (!(await isOpen(port))) {
    if (broker.exitCode !== null) throw new Error(`mosquitto ended with ${broker.exitCode}`);
    await pause(20);
  }
  return { broker, port };
}

async function freePort() {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address();
  server.close();
  await once(server, 'close');
  return port;
}

async function isOpen(port) {
  const socket = connect(port, '127.0.0.1');
  const answer = await new Promise((resolve) => socket.once('connect', () => resolve(true)).once('error', () => resolve(false)));
  socket.destroy();
  return answer;
}

/** Whether every block did what its page says. */
async function follow({ file, hasBroker }) {
  const blocks = blocksOf(file).filter(({ kind }) => !FOR_THE_BINARY.includes(kind));
  const pasted = blocks.filter(({ kind }) => kind !== 'grpcurl' || hasGrpcurl);
  const folder = mkdtempSync(join(tmpdir(), 'plantroom-tour-'));
  const env = { ...process.env, PLANTROOM_DATA_DIR: join(folder, 'data'), PLANTROOM_GRPC_LISTEN: '127.0.0.1:0', PLANTROOM_HTTP_LISTEN: '127.0.0.1:0', PLANTROOM_METRICS_LISTEN: '127.0.0.1:0' };
  const { broker, port } = hasBroker ? await startBroker() : {};
  const { server, ...seen } = await startServer(env);
  try {
    say(`${file}: the server is ready on ${seen.grpc} and ${seen.http}; ${blocks.length} blocks to paste${pasted.length === blocks.length ? '' : '; grpcurl is not on this machine: its block is SKIPPED'}`);
    const result = spawnSync('bash', ['-c', scriptOf(pasted, { ...seen, port, folder })], { env, encoding: 'utf8', timeout: 180_000 });
    const isDone = result.status === 0 && result.stdout.includes('TOUR COMPLETE');
    if (isDone) say(`${file}: every block did what it says`);
    else console.error(result.stdout, result.stderr, existsSync(join(folder, 'simulator.log')) ? readFileSync(join(folder, 'simulator.log'), 'utf8') : '');
    return isDone;
  } finally {
    const ended = once(server, 'exit');
    server.kill('SIGTERM');
    await ended;
    broker?.kill('SIGTERM');
    for (const note of notes) rmSync(note, { recursive: true, force: true });
    rmSync(folder, { recursive: true, force: true });
  }
}

for (const tour of TOURS) {
  if (wanted.length > 0 && !wanted.includes(tour.file)) continue;
  if (!(await follow(tour))) process.exit(1);
}

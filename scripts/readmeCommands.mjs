// Follows the tour of the README word by word against a server of its own: every marked block is pasted into one shell, as a newcomer would.
// The grpcurl block runs where grpcurl is on the machine; else it says plainly that it was skipped.
import { spawn, spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';

const readme = readFileSync('README.md', 'utf8');
const blocks = [...readme.matchAll(/<!-- tour(?::(\w+))? -->\n```sh\n([\s\S]*?)```/g)].map(([, kind, script]) => ({ kind: kind ?? 'run', script }));
const folder = mkdtempSync(join(tmpdir(), 'plantroom-tour-'));
const env = { ...process.env, PLANTROOM_DATA_DIR: join(folder, 'data'), PLANTROOM_GRPC_LISTEN: '127.0.0.1:0' };
const notes = ['connection.json', 'device.json', 'command.json', 'execution.json', 'codecs'];
const hasGrpcurl = spawnSync('grpcurl', ['--version'], { stdio: 'ignore' }).status === 0;
const say = (text) => console.log(`tour: ${text}`);

const kept = notes.filter((note) => existsSync(note));
if (kept.length > 0) {
  say(`the tour would write over ${kept.join(', ')} in this folder; move or remove them first`);
  process.exit(1);
}

/** `npm start`, until it is ready; the key as it is shown on the terminal. */
async function start() {
  const server = spawn('npm', ['start'], { env, stdio: ['ignore', 'pipe', 'pipe'] });
  const seen = { key: undefined, grpc: undefined };
  await new Promise((resolve, reject) => {
    const look = (line) => {
      seen.key ??= line.match(/plr_[0-9A-Za-z]{49}/)?.[0];
      if (line.includes('"server.ready"')) seen.grpc = JSON.parse(line).grpc;
      if (seen.key && seen.grpc) resolve();
    };
    createInterface({ input: server.stdout }).on('line', look);
    createInterface({ input: server.stderr }).on('line', look);
    server.on('exit', (code) => reject(new Error(`npm start ended with ${code} before it was ready; key seen: ${Boolean(seen.key)}, ready line seen: ${Boolean(seen.grpc)}`)));
  });
  return { server, ...seen };
}

/** The blocks as one script. What differs from a newcomer's machine: the port, the data folder, and that it stops at the first mistake. */
function script(key, grpc) {
  const lines = ['set -euo pipefail'];
  for (const { kind, script: block } of blocks) {
    if (kind === 'grpcurl' && !hasGrpcurl) continue;
    const text = block.replaceAll('plr_...', key).replaceAll('localhost:50051', grpc.replace('127.0.0.1', 'localhost')).replaceAll('data/tls', `${env.PLANTROOM_DATA_DIR}/tls`);
    lines.push(kind === 'background' ? `${text.trim().replace(/&$/, `> ${folder}/simulator.log 2>&1 &`)}\nSIMULATOR=$!` : text);
    if (kind === 'background') lines.push(`until grep -qi attached ${folder}/simulator.log; do kill -0 $SIMULATOR; sleep 0.2; done`);
  }
  const final = 'npm run --silent plantroom -- call ActuatorCommandService/GetExecution "{\\"executionId\\": \\"$EXECUTION\\"}"';
  lines.push(`until ${final} | grep -q converged; do sleep 0.2; done`, 'kill $SIMULATOR', 'wait $SIMULATOR || true', 'echo TOUR COMPLETE');
  return lines.join('\n');
}

const { server, key, grpc } = await start();
let failed = true;
try {
  say(`the server is ready on ${grpc}; ${blocks.length} blocks to paste${hasGrpcurl ? '' : '; grpcurl is not on this machine: its block is SKIPPED'}`);
  const result = spawnSync('bash', ['-c', script(key, grpc)], { env, encoding: 'utf8', timeout: 120_000 });
  failed = result.status !== 0 || !result.stdout.includes('TOUR COMPLETE');
  if (failed) console.error(result.stdout, result.stderr, readFileSync(join(folder, 'simulator.log'), 'utf8'));
  else say('every block did what the README says; the execution ended as converged');
} finally {
  const ended = new Promise((resolve) => server.once('exit', resolve));
  server.kill('SIGTERM');
  await ended;
  for (const note of notes) rmSync(note, { recursive: true, force: true });
  rmSync(folder, { recursive: true, force: true });
}
process.exit(failed ? 1 : 0);

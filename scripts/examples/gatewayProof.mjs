// The small gateway of docs/clients.md as the field of a connection. Its link is closed while a command is under way, it is killed, started
// again, and let through: no command twice, no uplink lost.
import { setTimeout as pause } from 'node:timers/promises';
import { makeLink } from './link.mjs';
import { must, PLANTROOM, shell, startShell } from './programs.mjs';

const FLAGS = ' --interval 0.05 --travel 1';
const WAIT_MS = 20_000;

/** Runs the block of the gateway, and commands through it by the block of the client. What it came to, in words. */
export async function proveGateway({ gateway, client }, { folder, env, address, site }) {
  const from = new Date(Date.now() - 1000);
  const link = await makeLink(address);
  const usual = { cwd: folder, env: { ...env, ...site }, seconds: 120 };
  const start = () => startShell(`exec ${gateway.trim().replaceAll('localhost:50051', link.address)}${FLAGS}`, usual);
  const execute = (position) => startShell(client.replaceAll('localhost:50051', address).replace('"position": 40', `"position": ${position}`), usual);
  try {
    const first = start();
    await first.until('attached');
    const done = execute(10);
    await ended(done, 'converged');

    const underWay = execute(20);
    await first.until('the valve moves to 20');
    link.close();
    await first.until('kept uplink', 8);
    first.signal('SIGKILL');
    must((await first.code) === 'SIGKILL', 'the gateway must end by the kill', first.lines);

    const queued = execute(30);
    await queued.until('state enqueued');
    const second = start();
    await second.until('kept uplink', 8);
    link.open();
    await ended(queued, 'converged');
    // It had begun when the gateway was killed: nobody knows what it did, and nobody claims to.
    await ended(underWay, 'unconfirmed');

    const lines = [...first.lines, ...second.lines];
    const moves = lines.filter((line) => line.startsWith('the valve moves')).map((line) => line.split(' ').at(-1));
    must(moves.length === 3 && new Set(moves).size === 3, `three commands must each move the valve once; it was moved for ${moves.join(', ')}`);
    const count = await allStored(second, lines, { from, folder, env, site, first });
    return `3 commands once each, ${count} uplinks stored once each, over a closed link and a kill`;
  } finally {
    link.end();
  }
}

async function ended(client, state) {
  const code = await client.code;
  const last = client.lines.filter((line) => line.startsWith('state ')).at(-1);
  must(last?.startsWith(`state ${state}`), `the execution must end as ${state}, and the client ended with ${code}`, client.lines);
}

/** Stops the gateway, and compares what it kept with the readings on the server. How many there are. */
async function allStored(second, lines, { from, folder, env, site, first }) {
  const kept = () => [...first.lines, ...second.lines].filter((line) => line.startsWith('kept uplink')).map((line) => Date.parse(line.split(' ').at(-1)));
  const request = () => JSON.stringify({ sensorIds: [site.SENSOR], from: from.toISOString(), to: new Date(Date.now() + 60_000).toISOString(), pageSize: 5000 });
  const read = async () => {
    const answer = await shell(`${PLANTROOM}plantroom call SensorQueryService/QueryRange '${request()}'`, { cwd: folder, env });
    return JSON.parse(answer.join('\n')).readings.map(({ time }) => Date.parse(time));
  };
  const wanted = kept();
  for (const end = Date.now() + WAIT_MS; ; await pause(200)) {
    const stored = await read();
    const missing = wanted.filter((time) => !stored.includes(time));
    if (missing.length > 0 && Date.now() < end) continue;
    must(missing.length === 0, `${missing.length} of ${wanted.length} uplinks that were kept are not on the server`, lines);
    must(new Set(stored).size === stored.length, `${stored.length - new Set(stored).size} readings are stored twice`);
    second.signal('SIGTERM');
    await second.code;
    return wanted.length;
  }
}

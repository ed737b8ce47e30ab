// Tests the small gateway of docs/clients.md: its link is closed while a command is in progress, and it is killed and
// restarted. No command may be carried out twice, no uplink may be lost.
import { setTimeout as pause } from 'node:timers/promises';
import { createLink } from './link.mjs';
import { assertThat, PLANTROOM, runShell, startShell } from './programs.mjs';

const FLAGS = ' --interval 0.05 --travel 1';
const WAIT_MS = 20_000;

/** Runs the block of the gateway, and commands with the block of the client. Returns a summary. */
export async function proveGateway({ gateway, client }, { folder, env, address, site }) {
  const from = new Date(Date.now() - 1000);
  const link = await createLink(address);
  const options = { cwd: folder, env: { ...env, ...site }, seconds: 120 };
  const start = () => startShell(`exec ${gateway.trim().replaceAll('localhost:50051', link.address)}${FLAGS}`, options);
  const execute = (position) =>
    startShell(
      client.replaceAll('localhost:50051', address).replace('"position": 40', `"position": ${position}`),
      options,
    );
  try {
    const first = start();
    await first.until('attached');
    const firstCommand = execute(10);
    await expectFinalState(firstCommand, 'converged');

    const interruptedCommand = execute(20);
    await first.until('the valve moves to 20');
    link.close();
    await first.until('kept uplink', 8);
    first.signal('SIGKILL');
    assertThat((await first.code) === 'SIGKILL', 'the gateway must be killed', first.lines);

    const queuedCommand = execute(30);
    await queuedCommand.until('state enqueued');
    const second = start();
    await second.until('kept uplink', 8);
    link.open();
    await expectFinalState(queuedCommand, 'converged');
    // The command had started when the gateway was killed, so its result is unknown.
    await expectFinalState(interruptedCommand, 'unconfirmed');

    const lines = [...first.lines, ...second.lines];
    const moves = lines.filter((line) => line.startsWith('the valve moves')).map((line) => line.split(' ').at(-1));
    assertThat(
      moves.length === 3 && new Set(moves).size === 3,
      `three commands must move the valve once each, but it moved for ${moves.join(', ')}`,
    );
    const count = await checkReadings(second, lines, { from, folder, env, site, first });
    return `3 commands once each, ${count} uplinks stored once each, over a closed link and a kill`;
  } finally {
    link.end();
  }
}

async function expectFinalState(client, state) {
  const code = await client.code;
  const last = client.lines.filter((line) => line.startsWith('state ')).at(-1);
  assertThat(
    last?.startsWith(`state ${state}`),
    `the execution must end as ${state}; the client exited with code ${code}`,
    client.lines,
  );
}

/** Stops the gateway and checks that the server has exactly one reading per stored uplink. Returns their number. */
async function checkReadings(second, lines, { from, folder, env, site, first }) {
  const listStoredUplinks = () =>
    [...first.lines, ...second.lines]
      .filter((line) => line.startsWith('kept uplink'))
      .map((line) => Date.parse(line.split(' ').at(-1)));
  const request = () =>
    JSON.stringify({
      sensorIds: [site.SENSOR],
      from: from.toISOString(),
      to: new Date(Date.now() + 60_000).toISOString(),
      pageSize: 5000,
    });
  const read = async () => {
    const output = await runShell(`${PLANTROOM}plantroom call SensorQueryService/QueryRange '${request()}'`, {
      cwd: folder,
      env,
    });
    return JSON.parse(output.join('\n')).readings.map(({ time }) => Date.parse(time));
  };
  const expected = listStoredUplinks();
  for (const end = Date.now() + WAIT_MS; ; await pause(200)) {
    const stored = await read();
    const missing = expected.filter((time) => !stored.includes(time));
    if (missing.length > 0 && Date.now() < end) continue;
    assertThat(missing.length === 0, `${missing.length} of ${expected.length} uplinks are not on the server`, lines);
    assertThat(
      new Set(stored).size === stored.length,
      `${stored.length - new Set(stored).size} readings are stored twice`,
    );
    second.signal('SIGTERM');
    await second.code;
    return expected.length;
  }
}

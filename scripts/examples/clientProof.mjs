// Tests a client of docs/clients.md against the server and the simulated gateway.
import { join } from 'node:path';
import { createLink } from './link.mjs';
import { startFakeServer, RETRY_AFTER_MS } from './fakeServer.mjs';
import { assertThat, startShell } from './programs.mjs';

/**
 * Runs the block of a client and cuts its link while it watches. It must list the device and report `converged`. The
 * gateway is paused until the link is cut, so that the execution cannot finish earlier.
 */
export async function proveClient(block, { folder, env, address, site, simulator }) {
  const link = await createLink(address);
  simulator.signal('SIGSTOP');
  try {
    const client = startShell(block.replaceAll('localhost:50051', link.address), {
      cwd: folder,
      env: { ...env, ...site },
    });
    await client.until('state ');
    link.cut();
    await client.until('the link was lost');
    simulator.signal('SIGCONT');
    const code = await client.code;
    const { lines } = client;
    assertThat(code === 0, `the client exited with code ${code}`, lines);
    assertThat(
      lines.some((line) => line === `device ${site.DEVICE} Heating valve`),
      'the client must list the heating valve',
      lines,
    );
    assertThat(
      lines.filter((line) => line.startsWith('state ')).at(-1) === 'state converged',
      'the execution must converge',
      lines,
    );
  } finally {
    simulator.signal('SIGCONT');
    link.end();
  }
}

/** Runs the client with an invalid API key: it must print the reason from the error details. */
export async function proveError(block, { folder, env, address, site }) {
  const client = startShell(block.replaceAll('localhost:50051', address), {
    cwd: folder,
    env: { ...env, ...site, PLANTROOM_API_KEY: 'plr_wrong' },
  });
  assertThat((await client.code) === 1, 'a client with an invalid key must exit with code 1', client.lines);
  assertThat(
    client.lines.some((line) => line.includes('api_key_invalid')),
    'a client must print the reason of an error',
    client.lines,
  );
}

/**
 * Runs the client against a fake server. It must repeat a rejected read at the start of a watch, after the requested delay,
 * and reject --device without --command.
 */
export async function proveRules(block, { folder, env, site, bundle }) {
  const fakeServer = await startFakeServer({ bundle, tls: join(folder, 'data/tls') });
  const options = { cwd: folder, env: { ...env, ...site }, seconds: 30 };
  try {
    const text = block.replaceAll('localhost:50051', fakeServer.address);
    const invalid = startShell(text.replace('--command "$COMMAND"', ''), options);
    assertThat(
      (await invalid.code) !== 0 && fakeServer.calls.executed === 0,
      'a client must refuse --device without --command',
      invalid.lines,
    );
    const client = startShell(text, options);
    const code = await client.code;
    const { executed, watches, reads } = fakeServer.calls;
    const details = [
      ...client.lines,
      `watched from ${watches.map((token) => `'${token}'`).join(', ')}, read ${reads.length} times`,
    ];
    assertThat(
      code === 0 && executed === 1 && client.lines.includes('state converged'),
      `a client whose first read is rejected must still report the final state; it exited with code ${code}`,
      details,
    );
    assertThat(
      watches.every((token) => token === ''),
      'a watch whose read failed must restart from the beginning',
      details,
    );
    assertThat(
      reads[1] - reads[0] >= RETRY_AFTER_MS - 50,
      'a client must wait for the retry delay of an error',
      details,
    );
  } finally {
    fakeServer.stop();
  }
}

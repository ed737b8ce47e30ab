// Tests a connection that breaks silently while it is idle: only keepalive pings detect it.
import { resolve } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { createLink } from './link.mjs';
import { assertThat, startShell } from './programs.mjs';

// Long enough for more pings than gRPC sends by default on an idle stream, and the maximum time to detect the break.
// quiet_link.py sends a ping per second.
const QUIET_MS = 4000;
const MAX_DETECTION_MS = 6000;

/** Checks that the channel of the Python examples detects the break. */
export async function proveQuietLink({ folder, env, address }) {
  const link = await createLink(address);
  try {
    const watcher = startShell(
      `exec python ${JSON.stringify(resolve('scripts/examples/quiet_link.py'))} --address ${link.address} --ca data/tls/ca.pem`,
      { cwd: folder, env, seconds: 30 },
    );
    await watcher.until('watching');
    await pause(QUIET_MS);
    link.swallow();
    const code = await Promise.race([watcher.code, pause(MAX_DETECTION_MS, 'nothing', { ref: false })]);
    assertThat(
      code === 0 && watcher.lines.some((line) => line.startsWith('lost')),
      'a silently broken connection must be detected on an idle stream',
      watcher.lines,
    );
  } finally {
    link.end();
  }
}

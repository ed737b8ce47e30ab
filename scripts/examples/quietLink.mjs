// A link that breaks without a word while nothing happens on it: only pings find it out.
import { resolve } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { makeLink } from './link.mjs';
import { must, startShell } from './programs.mjs';

// More pings than gRPC sends by itself on a quiet stream, and what it may take to find the link broken. quiet_link.py sends one each second.
const QUIET_MS = 4000;
const FOUND_WITHIN_MS = 6000;

/** Proves that the channel of the Python examples finds out. */
export async function proveQuietLink({ folder, env, address }) {
  const link = await makeLink(address);
  try {
    const watcher = startShell(`exec python ${JSON.stringify(resolve('scripts/examples/quiet_link.py'))} --address ${link.address} --ca data/tls/ca.pem`, { cwd: folder, env, seconds: 30 });
    await watcher.until('watching');
    await pause(QUIET_MS);
    link.swallow();
    const code = await Promise.race([watcher.code, pause(FOUND_WITHIN_MS, 'nothing', { ref: false })]);
    must(code === 0 && watcher.lines.some((line) => line.startsWith('lost')), 'a link that broke without a word must be found out on a quiet stream', watcher.lines);
  } finally {
    link.end();
  }
}

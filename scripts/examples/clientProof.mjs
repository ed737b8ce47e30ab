// A client of docs/clients.md against the server and the simulated gateway. Its link is cut while it watches.
import { join } from 'node:path';
import { makeLink } from './link.mjs';
import { playServer, RETRY_AFTER_MS } from './playedServer.mjs';
import { must, startShell } from './programs.mjs';

/** Runs the block of a client. It must list the device, lose its link, and come to `converged` all the same. */
export async function proveClient(block, { folder, env, address, site }) {
  const link = await makeLink(address);
  try {
    const client = startShell(block.replaceAll('localhost:50051', link.address), { cwd: folder, env: { ...env, ...site } });
    await client.until('state ');
    link.cut();
    const code = await client.code;
    const { lines } = client;
    must(code === 0, `the client ended with ${code}`, lines);
    must(lines.some((line) => line === `device ${site.DEVICE} Heating valve`), 'the client must list the heating valve', lines);
    must(lines.some((line) => line.startsWith('the link was lost')), 'the client must have lost its link', lines);
    must(lines.filter((line) => line.startsWith('state ')).at(-1) === 'state converged', 'the execution must end as converged', lines);
  } finally {
    link.end();
  }
}

/** Runs it with a key that is none: the reason must be read from the details of the error. */
export async function proveError(block, { folder, env, address, site }) {
  const client = startShell(block.replaceAll('localhost:50051', address), { cwd: folder, env: { ...env, ...site, PLANTROOM_API_KEY: 'plr_wrong' } });
  must((await client.code) === 1, 'a client with a wrong key must end with 1', client.lines);
  must(client.lines.some((line) => line.includes('api_key_invalid')), 'a client must tell the reason of an error', client.lines);
}

/** Runs it against a server that is played: a refused read while a watch begins is made again, not before its time; a device without a command is a mistake. */
export async function proveRules(block, { folder, env, site, bundle }) {
  const played = await playServer({ bundle, tls: join(folder, 'data/tls') });
  const usual = { cwd: folder, env: { ...env, ...site }, seconds: 30 };
  try {
    const text = block.replaceAll('localhost:50051', played.address);
    const mistaken = startShell(text.replace('--command "$COMMAND"', ''), usual);
    must((await mistaken.code) !== 0 && played.seen.executed === 0, 'a client must refuse --device without --command', mistaken.lines);
    const client = startShell(text, usual);
    const code = await client.code;
    const { executed, watches, reads } = played.seen;
    const told = [...client.lines, `watched from ${watches.map((token) => `'${token}'`).join(', ')}, read ${reads.length} times`];
    must(code === 0 && executed === 1 && client.lines.includes('state converged'), `a client whose first read is refused must see the end all the same; it ended with ${code}`, told);
    must(watches.every((token) => token === ''), 'a watch whose read failed must begin anew', told);
    must(reads[1] - reads[0] >= RETRY_AFTER_MS - 50, 'a client must wait as long as a refusal says', told);
  } finally {
    played.stop();
  }
}

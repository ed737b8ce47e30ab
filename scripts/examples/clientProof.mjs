// A client of docs/clients.md against the server and the simulated gateway. Its link is cut while it watches.
import { makeLink } from './link.mjs';
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

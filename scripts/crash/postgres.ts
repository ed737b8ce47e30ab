import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { Client } from 'pg';

/** Starts the PostgreSQL of the tests, which ends with this process. Answers how to make an empty database: its address. */
export async function startPostgres(): Promise<() => Promise<string>> {
  const file = join(__dirname, '..', 'test', 'support', 'postgres.globalSetup.cjs');
  const { default: start } = (await import(pathToFileURL(file).href)) as { default: () => Promise<void> };
  await start();
  const server = process.env['TEST_POSTGRES_URL'] ?? '';
  let made = 0;
  return async () => {
    made += 1;
    const name = `crash_${made}`;
    const client = new Client({ connectionString: server });
    await client.connect();
    await client.query(`create database ${name}`);
    await client.end();
    const url = new URL(server);
    url.pathname = `/${name}`;
    return url.href;
  };
}

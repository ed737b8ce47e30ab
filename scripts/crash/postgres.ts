import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { Client } from 'pg';

/**
 * Starts the PostgreSQL server of the tests, which ends with this process. Returns a function that creates an empty
 * database and returns its URL.
 */
export async function startPostgres(): Promise<() => Promise<string>> {
  const file = join(__dirname, '..', 'test', 'support', 'postgres.globalSetup.cjs');
  const { default: start } = (await import(pathToFileURL(file).href)) as { default: () => Promise<void> };
  await start();
  const server = process.env['TEST_POSTGRES_URL'] ?? '';
  let databaseCount = 0;
  return async () => {
    databaseCount += 1;
    const name = `crash_${databaseCount}`;
    const client = new Client({ connectionString: server });
    await client.connect();
    await client.query(`create database ${name}`);
    await client.end();
    const url = new URL(server);
    url.pathname = `/${name}`;
    return url.href;
  };
}

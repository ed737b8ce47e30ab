import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Client } from 'pg';
import { type Database, type Migration, openDatabase, type OpenDatabaseOptions } from '../../src/database';
import { silentLogger } from '../../src/kernel/logger';

/** An empty, migrated database of one test. */
export interface TestDatabase {
  readonly database: Database;
  /** The URL with which a complete server can be started on the same database. */
  readonly url: string;
  readonly dataDir: string;
  /** Opens another connection to the database. The caller must close it. */
  open(options?: Partial<OpenDatabaseOptions>): Promise<Database>;
  /** Closes `database` and removes everything. Close other connections before. */
  drop(): Promise<void>;
}

/** An engine to run a suite on: `describe.each(engines())('devices on $name', ({ createDatabase }) => ...)`. */
export interface TestEngine {
  readonly name: 'sqlite' | 'postgres';
  readonly createDatabase: () => Promise<TestDatabase>;
  /** Creates a database without tables. It applies `migrations` on request. */
  readonly createEmpty: (migrations: readonly Migration[]) => Promise<TestDatabase>;
}

/** Returns both engines. A missing one fails the tests. */
export function engines(): TestEngine[] {
  return [
    {
      name: 'sqlite',
      createDatabase: createSqlite,
      createEmpty: async (migrations) => await opened('', folder(), {}, migrations),
    },
    { name: 'postgres', createDatabase: createPostgres, createEmpty: emptyPostgres },
  ];
}

/**
 * Returns SQLite alone, for suites whose code is the same on both engines: what they store and read is tested on
 * PostgreSQL by the suites of its module.
 */
export function sqliteOnly(): TestEngine[] {
  return engines().slice(0, 1);
}

/** Creates a new folder for one test. `drop` of its database removes it. */
function folder(): string {
  return mkdtempSync(join(tmpdir(), 'plantroom-test-'));
}

async function opened(
  url: string,
  dataDir: string,
  after: { drop?: () => Promise<void> },
  migrations?: readonly Migration[],
): Promise<TestDatabase> {
  const base = { url, dataDir, log: silentLogger, poolSize: 5, ...(migrations && { migrations }) };
  const database = await openDatabase(base);
  const drop = async (): Promise<void> => {
    await database.close();
    await after.drop?.();
    rmSync(dataDir, { recursive: true, force: true });
  };
  return { database, url, dataDir, open: async (options = {}) => await openDatabase({ ...base, ...options }), drop };
}

let template: Promise<Buffer> | undefined;

async function createSqlite(): Promise<TestDatabase> {
  template ??= makeTemplateFile();
  const dataDir = folder();
  writeFileSync(join(dataDir, 'plantroom.db'), await template);
  return await opened('', dataDir, {});
}

async function makeTemplateFile(): Promise<Buffer> {
  const dataDir = folder();
  const database = await openDatabase({ url: '', dataDir, log: silentLogger });
  await database.migrate();
  await database.db.knex('settings').delete(); // tests check everything that they store there
  await database.close();
  const content = readFileSync(join(dataDir, 'plantroom.db'));
  rmSync(dataDir, { recursive: true, force: true });
  return content;
}

const TEMPLATE = 'template_plantroom';
let counter = 0;

async function createPostgres(): Promise<TestDatabase> {
  return await onServer(async (server, url) => {
    await server.query('select pg_advisory_lock(1)'); // test files run in several processes
    const { rowCount } = await server.query('select 1 from pg_database where datname = $1', [TEMPLATE]);
    if (rowCount === 0) await makeTemplateDatabase(server, url);
    await server.query('select pg_advisory_unlock(1)');
    return await createFrom(server, url, TEMPLATE);
  });
}

async function emptyPostgres(migrations: readonly Migration[]): Promise<TestDatabase> {
  return await onServer(async (server, url) => await createFrom(server, url, 'template0', migrations));
}

async function createFrom(
  server: Client,
  url: (name: string) => string,
  source: string,
  migrations?: readonly Migration[],
): Promise<TestDatabase> {
  counter += 1;
  const name = `test_${process.pid}_${process.env['JEST_WORKER_ID'] ?? '0'}_${Date.now()}_${counter}`;
  await server.query(`create database ${name} template ${source}`);
  const drop = async (): Promise<void> =>
    await onServer(async (again) => void (await again.query(`drop database ${name} with (force)`)));
  return await opened(url(name), folder(), { drop }, migrations);
}

async function makeTemplateDatabase(server: Client, url: (name: string) => string): Promise<void> {
  const half = `${TEMPLATE}_half`;
  await server.query(`create database ${half}`);
  const database = await openDatabase({ url: url(half), dataDir: '', log: silentLogger });
  await database.migrate();
  await database.db.knex('settings').delete(); // tests check everything that they store there
  await database.close();
  await server.query(`alter database ${half} rename to ${TEMPLATE}`);
}

async function onServer<T>(work: (server: Client, url: (name: string) => string) => Promise<T>): Promise<T> {
  const address = process.env['TEST_POSTGRES_URL'];
  if (!address) throw new Error('PostgreSQL is not running: jest starts it in test/support/postgres.globalSetup.cjs');
  const server = new Client({ connectionString: address });
  await server.connect();
  try {
    return await work(server, (name) => address.replace(/[^/]*$/, name));
  } finally {
    await server.end();
  }
}

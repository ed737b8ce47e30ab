import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { openDatabase, type Database } from '../../src/database';
import { silentLogger } from '../../src/kernel/logger';
import { plantroomServe, type ServeProcess } from '../support/commandLine';
import type { SiteServer } from '../backup/populatedSite';

/** The organization and the key of the first start. */
export interface FirstKey {
  readonly organizationId: string;
  readonly apiKey: string;
}

/** A server in a separate process that can be killed. */
export interface DrillServer extends SiteServer {
  readonly process: ServeProcess;
}

/** The settings for every process of a drill. */
export function drillEnv(dataDir: string): Record<string, string> {
  return {
    PLANTROOM_DATA_DIR: dataDir,
    PLANTROOM_GRPC_LISTEN: '127.0.0.1:0',
    PLANTROOM_HTTP_LISTEN: '127.0.0.1:0',
    PLANTROOM_DATABASE_DISK_RESERVE_MIB: '0',
  };
}

/** Starts `plantroom serve`. `first`: the result of an earlier start; undefined: this is the first one. */
export async function startDrillServer(
  dataDir: string,
  first?: FirstKey,
): Promise<DrillServer & { readonly first: FirstKey }> {
  const keyFile = `${dataDir}.key`;
  const process = await plantroomServe({ ...drillEnv(dataDir), PLANTROOM_BOOTSTRAP_KEY_FILE: keyFile });
  const found = first ?? (JSON.parse(readFileSync(keyFile, 'utf8')) as FirstKey);
  const addresses = { grpc: String(process.ready['grpc']), http: String(process.ready['http']), metrics: undefined };
  return {
    process,
    first: found,
    app: { addresses, ca: join(dataDir, 'tls', 'ca.pem') },
    organization: () => Promise.resolve(found.organizationId),
    newKey: () => Promise.resolve({ key: found.apiKey, id: '' }),
  };
}

/** Opens the database of a folder for reading only. */
export async function reading<T>(dataDir: string, work: (database: Database) => Promise<T>): Promise<T> {
  const database = await openDatabase({ url: '', dataDir, log: silentLogger, readOnly: true });
  try {
    return await work(database);
  } finally {
    await database.close();
  }
}

/** A row of any table. */
export type Row = Readonly<Record<string, unknown>>;

/** Every row of every table of a database at one point in time. */
export class Tables {
  constructor(private readonly tables: ReadonlyMap<string, readonly Row[]>) {}

  get names(): string[] {
    return [...this.tables.keys()];
  }

  rows(table: string): readonly Row[] {
    return this.tables.get(table) ?? [];
  }

  /** Formats the rows of a table as sorted texts. */
  texts(table: string): string[] {
    return this.rows(table)
      .map((row) => JSON.stringify(row))
      .toSorted();
  }

  /** Returns the rows of a table that are missing from the other. */
  beyond(others: Tables, table: string): Row[] {
    const known = new Set(others.texts(table));
    return this.rows(table).filter((row) => !known.has(JSON.stringify(row)));
  }
}

/** Reads all tables of a database. */
export async function readTables({ db }: Database): Promise<Tables> {
  const names = await db.all<{ name: string }>({ name: 'drill.tables', sql: (dialect) => dialect.tableNames }, []);
  const tables = new Map<string, readonly Row[]>();
  for (const { name } of names) tables.set(name, (await db.knex(name).select('*')) as Row[]);
  return new Tables(tables);
}

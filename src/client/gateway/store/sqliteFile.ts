import { accessSync, closeSync, constants, openSync, readSync, type Stats, statSync } from 'node:fs';
import { dirname } from 'node:path';
import type BetterSqlite3 from 'better-sqlite3';
import { GatewayError } from '../gatewayError';
import type { StoreIdentity } from './gatewayStore';
import { codeOf, damaged, messageOf, storeFailure } from './sqliteErrors';
import type { SqliteFileOptions } from './sqliteOptions';
import { APPLICATION_ID, bringUp, SQL, STORE_VERSION } from './sqliteSchema';
import { type KeptIdentity, newIdentity, requireSame } from './storeIdentity';

/** The log keeps no more than this on disk once what it holds is in the file. */
const LOG_BYTES = 8 * 1024 * 1024;
/** A file up to this size is read whole when it is opened, to see whether it is damaged; of a larger one all but the uplinks. */
const CHECKED_BYTES = 64 * 1024 * 1024;

/** Opens a store's file, made where there is none, for this process alone. Throws GatewayError as `GatewayStore.open` says. */
export function openStoreFile(options: SqliteFileOptions, asked: StoreIdentity): { readonly database: BetterSqlite3.Database; readonly identity: KeptIdentity } {
  const { file } = options;
  const SQLite = loadSqlite();
  makeFile(file);
  const database = connect(SQLite, options);
  try {
    return { database, identity: prepare(file, database, asked) };
  } catch (error) {
    database.close();
    throw openingFailure(file, error);
  }
}

function loadSqlite(): typeof BetterSqlite3 {
  let needed: PackageFacts;
  let SQLite: typeof BetterSqlite3;
  try {
    // Here and not above: who keeps nothing on disk need not have it.
    needed = require('better-sqlite3/package.json') as PackageFacts;
    SQLite = require('better-sqlite3') as typeof BetterSqlite3;
  } catch (error) {
    throw new GatewayError('store_unusable', 'sqliteStore needs the package better-sqlite3, which cannot be loaded: npm install better-sqlite3', { cause: error });
  }
  requireNode(needed);
  return SQLite;
}

/** Of its package.json. */
interface PackageFacts {
  readonly version: string;
  readonly engines?: { readonly node?: string };
}

/** On a Node that is older than it says, its machine code ends the process when it is loaded, without a word. */
function requireNode({ version, engines }: PackageFacts): void {
  const oldest = Number(/^>=\s*(\d+)/.exec(engines?.node ?? '')?.[1] ?? 0);
  if (Number.parseInt(process.versions.node, 10) >= oldest) return;
  throw new GatewayError('store_unusable', `better-sqlite3 ${version} needs Node ${oldest}, and this is Node ${process.versions.node}: take that Node, or better-sqlite3 12`);
}

function connect(SQLite: typeof BetterSqlite3, { file, nativeBinding }: SqliteFileOptions): BetterSqlite3.Database {
  try {
    return new SQLite(file, { timeout: 0, ...(nativeBinding !== undefined && { nativeBinding: nativeBinding as string }) }); // the types know a path only
  } catch (error) {
    if (codeOf(error).startsWith('SQLITE_')) throw openingFailure(file, error);
    throw new GatewayError('store_unusable', `the machine code of better-sqlite3 cannot be loaded (${messageOf(error).split('\n', 1)[0]}); npm rebuild better-sqlite3 on this machine, or name its .node file as nativeBinding`, { cause: error });
  }
}

/** An empty file that only this user can read, where there is none. SQLite gives its log the same mode. */
function makeFile(file: string): void {
  const isThere = requirePlace(file);
  try {
    // Only a new file is opened here: to close one that is in use would take SQLite's locks from it.
    if (!isThere) closeSync(openSync(file, 'wx', 0o600));
    accessSync(file, constants.R_OK | constants.W_OK);
  } catch (error) {
    throw openingFailure(file, error);
  }
}

/** Whether the file is there. Throws GatewayError where it cannot be, or where only its log is. */
function requirePlace(file: string): boolean {
  if (!statOf(dirname(file))?.isDirectory()) throw new GatewayError('store_unusable', `the folder of the store ${file} does not exist; make it, or give another path`);
  const stats = statOf(file);
  if (stats && !stats.isFile()) throw new GatewayError('store_unusable', `the store ${file} is no file; give the path of one`);
  // SQLite would take a log without its file for left over, and remove it.
  if (!stats?.size && statOf(`${file}-wal`)?.size) throw damaged(file, `it is ${stats ? 'empty' : 'gone'}, and its log ${file}-wal is there`);
  return stats !== undefined;
}

function prepare(file: string, database: BetterSqlite3.Database, asked: StoreIdentity): KeptIdentity {
  database.pragma('locking_mode = EXCLUSIVE');
  const isNew = database.pragma('page_count', { simple: true }) === 0;
  if (isNew) database.pragma('auto_vacuum = INCREMENTAL'); // so that the disk gets back what a long outage took
  database.exec('begin exclusive');
  const version = versionOf(file, database);
  if (version > 0) check(file, database);
  bringUp(database, version);
  const identity = identityOf(file, database, asked);
  database.exec('commit');
  setUp(file, database);
  return identity;
}

/** 0: an empty file. */
function versionOf(file: string, database: BetterSqlite3.Database): number {
  const version = database.pragma('user_version', { simple: true }) as number;
  const applicationId = database.pragma('application_id', { simple: true }) as number;
  const isEmpty = database.prepare('select 1 from sqlite_schema limit 1').get() === undefined;
  if (isEmpty && applicationId === 0) return 0;
  if (applicationId !== APPLICATION_ID) throw new GatewayError('store_of_another', `the file ${file} is a database of another program; give the store a path of its own`);
  if (version < 1) throw damaged(file, `it says that it is of version ${version}`);
  if (version > STORE_VERSION) throw new GatewayError('store_unusable', `the store ${file} is of version ${version}, and this plantroom-client knows ${STORE_VERSION} at most; install the newer one again`);
  return version;
}

/** What was written is not read again for days: a damage is better known now than when a command is looked for. */
function check(file: string, database: BetterSqlite3.Database): void {
  const bytes = (database.pragma('page_count', { simple: true }) as number) * (database.pragma('page_size', { simple: true }) as number);
  const parts = bytes <= CHECKED_BYTES ? [''] : ['(identity)', '(commands)', '(acknowledged_commands)'];
  for (const part of parts) {
    const found = database.pragma(`integrity_check${part}`, { simple: true }) as string;
    if (found !== 'ok') throw damaged(file, found.replaceAll('\n', ' '));
  }
}

function identityOf(file: string, database: BetterSqlite3.Database, asked: StoreIdentity): KeptIdentity {
  const kept = database.prepare(SQL.identity).get() as KeptIdentity | undefined;
  if (kept) {
    requireSame(`the store ${file}`, kept, asked);
    return kept;
  }
  const identity = newIdentity(asked);
  database.prepare(SQL.setIdentity).run(identity.connectionId, identity.gatewayId);
  return identity;
}

function setUp(file: string, database: BetterSqlite3.Database): void {
  const mode = database.pragma('journal_mode = WAL', { simple: true });
  if (mode !== 'wal') throw new GatewayError('store_unusable', `the store ${file} cannot have a write-ahead log on this disk; give it a path on a local one`);
  database.pragma('synchronous = FULL');
  database.pragma('fullfsync = ON'); // what macOS calls fsync does not wait for the disk
  database.pragma('checkpoint_fullfsync = ON');
  database.pragma('cell_size_check = ON');
  database.pragma(`journal_size_limit = ${LOG_BYTES}`);
}

function openingFailure(file: string, error: unknown): GatewayError {
  const code = codeOf(error);
  if (code.startsWith('SQLITE_BUSY') || code.startsWith('SQLITE_LOCKED')) return new GatewayError('store_in_use', `the store ${file} is used by another gateway; stop it, or give this one a store of its own`, { cause: error });
  if (code === 'SQLITE_NOTADB') return notSqlite(file, error);
  const failure = storeFailure(file, error);
  return failure.reason === 'store_failed' ? new GatewayError('store_unusable', failure.message, { cause: error }) : failure;
}

function notSqlite(file: string, cause: unknown): GatewayError {
  const begin = Buffer.alloc(16);
  const opened = openSync(file, 'r'); // nobody has a lock on what is no database
  readSync(opened, begin, 0, begin.length, 0);
  closeSync(opened);
  if (/^\s*[[{]/.test(begin.toString('latin1'))) {
    return new GatewayError('store_of_another', `the file ${file} is JSON, as the simulator kept it before 0.2.0, and no store of a gateway; move it away, or give the store another path. What was under way in it ends as unconfirmed on the server`, { cause });
  }
  return begin.toString('latin1').startsWith('SQLite format') ? damaged(file, 'its beginning is destroyed', cause) : new GatewayError('store_of_another', `the file ${file} is no store of a gateway, or its beginning is destroyed; give the store a path of its own`, { cause });
}

function statOf(path: string): Stats | undefined {
  return statSync(path, { throwIfNoEntry: false });
}

import { accessSync, closeSync, constants, openSync, readSync, type Stats, statSync } from 'node:fs';
import { dirname } from 'node:path';
import type BetterSqlite3 from 'better-sqlite3';
import { GatewayError } from '../gatewayError';
import type { StoreIdentity } from './gatewayStore';
import { getErrorCode, storeCorrupt, getErrorMessage, toStoreError } from './sqliteErrors';
import type { SqliteFileOptions } from './sqliteOptions';
import { APPLICATION_ID, migrateStore, SQL, STORE_VERSION } from './sqliteSchema';
import { type StoredIdentity, createIdentity, assertSameIdentity } from './storeIdentity';

/** The maximum size of the log file on disk after a checkpoint. */
const MAX_LOG_BYTES = 8 * 1024 * 1024;
/**
 * A file up to this size is checked completely when it is opened; in a larger file, everything but the uplinks is
 * checked.
 */
const MAX_FULL_CHECK_BYTES = 64 * 1024 * 1024;

/**
 * Opens the file of a store for this process alone and creates it if it does not exist. Throws the errors of
 * `GatewayStore.open`.
 */
export function openStoreFile(
  options: SqliteFileOptions,
  requested: StoreIdentity,
): { readonly database: BetterSqlite3.Database; readonly identity: StoredIdentity } {
  const { file } = options;
  const SQLite = loadSqlite();
  createFileIfMissing(file);
  const database = openDatabase(SQLite, options);
  try {
    return { database, identity: prepareStore(file, database, requested) };
  } catch (error) {
    database.close();
    throw toOpenError(file, error);
  }
}

/**
 * Loads the optional package better-sqlite3. Throws GatewayError `store_unusable` if it is missing or needs a newer
 * Node.
 */
function loadSqlite(): typeof BetterSqlite3 {
  let packageInfo: PackageInfo;
  let SQLite: typeof BetterSqlite3;
  try {
    // Loaded on use, because the package is optional for gateways without a store on disk.
    packageInfo = require('better-sqlite3/package.json') as PackageInfo;
    SQLite = require('better-sqlite3') as typeof BetterSqlite3;
  } catch (error) {
    throw new GatewayError(
      'store_unusable',
      'sqliteStore needs the package better-sqlite3, which cannot be loaded: npm install better-sqlite3',
      { cause: error },
    );
  }
  assertNodeVersion(packageInfo);
  return SQLite;
}

/** The fields of its package.json. */
interface PackageInfo {
  readonly version: string;
  readonly engines?: { readonly node?: string };
}

/** Checks the Node version first, because on an older Node the native addon crashes the process without a message. */
function assertNodeVersion({ version, engines }: PackageInfo): void {
  const minVersion = Number(/^>=\s*(\d+)/.exec(engines?.node ?? '')?.[1] ?? 0); // `>=20.0.0` requires 20
  const majorVersion = Number.parseInt(process.versions.node, 10);
  if (majorVersion >= minVersion) return;
  throw new GatewayError(
    'store_unusable',
    `better-sqlite3 ${version} requires Node ${minVersion} or later (this is Node ${process.versions.node}): upgrade Node, or use better-sqlite3 12`,
  );
}

/**
 * Opens the file. Throws the errors of `GatewayStore.open`, and `store_unusable` if the native addon cannot be loaded.
 */
function openDatabase(
  SQLite: typeof BetterSqlite3,
  { file, nativeBinding }: SqliteFileOptions,
): BetterSqlite3.Database {
  try {
    return new SQLite(file, {
      timeout: 0, // fail immediately if another process has locked the file
      // It may also be the loaded addon, which the type definitions do not allow.
      ...(nativeBinding !== undefined && { nativeBinding: nativeBinding as string }),
    });
  } catch (error) {
    if (getErrorCode(error).startsWith('SQLITE_')) throw toOpenError(file, error);
    throw new GatewayError(
      'store_unusable',
      `the native addon of better-sqlite3 cannot be loaded (${getErrorMessage(error).split('\n', 1)[0]}); run npm rebuild better-sqlite3 on this machine, or set nativeBinding to its .node file`,
      { cause: error },
    );
  }
}

/**
 * Creates an empty file that only this user can read, if it does not exist. SQLite creates its log with the same mode.
 */
function createFileIfMissing(file: string): void {
  const exists = checkFileExists(file);
  try {
    // Only a new file is opened here: closing a file that is in use would release SQLite's locks on it.
    if (!exists) closeSync(openSync(file, 'wx', 0o600));
    accessSync(file, constants.R_OK | constants.W_OK);
  } catch (error) {
    throw toOpenError(file, error);
  }
}

/** Returns whether the file exists. Throws GatewayError if it cannot be created, or if only its log exists. */
function checkFileExists(file: string): boolean {
  if (!findStat(dirname(file))?.isDirectory()) {
    throw new GatewayError(
      'store_unusable',
      `the folder of the store ${file} does not exist; create it, or use another path`,
    );
  }
  const stats = findStat(file);
  if (stats && !stats.isFile())
    throw new GatewayError('store_unusable', `the store ${file} is not a file; use the path of a file`);
  // SQLite would delete a log without its file as left over.
  const isMissingOrEmpty = !stats?.size;
  if (isMissingOrEmpty && findStat(`${file}-wal`)?.size)
    throw storeCorrupt(file, `it is ${stats ? 'empty' : 'missing'}, but its log ${file}-wal exists`);
  return stats !== undefined;
}

/**
 * Locks the file, checks it for corruption, migrates it, and returns its identity. The exclusive lock of the
 * transaction stays until the file is closed, because of the locking mode.
 */
function prepareStore(file: string, database: BetterSqlite3.Database, requested: StoreIdentity): StoredIdentity {
  database.pragma('locking_mode = EXCLUSIVE');
  const isNew = database.pragma('page_count', { simple: true }) === 0;
  if (isNew) database.pragma('auto_vacuum = INCREMENTAL'); // Space that a long outage used can be released.
  database.exec('begin exclusive');
  const version = readVersion(file, database);
  if (version > 0) checkIntegrity(file, database);
  migrateStore(database, version);
  const identity = loadIdentity(file, database, requested);
  database.exec('commit');
  configure(file, database);
  return identity;
}

/** Returns the version of the store; 0 for an empty file. */
function readVersion(file: string, database: BetterSqlite3.Database): number {
  const version = database.pragma('user_version', { simple: true }) as number;
  const applicationId = database.pragma('application_id', { simple: true }) as number;
  const isEmpty = database.prepare('select 1 from sqlite_schema limit 1').get() === undefined;
  if (isEmpty && applicationId === 0) return 0;
  if (applicationId !== APPLICATION_ID) {
    throw new GatewayError(
      'store_of_another',
      `the file ${file} is a database of another program; use another path for the store`,
    );
  }
  if (version < 1) throw storeCorrupt(file, `its version is ${version}`);
  if (version > STORE_VERSION) {
    throw new GatewayError(
      'store_unusable',
      `the store ${file} has version ${version}, but this plantroom-client supports at most ${STORE_VERSION}; install the newer plantroom-client again`,
    );
  }
  return version;
}

/**
 * Throws GatewayError `store_corrupt` if the file is corrupt. Stored data may not be read for days, so corruption must
 * be detected at the start and not only when a command is looked up.
 */
function checkIntegrity(file: string, database: BetterSqlite3.Database): void {
  const bytes =
    (database.pragma('page_count', { simple: true }) as number) *
    (database.pragma('page_size', { simple: true }) as number);
  // The argument of the pragma is the table to check; without an argument it checks the whole file.
  const pragmaArguments =
    bytes <= MAX_FULL_CHECK_BYTES ? [''] : ['(identity)', '(commands)', '(acknowledged_commands)'];
  for (const argument of pragmaArguments) {
    const result = database.pragma(`integrity_check${argument}`, { simple: true }) as string;
    if (result !== 'ok') throw storeCorrupt(file, result.replaceAll('\n', ' '));
  }
}

/** Returns the stored identity after comparing it with the requested one; stores the identity of a new store. */
function loadIdentity(file: string, database: BetterSqlite3.Database, requested: StoreIdentity): StoredIdentity {
  const stored = database.prepare(SQL.identity).get() as StoredIdentity | undefined;
  if (stored) {
    assertSameIdentity(`the store ${file}`, stored, requested);
    return stored;
  }
  const identity = createIdentity(requested);
  database.prepare(SQL.insertIdentity).run(identity.connectionId, identity.gatewayId);
  return identity;
}

/** Sets durable commits with a write-ahead log. */
function configure(file: string, database: BetterSqlite3.Database): void {
  const mode = database.pragma('journal_mode = WAL', { simple: true });
  if (mode !== 'wal') {
    throw new GatewayError(
      'store_unusable',
      `the store ${file} cannot use a write-ahead log on this disk; use a path on a local disk`,
    );
  }
  database.pragma('synchronous = FULL');
  database.pragma('fullfsync = ON'); // On macOS, fsync does not wait for the disk.
  database.pragma('checkpoint_fullfsync = ON');
  database.pragma('cell_size_check = ON');
  database.pragma(`journal_size_limit = ${MAX_LOG_BYTES}`);
}

/** Converts an error of opening the file to a GatewayError. */
function toOpenError(file: string, error: unknown): GatewayError {
  const code = getErrorCode(error);
  if (code.startsWith('SQLITE_BUSY') || code.startsWith('SQLITE_LOCKED')) {
    return new GatewayError(
      'store_in_use',
      `the store ${file} is used by another gateway; stop it, or use a separate store for this one`,
      { cause: error },
    );
  }
  if (code === 'SQLITE_NOTADB') return fileNotSqlite(file, error);
  const failure = toStoreError(file, error);
  return failure.reason === 'store_failed'
    ? new GatewayError('store_unusable', failure.message, { cause: error })
    : failure;
}

/**
 * Creates the error for a file that is not a SQLite database: says whether it is a file of an old simulator, a corrupt
 * store, or a file of another program.
 */
function fileNotSqlite(file: string, cause: unknown): GatewayError {
  const header = Buffer.alloc(16);
  const descriptor = openSync(file, 'r'); // It is not a database, so there are no locks on it.
  readSync(descriptor, header, 0, header.length, 0);
  closeSync(descriptor);
  if (/^\s*[[{]/.test(header.toString('latin1'))) {
    return new GatewayError(
      'store_of_another',
      `the file ${file} is a JSON file of the simulator before 0.2.0, not a store of a gateway; move it away, or use another path for the store. Commands that were running in it finish as unconfirmed on the server`,
      { cause },
    );
  }
  return header.toString('latin1').startsWith('SQLite format')
    ? storeCorrupt(file, 'its header is corrupt', cause)
    : new GatewayError(
        'store_of_another',
        `the file ${file} is not a store of a gateway, or its header is corrupt; use another path for the store`,
        { cause },
      );
}

/** Returns the status of a file; undefined if it does not exist. */
function findStat(path: string): Stats | undefined {
  return statSync(path, { throwIfNoEntry: false });
}

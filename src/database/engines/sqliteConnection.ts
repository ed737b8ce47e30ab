import { dirname } from 'node:path';
import BetterSqlite3 from 'better-sqlite3';
import { DomainError } from '../../kernel/errors';
import { getCode, isCorruption, formatMessage } from '../translate';
import { databaseCorrupt } from './databaseCorrupt';
import { loadNativeModule } from './nativeModule';

/** The result of a statement: its rows if it returns any, otherwise its changes. */
export interface StatementResult {
  readonly rows: readonly unknown[] | undefined;
  readonly changes: number;
  readonly lastId: number;
}

const MIN_SQLITE_VERSION = '3.51.3';
const MAX_CACHED_STATEMENTS = 500;
/** SQLite truncates the write-ahead log to this size when it restarts the log. */
const MAX_IDLE_LOG_BYTES = 64 * 1024 * 1024;
/** Another process may be recovering or closing the file. No other work waits for a file that is being opened. */
const OPEN_BUSY_TIMEOUT_MS = 5000;

/**
 * One connection to a SQLite file with its prepared statements, cached by their text; the least recently used one is
 * dropped first.
 */
export class SqliteConnection {
  /** Called with every error of a statement. */
  onError: (error: unknown) => void = () => {};
  private readonly statements = new Map<string, BetterSqlite3.Statement>();

  constructor(private readonly connection: BetterSqlite3.Database) {}

  get inTransaction(): boolean {
    return this.connection.inTransaction;
  }

  /** Runs one statement. Throws the engine's error. */
  run(sql: string, values: readonly unknown[] = []): StatementResult {
    try {
      const statement = this.prepare(sql);
      if (statement.reader) return { rows: statement.all(values), changes: 0, lastId: 0 };
      const { changes, lastInsertRowid } = statement.run(values);
      return { rows: undefined, changes, lastId: Number(lastInsertRowid) };
    } catch (error) {
      this.onError(error);
      throw error;
    }
  }

  /** Whether a statement only reads. */
  isRead(sql: string): boolean {
    return this.prepare(sql).readonly;
  }

  /** The first row of a statement. */
  getFirstRow<Row>(sql: string): Row | undefined {
    return this.run(sql, []).rows?.[0] as Row | undefined;
  }

  /**
   * Sets whether a commit waits for the disk. Call it between transactions. The pragma takes effect when it is
   * compiled, so it cannot be a prepared statement.
   */
  setDurableCommits(isDurable: boolean): void {
    this.connection.pragma(`synchronous = ${isDurable ? 'FULL' : 'NORMAL'}`);
  }

  close(): void {
    this.statements.clear();
    this.connection.close();
  }

  /** Returns the prepared statement of this text from the cache, and prepares it if it is missing. */
  private prepare(sql: string): BetterSqlite3.Statement {
    let statement = this.statements.get(sql);
    if (statement) {
      this.statements.delete(sql); // added again below, as the last one
    } else {
      statement = this.connection.prepare(sql);
      if (this.statements.size >= MAX_CACHED_STATEMENTS)
        this.statements.delete(this.statements.keys().next().value as string);
    }
    this.statements.set(sql, statement); // the last entry of the map is the most recently used one
    return statement;
  }
}

/** How to open a file. */
interface OpenOptions {
  readonly readOnly?: boolean;
  /** How long a statement waits, blocking the process, for another process's lock; in milliseconds. */
  readonly busyTimeoutMs: number;
  /** The file of the engine's native module, in a thread; found automatically by default. */
  readonly nativeModule?: string;
}

/**
 * Opens a SQLite file without settings; creates it unless readOnly. Throws the engine's error, and the errors of
 * `loadNativeModule`.
 */
export function openFile(file: string, options: OpenOptions): BetterSqlite3.Database {
  // The types accept only a path, but a path would be resolved from the place of the bundle.
  return new BetterSqlite3(file, {
    readonly: options.readOnly ?? false,
    timeout: options.busyTimeoutMs,
    nativeBinding: loadNativeModule(dirname(file), options.nativeModule) as unknown as string,
  });
}

/**
 * Opens a database with durable commits, write-ahead log and foreign keys. Throws `database_unreadable`,
 * `database_corrupt`, `sqlite_too_old`, and the errors of `loadNativeModule`.
 */
export function openConnection(file: string, options: OpenOptions): SqliteConnection {
  try {
    const connection = openFile(file, { ...options, busyTimeoutMs: OPEN_BUSY_TIMEOUT_MS });
    assertSqliteVersion(connection);
    if (!options.readOnly) connection.pragma('journal_mode = WAL');
    connection.pragma('synchronous = FULL');
    connection.pragma('foreign_keys = ON');
    connection.pragma(`journal_size_limit = ${MAX_IDLE_LOG_BYTES}`);
    connection.prepare('select count(*) from sqlite_schema').get(); // a file that is not a database fails here
    connection.pragma(`busy_timeout = ${options.busyTimeoutMs}`);
    return new SqliteConnection(connection);
  } catch (error) {
    if (error instanceof DomainError) throw error;
    throw toOpenError(file, error);
  }
}

/**
 * Creates the error `database_corrupt` for a file that is not a database, otherwise `database_unreadable` with advice.
 */
function toOpenError(file: string, error: unknown): DomainError {
  const code = getCode(error) || formatMessage(error);
  if (isCorruption(error)) {
    return databaseCorrupt(
      file,
      code === 'SQLITE_NOTADB' ? 'it does not start like a SQLite database' : formatMessage(error),
      error,
    );
  }
  const advice =
    code === 'SQLITE_FULL'
      ? 'the disk is full. Free some space'
      : 'check that its folder exists and that the user of this program may read and write both';
  return new DomainError(
    'unavailable',
    'database_unreadable',
    `the database file ${file} cannot be opened (${code}): ${advice}`,
    { cause: error },
  );
}

/** Throws `sqlite_too_old` if the program was built with an older SQLite than it needs. */
function assertSqliteVersion(connection: BetterSqlite3.Database): void {
  const { version } = connection.prepare('select sqlite_version() as version').get() as { version: string };
  if (versionNumber(version) >= versionNumber(MIN_SQLITE_VERSION)) return;
  throw new DomainError(
    'internal',
    'sqlite_too_old',
    `this program needs SQLite ${MIN_SQLITE_VERSION} or newer and was built with ${version}: build it again with the better-sqlite3 version of its lock file`,
  );
}

/** 3.51.3 as 3051003, like SQLite itself. Locale rules, as in localeCompare, take 5 ms to load. */
function versionNumber(version: string): number {
  return version.split('.').reduce((number, part) => number * 1000 + Number(part), 0);
}

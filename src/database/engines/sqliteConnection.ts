import { dirname } from 'node:path';
import BetterSqlite3 from 'better-sqlite3';
import { DomainError } from '../../kernel/errors';
import { codeOf, isDamage, messageOf } from '../translate';
import { databaseDamaged } from './databaseDamaged';
import { loadEngine } from './machineCode';

/** What a statement brought back: rows of a statement that returns some, else what it changed. */
export interface Outcome {
  readonly rows: readonly unknown[] | undefined;
  readonly changes: number;
  readonly lastId: number;
}

const LEAST_VERSION = '3.51.3';
const KEPT_STATEMENTS = 500;
/** Another process may just be recovering or closing the file; nothing else waits for a file that is being opened. */
const OPENING_MS = 5000;

/** One connection to a SQLite file with its prepared statements, kept by their text, the least used dropped first. */
export class SqliteConnection {
  /** Told of every error of a statement. */
  onError: (error: unknown) => void = () => {};
  private readonly statements = new Map<string, BetterSqlite3.Statement>();

  constructor(private readonly connection: BetterSqlite3.Database) {}

  get inTransaction(): boolean {
    return this.connection.inTransaction;
  }

  /** Runs one statement. Throws the engine's error. */
  run(sql: string, values: readonly unknown[] = []): Outcome {
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
  first<Row>(sql: string, values: readonly unknown[] = []): Row | undefined {
    return this.run(sql, values).rows?.[0] as Row | undefined;
  }

  /** Whether a commit waits until it is on disk; said between transactions. As a prepared statement the pragma would do nothing: it works while it is compiled. */
  setWaits(waits: boolean): void {
    this.connection.pragma(`synchronous = ${waits ? 'FULL' : 'NORMAL'}`);
  }

  close(): void {
    this.statements.clear();
    this.connection.close();
  }

  private prepare(sql: string): BetterSqlite3.Statement {
    let statement = this.statements.get(sql);
    if (statement) {
      this.statements.delete(sql);
    } else {
      statement = this.connection.prepare(sql);
      if (this.statements.size >= KEPT_STATEMENTS) this.statements.delete(this.statements.keys().next().value as string);
    }
    this.statements.set(sql, statement); // the last in the map is the one used last
    return statement;
  }
}

/** How to open a file. */
export interface OpenOptions {
  readonly readOnly?: boolean;
  /** How long a statement waits, blocking the process, for another process's lock; in milliseconds. */
  readonly busyTimeoutMs: number;
  /** The file of the engine's machine code, in a thread; found by itself where nothing is said. */
  readonly engine?: string;
}

/** Opens a SQLite file as it is, without settings; makes it unless readOnly. Throws the engine's error, and what `loadEngine` throws. */
export function openFile(file: string, options: OpenOptions): BetterSqlite3.Database {
  // The types know only a path here, but a path would be required from where the bundle is.
  return new BetterSqlite3(file, { readonly: options.readOnly ?? false, timeout: options.busyTimeoutMs, nativeBinding: loadEngine(dirname(file), options.engine) as unknown as string });
}

/** Opens a database: durable commits, write-ahead log, foreign keys. Throws `database_unreadable`, `database_damaged`, `sqlite_too_old`, and what `loadEngine` throws. */
export function openConnection(file: string, options: OpenOptions): SqliteConnection {
  try {
    const connection = openFile(file, { ...options, busyTimeoutMs: OPENING_MS });
    checkVersion(connection);
    if (!options.readOnly) connection.pragma('journal_mode = WAL');
    connection.pragma('synchronous = FULL');
    connection.pragma('foreign_keys = ON');
    connection.pragma('journal_size_limit = 67108864');
    connection.prepare('select count(*) from sqlite_schema').get(); // a file that is no database shows it here
    connection.pragma(`busy_timeout = ${options.busyTimeoutMs}`);
    return new SqliteConnection(connection);
  } catch (error) {
    if (error instanceof DomainError) throw error;
    throw unreadable(file, error);
  }
}

function unreadable(file: string, error: unknown): DomainError {
  const code = codeOf(error) || messageOf(error);
  if (isDamage(error)) return databaseDamaged(file, code === 'SQLITE_NOTADB' ? 'it does not begin as one of SQLite does' : messageOf(error), error);
  const help: Record<string, string> = {
    SQLITE_FULL: 'the disk is full; free some space',
  };
  const advice = help[code] ?? 'see that its folder exists and that the user of this program may read and write both';
  return new DomainError('unavailable', 'database_unreadable', `the database file ${file} cannot be opened (${code}): ${advice}`, { cause: error });
}

function checkVersion(connection: BetterSqlite3.Database): void {
  const { version } = connection.prepare('select sqlite_version() as version').get() as { version: string };
  if (versionNumber(version) >= versionNumber(LEAST_VERSION)) return;
  throw new DomainError('internal', 'sqlite_too_old', `this program needs SQLite ${LEAST_VERSION} or newer and was built with ${version}; build it again with the better-sqlite3 of its lock file`);
}

/** 3.51.3 as 3051003, as SQLite itself counts. The rules of a language, as of localeCompare, take 5 ms to load. */
function versionNumber(version: string): number {
  return version.split('.').reduce((number, part) => number * 1000 + Number(part), 0);
}

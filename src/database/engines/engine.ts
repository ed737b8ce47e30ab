import type { Knex } from 'knex';
import type { DomainError } from '../../kernel/errors';
import type { Db } from '../db';
import type { Dialect } from './dialect';

/** What `doctor` and `version` report about the database. */
export interface EngineDescription {
  readonly engine: 'SQLite' | 'PostgreSQL';
  readonly version: string;
  /** The file, or host, port and database; never a password. */
  readonly location: string;
}

/** A result of checking the database. */
export interface EngineCheck {
  /** What was checked, for people. */
  readonly check: string;
  /** `fail`: the server cannot work in this state. */
  readonly state: 'ok' | 'warn' | 'fail';
  readonly found: string;
  /** What to do; empty: nothing. */
  readonly fix: string;
}

/**
 * The steps of a migration. `check` throws if a foreign key of a row is violated, because SQLite does not check them
 * during a migration.
 */
export type MigrationWork<T> = (knex: Knex, check: () => void) => Promise<T>;

/** The required and the available disk space for the database, in bytes. */
export interface MigrationSpace {
  readonly neededBytes: number;
  readonly freeBytes: number;
}

/** The size of a database. */
export interface DatabaseSize {
  readonly rows: number;
  readonly bytes: number;
}

/** One engine and its open connections. */
export interface Engine {
  readonly dialect: Dialect;
  /** Outside a transaction: reads see committed data, and each write is its own transaction. */
  readonly db: Db;
  /** Keeps other servers off until `close`, and checks for corruption; see Database.acquireOwnership. */
  acquireOwnership(onLost: (error: DomainError) => void): Promise<void>;
  /**
   * Runs the work in one transaction; resolves when it is on disk and its afterCommit actions ran. Throws
   * `CommitOutcomeUnknownError` if it is unknown whether it was committed. `skipsFsync`: it may resolve as soon as no
   * later commit can be durable without it.
   */
  transaction<T>(work: (db: Db) => Promise<T>, skipsFsync?: boolean): Promise<T>;
  /** Migrates in one transaction, completely or not at all. No other process migrates at the same time. */
  migrate<T>(work: MigrationWork<T>): Promise<T>;
  /**
   * Like migrate, but rolls everything back. Returns the space that the real one needs; undefined if the administrator
   * is responsible for it.
   */
  dryRunMigration(work: MigrationWork<void>): Promise<MigrationSpace | undefined>;
  /**
   * Copies the database before a migration and returns the path of the copy. `schema`: its newest migration. Undefined
   * if the administrator is responsible for copies. Throws `insufficient_space`.
   */
  copyBeforeMigration(schema: string): Promise<string | undefined>;
  /**
   * Returns the path of the newest copy of the database whose schema (newest migration) is one of these; undefined if
   * there is none.
   */
  findNewestCopy(schemas: readonly string[]): string | undefined;
  /** Counts rows; takes as long as reading the whole database. */
  measureSize(): Promise<DatabaseSize>;
  /** Recommendations for the administrator, in complete clauses, logged at the start of a server. */
  warnings(): Promise<string[]>;
  /** Describes the engine, its version and its location. */
  describe(): Promise<EngineDescription>;
  /**
   * Checks for known problems of this engine. Only reads, and may take long. `now`: the time of this machine, Unix
   * milliseconds.
   */
  checks(now: number): Promise<EngineCheck[]>;
  /** Passes every error of a statement to `onError`, as the engine reports it. */
  setErrorHandler(onError: (error: unknown) => void): void;
  /**
   * Free bytes inside the database file that can be written without more disk space; 0 if the database is on another
   * machine.
   */
  reusableBytes(): number;
  /** Tries an invisible write. Never throws. */
  acceptsWrites(): Promise<boolean>;
  /** Waits for running transactions, then closes all connections. */
  close(): Promise<void>;
}

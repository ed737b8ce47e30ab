import type { Knex } from 'knex';
import type { DomainError } from '../../kernel/errors';
import type { Db } from '../db';
import type { Dialect } from './dialect';

/** What `doctor` and `version` say about the database. */
export interface EngineFacts {
  readonly engine: 'SQLite' | 'PostgreSQL';
  readonly version: string;
  /** The file, or host, port and database; never a password. */
  readonly location: string;
}

/** What looking at the database found. */
export interface EngineCheck {
  /** What was looked at, for people. */
  readonly check: string;
  /** `fail`: the server cannot work like this. */
  readonly state: 'ok' | 'warn' | 'fail';
  readonly found: string;
  /** What to do; empty if nothing. */
  readonly mend: string;
}

/** Steps of a migration. `check` throws where a row lacks what it refers to, which SQLite does not look at meanwhile. */
export type MigrationWork<T> = (knex: Knex, check: () => void) => Promise<T>;

/** What the disk of the database must have free, and has, in bytes. */
export interface TrialSpace {
  readonly neededBytes: number;
  readonly freeBytes: number;
}

/** How large a database is. */
export interface DatabaseSize {
  readonly rows: number;
  readonly bytes: number;
}

/** One engine and its open connections. */
export interface Engine {
  readonly dialect: Dialect;
  /** Outside a transaction: reads see committed data, a write is a transaction of its own. */
  readonly db: Db;
  /** Keeps other servers off until `close`, and looks for damage; see Database.own. */
  own(onLost: (error: DomainError) => void): Promise<void>;
  /** Runs the work in one transaction; resolves when it is on disk and its afterCommit actions ran. Throws `CommitUnknown` where nobody knows whether it is. `isAhead`: it may resolve as soon as nothing that is stored later can be on disk without it. */
  transaction<T>(work: (db: Db) => Promise<T>, isAhead?: boolean): Promise<T>;
  /** Migrates in one transaction: all of the work is on disk in the end, or nothing. No other process migrates meanwhile. */
  migrate<T>(work: MigrationWork<T>): Promise<T>;
  /** As migrate, but nothing of it stays. Tells what room the real one takes; undefined where that is the administrator's business. */
  tryMigration(work: MigrationWork<void>): Promise<TrialSpace | undefined>;
  /** Copies the database aside before a migration and returns where to; undefined where that is the administrator's business. Throws `no_room_for_copy`. */
  copyAside(label: string): Promise<string | undefined>;
  /** The newest copy that was put aside of a database whose newest migration was one of these. */
  findCopy(labels: readonly string[]): string | undefined;
  /** Counts; takes as long as reading all of the database. */
  size(): Promise<DatabaseSize>;
  /** What a person should know about this database at start, with what to do about it. */
  warnings(): Promise<string[]>;
  facts(): Promise<EngineFacts>;
  /** Looks for what goes wrong with this engine; only reads, and may take long. `now`: the time of this machine, Unix milliseconds. */
  checks(now: number): Promise<EngineCheck[]>;
  /** Hands every error of a statement to `onError` as the engine says it. */
  watch(onError: (error: unknown) => void): void;
  /** Bytes inside of the database file that can be written without more disk; 0 where that is not this machine's business. */
  reusableBytes(): number;
  /** Tries to store something that nobody sees. Never throws. */
  takesWrites(): Promise<boolean>;
  /** Waits for running transactions, then closes all connections. */
  close(): Promise<void>;
}

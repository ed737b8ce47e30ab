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

/** One engine and its open connections. */
export interface Engine {
  readonly dialect: Dialect;
  /** Outside a transaction: reads see committed data, a write is a transaction of its own. */
  readonly db: Db;
  /** Keeps other servers off until `close`; see Database.own. */
  own(onLost: (error: DomainError) => void): Promise<void>;
  /** Runs the work in one transaction; resolves when it is on disk and its afterCommit actions ran. Throws `CommitUnknown` where nobody knows whether it is. `isAhead`: it may resolve as soon as nothing that is stored later can be on disk without it. */
  transaction<T>(work: (db: Db) => Promise<T>, isAhead?: boolean): Promise<T>;
  /** One step of a migration in a transaction of its own; no other process migrates meanwhile, foreign keys are checked at its end. */
  migrationStep<T>(work: (knex: Knex) => Promise<T>): Promise<T>;
  /** Copies the database aside before a migration and returns where to; undefined where that is the administrator's business. */
  copyAside(label: string): Promise<string | undefined>;
  /** What a person should know about this database at start, with what to do about it. */
  warnings(): Promise<string[]>;
  facts(): Promise<EngineFacts>;
  /** Looks for what goes wrong with this engine; only reads, and may take long. `now`: the time of this machine, Unix milliseconds. */
  checks(now: number): Promise<EngineCheck[]>;
  /** Waits for running transactions, then closes all connections. */
  close(): Promise<void>;
}

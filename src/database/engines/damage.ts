import { statSync } from 'node:fs';
import type { DomainError } from '../../kernel/errors';
import type { Logger } from '../../kernel/logger';
import { openWorker } from '../../kernel/workers';
import { codeOf, isDamage, messageOf } from '../translate';
import type { CheckpointRequest, CheckpointStart } from './checkpoints';
import { databaseDamaged } from './databaseDamaged';
import { type DamageMark, readMark, removeMark } from './damageMark';
import { loadedEngine } from './machineCode';
import type { SqliteConnection } from './sqliteConnection';

const MIB = 1024 * 1024;
/** A file of this size is looked through in 45 ms (360 MB/s from memory), so the start waits for it. */
const AT_ONCE_BYTES = 16 * MIB;
/** One of this size takes 3 to 10 s, in which the log cannot begin anew and a stop waits. Beyond that it is left to backups, which read all of it, and to `doctor`. */
const BESIDE_BYTES = 1024 * MIB;
const NAMED = 3;
// SQLite's text search looks at its own index, which is made of the names of devices and can be made anew.
const OF_SEARCH = /\bfts5\b/i;

/** What looking through a database file found. */
export interface Found {
  /** What is wrong with its structure, the first few things; empty: nothing. */
  readonly damage: readonly string[];
  /** The index of names is damaged, which is no loss: it can be made anew. */
  readonly isSearchDamaged: boolean;
}

/**
 * Looks through the file. What stands inside of a row is not looked at, for SQLite keeps no sums of it. `isWhole`: compares each index with its table, too,
 * which takes some times as long. Throws the engine's error where it could not look.
 */
export function lookThrough(connection: SqliteConnection, isWhole = false): Found {
  try {
    const rows = connection.run(`pragma ${isWhole ? 'integrity_check' : 'quick_check'}(${NAMED + 1})`).rows as Record<string, string>[];
    const lines = rows.flatMap((row) => Object.values(row)).filter((line) => line !== 'ok');
    return { damage: lines.filter((line) => !OF_SEARCH.test(line)).slice(0, NAMED), isSearchDamaged: lines.some((line) => OF_SEARCH.test(line)) };
  } catch (error) {
    if (isDamage(error)) return { damage: [messageOf(error)], isSearchDamaged: false };
    if (isSearchDamage(error)) return { damage: [], isSearchDamaged: true };
    throw error;
  }
}

/** What is wrong with the structure of the file, the first few things; empty: nothing. Throws the engine's error where it could not look. */
export function findDamage(connection: SqliteConnection): readonly string[] {
  return lookThrough(connection).damage;
}

/** The engine found something in the index of names that it never wrote there. */
export function isSearchDamage(error: unknown): boolean {
  return codeOf(error) === 'SQLITE_CORRUPT_VTAB';
}

/** What a look at the start of a server needs. */
export interface LookOptions {
  readonly file: string;
  readonly connection: SqliteConnection;
  readonly log: Logger;
  /** Told of what is found while the server serves. */
  readonly onDamage: (error: DomainError) => void;
  /** The index of names has to be made anew. */
  readonly onSearchDamage: () => Promise<void>;
}

/**
 * Looks through the file at the start of a server: a small one before this resolves, a larger one beside serving, in a thread; one in which damage was
 * noticed before all of it, however large. Throws `database_damaged`. Returns how to leave off.
 */
export async function lookForDamage(options: LookOptions): Promise<() => Promise<void>> {
  const mark = readMark(options.file);
  const { size } = statSync(options.file);
  if (mark) await lookAgain(mark, options);
  else if (size <= AT_ONCE_BYTES) await lookAtOnce(options);
  else if (size <= BESIDE_BYTES) return lookBeside(options);
  return async () => {};
}

async function lookAtOnce({ file, connection, log, onSearchDamage }: LookOptions): Promise<void> {
  let found: Found;
  try {
    found = lookThrough(connection);
  } catch (err) {
    log.warn({ err }, 'database.look_failed'); // somebody else has the file, or there is no memory: that is no damage
    return;
  }
  if (found.damage.length > 0) throw databaseDamaged(file, found.damage.join('; '));
  if (found.isSearchDamaged) await onSearchDamage();
}

/** Damage that was noticed may be anywhere: the server serves only where all of the file is found to be whole. */
async function lookAgain({ at, found: noticed }: DamageMark, { file, log, onSearchDamage }: LookOptions): Promise<void> {
  log.warn({ noticed_at: at, found: noticed }, 'database.looked_at_again');
  let found: Found;
  try {
    found = await inThread(file, 'lookWhole').found;
  } catch (error) {
    throw databaseDamaged(file, `noticed at ${at}: ${noticed}; it could not be looked through again: ${messageOf(error)}`, error);
  }
  if (found.damage.length > 0) throw databaseDamaged(file, `${found.damage.join('; ')}; noticed first at ${at}`);
  if (found.isSearchDamaged) await onSearchDamage();
  removeMark(file);
  log.warn({ noticed_at: at, found: noticed }, 'database.found_whole');
}

function lookBeside({ file, log, onDamage, onSearchDamage }: LookOptions): () => Promise<void> {
  const began = performance.now();
  let isLeft = false;
  try {
    const { found, worker } = inThread(file, 'look');
    worker.unref();
    const report = async (): Promise<void> => {
      const { damage, isSearchDamaged } = await found;
      log.info({ found: damage.length, duration_ms: Math.round(performance.now() - began) }, 'database.looked_through');
      if (damage.length > 0) onDamage(databaseDamaged(file, damage.join('; ')));
      else if (isSearchDamaged) await onSearchDamage();
    };
    report().catch((err: unknown) => isLeft || log.warn({ err }, 'database.look_failed'));
    return async () => {
      isLeft = true;
      await worker.terminate();
    };
  } catch (err) {
    log.warn({ err }, 'database.look_failed'); // no thread to be had: no reason not to serve
    return async () => {};
  }
}

function inThread(file: string, request: CheckpointRequest): { readonly worker: ReturnType<typeof openWorker>; readonly found: Promise<Found> } {
  const workerData: CheckpointStart = { file, engine: loadedEngine().file };
  const worker = openWorker('checkpointWorker.js', { workerData });
  const found = new Promise<Found>((resolve, reject) => {
    worker.on('error', reject);
    worker.on('exit', () => reject(new Error('the thread ended before it had looked')));
    worker.on('message', (report: Found) => {
      worker.postMessage('close' satisfies CheckpointRequest, []);
      resolve(report);
    });
  });
  worker.postMessage(request, []);
  return { worker, found };
}

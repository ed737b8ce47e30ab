import { statSync } from 'node:fs';
import type { DomainError } from '../../kernel/errors';
import type { Logger } from '../../kernel/logger';
import { startWorker } from '../../kernel/workers';
import { getCode, isCorruption, formatMessage } from '../translate';
import type { CheckpointRequest, CheckpointStart } from './checkpoints';
import { databaseCorrupt } from './databaseCorrupt';
import { type CorruptionMarker, readMarker, removeMarker } from './corruptionMarker';
import { getLoadedModule } from './nativeModule';
import type { SqliteConnection } from './sqliteConnection';

const MIB = 1024 * 1024;
/** Checking a file of this size takes 45 ms (360 MB/s from memory), so the start waits for it. */
const MAX_BLOCKING_CHECK_BYTES = 16 * MIB;
/**
 * Checking a file of this size takes 3 to 10 s, during which the log cannot restart and a stop waits. Larger files are
 * left to backups, which read the whole file, and to `doctor`.
 */
const MAX_BACKGROUND_CHECK_BYTES = 1024 * MIB;
const MAX_REPORTED_ERRORS = 3;
// SQLite's text search checks its own index, which consists of the names of devices and can be rebuilt.
const SEARCH_INDEX_ERROR = /\bfts5\b/i;

/** The result of checking a database file. */
export interface IntegrityReport {
  /** Structural errors, at most the first few; empty: none. */
  readonly errors: readonly string[];
  /** The name index is corrupt. No data is lost, because it can be rebuilt. */
  readonly isSearchIndexCorrupt: boolean;
}

/**
 * Checks the file. Row contents are not checked, because SQLite stores no checksums of them. `isFull`: also compares
 * each index with its table, which takes several times as long. Throws the engine's error if the check is not possible.
 */
export function checkIntegrity(connection: SqliteConnection, isFull = false): IntegrityReport {
  try {
    const rows = connection.run(`pragma ${isFull ? 'integrity_check' : 'quick_check'}(${MAX_REPORTED_ERRORS + 1})`)
      .rows as Record<string, string>[];
    const lines = rows.flatMap((row) => Object.values(row)).filter((line) => line !== 'ok');
    return {
      errors: lines.filter((line) => !SEARCH_INDEX_ERROR.test(line)).slice(0, MAX_REPORTED_ERRORS),
      isSearchIndexCorrupt: lines.some((line) => SEARCH_INDEX_ERROR.test(line)),
    };
  } catch (error) {
    if (isCorruption(error)) return { errors: [formatMessage(error)], isSearchIndexCorrupt: false };
    if (isSearchIndexCorruption(error)) return { errors: [], isSearchIndexCorrupt: true };
    throw error;
  }
}

/** Whether the engine found data in the name index that it did not write. */
export function isSearchIndexCorruption(error: unknown): boolean {
  return getCode(error) === 'SQLITE_CORRUPT_VTAB';
}

/** The dependencies of the check at the start of a server. */
interface IntegrityCheckOptions {
  readonly file: string;
  readonly connection: SqliteConnection;
  readonly log: Logger;
  /** Called with what is found while the server is running. */
  readonly onCorruption: (error: DomainError) => void;
  /** Called if the name index must be rebuilt. */
  readonly onSearchIndexCorruption: () => Promise<void>;
}

/**
 * Checks the file at the start of a server: a small file before this resolves, a larger one in a thread while the
 * server runs; a file with a corruption marker completely and first, whatever its size. Throws `database_corrupt`.
 * Returns a function that cancels the check.
 */
export async function watchIntegrity(options: IntegrityCheckOptions): Promise<() => Promise<void>> {
  const marker = readMarker(options.file);
  const { size } = statSync(options.file);
  if (marker) await recheckMarkedFile(marker, options);
  else if (size <= MAX_BLOCKING_CHECK_BYTES) await checkBeforeStart(options);
  else if (size <= MAX_BACKGROUND_CHECK_BYTES) return checkInBackground(options);
  return async () => {};
}

/**
 * Checks a small file while the start of the server waits. Throws `database_corrupt`. If the check itself is not
 * possible, the server starts without it.
 */
async function checkBeforeStart({
  file,
  connection,
  log,
  onSearchIndexCorruption,
}: IntegrityCheckOptions): Promise<void> {
  let report: IntegrityReport;
  try {
    report = checkIntegrity(connection);
  } catch (err) {
    // Another process uses the file, or there is no memory: that is not corruption.
    log.warn({ err }, 'database.integrity_check_failed');
    return;
  }
  if (report.errors.length > 0) throw databaseCorrupt(file, report.errors.join('; '));
  if (report.isSearchIndexCorrupt) await onSearchIndexCorruption();
}

/**
 * Checks the whole file in a thread, because the recorded corruption may be anywhere, and removes the marker if the
 * file is intact. Throws `database_corrupt` if corruption is found, or if the check is not possible.
 */
async function recheckMarkedFile(
  { at, found: noticedError }: CorruptionMarker,
  { file, log, onSearchIndexCorruption }: IntegrityCheckOptions,
): Promise<void> {
  log.warn({ noticed_at: at, found: noticedError }, 'database.integrity_recheck');
  let report: IntegrityReport;
  try {
    report = await startCheckThread(file, 'fullCheck').report;
  } catch (error) {
    throw databaseCorrupt(
      file,
      `noticed at ${at}: ${noticedError}; it could not be checked again: ${formatMessage(error)}`,
      error,
    );
  }
  if (report.errors.length > 0) throw databaseCorrupt(file, `${report.errors.join('; ')}; first noticed at ${at}`);
  if (report.isSearchIndexCorrupt) await onSearchIndexCorruption();
  removeMarker(file);
  log.warn({ noticed_at: at, found: noticedError }, 'database.integrity_ok');
}

/**
 * Starts a check in a thread and returns a function that cancels it. The result is reported to `onCorruption` or
 * `onSearchIndexCorruption` later.
 */
function checkInBackground({
  file,
  log,
  onCorruption,
  onSearchIndexCorruption,
}: IntegrityCheckOptions): () => Promise<void> {
  const startedAt = performance.now();
  let isCancelled = false;
  try {
    const { report, worker } = startCheckThread(file, 'quickCheck');
    worker.unref();
    const handleReport = async (): Promise<void> => {
      const { errors, isSearchIndexCorrupt } = await report;
      log.info(
        { found: errors.length, duration_ms: Math.round(performance.now() - startedAt) },
        'database.integrity_check_completed',
      );
      if (errors.length > 0) onCorruption(databaseCorrupt(file, errors.join('; ')));
      else if (isSearchIndexCorrupt) await onSearchIndexCorruption();
    };
    handleReport().catch((err: unknown) => {
      if (!isCancelled) log.warn({ err }, 'database.integrity_check_failed');
    });
    return async () => {
      isCancelled = true;
      await worker.terminate();
    };
  } catch (err) {
    log.warn({ err }, 'database.integrity_check_failed'); // no thread is available, which is no reason not to serve
    return async () => {};
  }
}

/** Starts a thread that runs one check. The promise of the report rejects if the thread fails. */
function startCheckThread(
  file: string,
  request: CheckpointRequest,
): { readonly worker: ReturnType<typeof startWorker>; readonly report: Promise<IntegrityReport> } {
  const workerData: CheckpointStart = { file, nativeModule: getLoadedModule().file };
  const worker = startWorker('checkpointWorker.js', { workerData });
  const report = new Promise<IntegrityReport>((resolve, reject) => {
    worker.on('error', reject);
    worker.on('exit', () => reject(new Error('the thread exited before the check was complete')));
    worker.on('message', (received: IntegrityReport) => {
      worker.postMessage('close' satisfies CheckpointRequest, []);
      resolve(received);
    });
  });
  worker.postMessage(request, []);
  return { worker, report };
}

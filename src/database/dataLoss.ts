import { existsSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { DomainError } from '../kernel/errors';
import type { Logger } from '../kernel/logger';
import { databaseCorrupt } from './engines/databaseCorrupt';
import { isLogLost, removeOpenMarker } from './engines/openMarker';

/** Files that a server creates next to its database only after the database has its tables. */
const SERVER_FILES = ['tls', 'media', 'secrets.key', 'run.json'];
/** Files that only a server creates. An administrator may put the other SERVER_FILES into a new folder. */
const SERVER_ONLY_FILES = ['media', 'clock.json', 'plantroom.db-wal'];
const ACCEPT_ADVICE = 'to continue with the remaining data, run `plantroom serve --accept-data-loss` once';

/** The database file, and whether a loss is accepted. */
interface DataLossOptions {
  readonly dataDir: string;
  /** The database file. */
  readonly file: string;
  /** Continues with the remaining data and logs it. */
  readonly acceptsDataLoss: boolean;
  readonly log: Logger;
}

/**
 * Throws if acknowledged data is missing and SQLite would not notice: `database_missing` (no file in a folder that was
 * used), `database_corrupt` (an empty file in one), `database_log_missing` (the write-ahead log of a killed server is
 * missing).
 */
export function assertNoDataLoss({ dataDir, file, acceptsDataLoss, log }: DataLossOptions): void {
  const lossError = findDataLossError(dataDir, file);
  if (!lossError) return;
  if (!acceptsDataLoss) throw lossError;
  log.warn(
    { reason: lossError.reason, message: 'Data loss accepted; continuing with the remaining data' },
    'database.loss_accepted',
  );
  removeOpenMarker(file);
}

/**
 * Returns the error for the missing data; undefined: no data is missing, or the folder was never used by a server. A
 * missing database needs stronger evidence (SERVER_ONLY_FILES) than an empty one, because a new folder has no database
 * either.
 */
function findDataLossError(dataDir: string, file: string): DomainError | undefined {
  const size = statSync(file, { throwIfNoEntry: false })?.size;
  const hasFile = (name: string): boolean => existsSync(join(dataDir, name));
  if (size === undefined) {
    const existingFile = SERVER_ONLY_FILES.find(hasFile);
    return existingFile === undefined ? undefined : databaseMissing(file, existingFile);
  }
  const existingFile = size === 0 && !existsSync(`${file}-wal`) ? SERVER_FILES.find(hasFile) : undefined;
  if (existingFile !== undefined) {
    return databaseCorrupt(
      file,
      `it is empty, although ${existingFile} shows that the folder was used; ${ACCEPT_ADVICE}`,
    );
  }
  return isLogLost(file) ? logFileMissing(file) : undefined;
}

/** Creates the error `database_missing`. `existingFile`: the file that shows that a server used the folder. */
function databaseMissing(file: string, existingFile: string): DomainError {
  const solutions =
    'put the database back, or restore a backup into an empty folder, or set PLANTROOM_DATABASE_URL if the database is PostgreSQL';
  return createDataLossError(
    'database_missing',
    `the database file ${file} is missing, although ${existingFile} shows that the folder was used: ${solutions}; ${ACCEPT_ADVICE}, which starts with an empty database`,
  );
}

/** Creates the error `database_log_missing`: with the write-ahead log, the latest changes are missing. */
function logFileMissing(file: string): DomainError {
  const fact = `the write-ahead log ${file}-wal is missing, although the server stopped without closing the database: the latest changes are lost`;
  const solutions = 'put the file back, or restore a backup into an empty folder';
  return createDataLossError(
    'database_log_missing',
    `${fact}: ${solutions}; ${ACCEPT_ADVICE}, also if another program has opened the database since then and applied the log`,
  );
}

function createDataLossError(reason: string, message: string): DomainError {
  return new DomainError('conflict', reason, message);
}

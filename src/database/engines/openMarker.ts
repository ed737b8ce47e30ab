import { existsSync, rmSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import type { Logger } from '../../kernel/logger';
import { syncFolder } from '../../kernel/syncFolder';

/**
 * Writes the marker `plantroom.db.open`: a server uses the database, so its write-ahead log is next to it. A server
 * removes the marker before it closes the database. A marker without a log means that the log was lost, with all
 * changes after the last checkpoint. A failure is only logged.
 */
export function writeOpenMarker(file: string, log: Logger): void {
  try {
    writeFileSync(getMarkerFile(file), '', { mode: 0o600, flush: true });
    syncFolder(dirname(file));
  } catch (error) {
    log.debug(
      { err: error, message: 'A loss of the write-ahead log would not be noticed' },
      'database.open_not_marked',
    ); // a full disk
  }
}

/**
 * Removes the marker before the database is closed, or after a loss was accepted. Never throws: if a file cannot be
 * removed, the log is not removed either.
 */
export function removeOpenMarker(file: string): void {
  try {
    rmSync(getMarkerFile(file), { force: true });
  } catch {
    // a read-only disk
  }
}

/** Whether a server stopped without closing the database, and its write-ahead log is missing. */
export function isLogLost(file: string): boolean {
  return existsSync(getMarkerFile(file)) && !existsSync(`${file}-wal`);
}

function getMarkerFile(file: string): string {
  return `${file}.open`;
}

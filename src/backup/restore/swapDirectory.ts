import { existsSync, mkdirSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { RESTORING_FOLDER, SQLITE_FILE } from '../../database';
import { syncFolder } from '../../kernel/syncFolder';
import { removeAtomically, writeSynced } from './stagingFiles';

/**
 * The folder in which the new database is prepared. The data folder is unchanged during that time, and a server may
 * start on it.
 */
const PREPARING_FOLDER = '.rolling-back';
/** Marks that a RESTORING_FOLDER belongs to a swap, and contains the new name of the old database. */
const MARKER_FILE = 'moved-to';

/**
 * Swaps the database of a data folder for another one, which is prepared inside: both exist all the time. Only while
 * the folder is locked.
 */
export class SwapDirectory {
  private constructor(private readonly dataDir: string) {}

  /** The folder in which the new database is prepared, as SQLITE_FILE. */
  get content(): string {
    return join(this.dataDir, PREPARING_FOLDER);
  }

  /** Whether a swap was interrupted. */
  static isInterruptedIn(dataDir: string): boolean {
    return existsSync(join(dataDir, RESTORING_FOLDER, MARKER_FILE));
  }

  /** Completes an interrupted swap; then the data folder has a complete database. */
  static finishInterrupted(dataDir: string): void {
    if (SwapDirectory.isInterruptedIn(dataDir)) swapDatabases(dataDir);
  }

  /** Creates the folder and notes the future name of the old database in it. `now`: Unix milliseconds. */
  static create(dataDir: string, now: number): SwapDirectory {
    const swap = new SwapDirectory(dataDir);
    swap.remove();
    mkdirSync(swap.content, { mode: 0o700 });
    writeSynced(
      join(swap.content, MARKER_FILE),
      `${SQLITE_FILE}.newer-${new Date(now).toISOString().replaceAll(':', '-')}`,
    );
    return swap;
  }

  /** Swaps the databases and returns the path of the old one. From here on, no server starts until it is done. */
  swap(): string {
    syncFolder(this.content);
    renameSync(this.content, join(this.dataDir, RESTORING_FOLDER));
    syncFolder(this.dataDir);
    return swapDatabases(this.dataDir);
  }

  /** Removes what was prepared and not placed. */
  remove(): void {
    rmSync(this.content, { recursive: true, force: true });
  }
}

/** Completes a swap; an earlier run may already have done some of the steps. Returns the path of the old database. */
function swapDatabases(dataDir: string): string {
  const root = join(dataDir, RESTORING_FOLDER);
  const old = join(dataDir, readFileSync(join(root, MARKER_FILE), 'utf8'));
  const file = join(dataDir, SQLITE_FILE);
  const prepared = join(root, SQLITE_FILE);
  if (existsSync(prepared)) {
    // Files of the old database that are not needed any more: the index of its log, and the marker of openMarker.ts.
    for (const suffix of ['-shm', '.open']) rmSync(file + suffix, { force: true });
    // The log must be moved too: SQLite would apply it to the other database.
    for (const suffix of ['-wal', '']) if (existsSync(file + suffix)) renameSync(file + suffix, old + suffix);
    syncFolder(dataDir);
    renameSync(prepared, file);
    syncFolder(dataDir);
  }
  removeAtomically(dataDir, RESTORING_FOLDER);
  return old;
}

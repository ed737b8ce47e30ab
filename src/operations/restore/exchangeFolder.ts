import { existsSync, mkdirSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { RESTORING_FOLDER, SQLITE_FILE } from '../../database';
import { syncFolder } from '../../kernel/syncFolder';
import { removeAtOnce, writeSynced } from './stagedFiles';

/** Where the other database is prepared; the data folder is untouched meanwhile, and a server may start on it. */
const PREPARING = '.going-back';
/** Says that a RESTORING_FOLDER is of an exchange, and what the old database is to be called. */
const MOVED_TO = 'moved-to';

/** Exchanges the database of a data folder for another one, which is prepared inside: both are there all the time. Only while the folder is locked. */
export class ExchangeFolder {
  private constructor(private readonly dataDir: string) {}

  /** Where the other database is prepared, as SQLITE_FILE. */
  get content(): string {
    return join(this.dataDir, PREPARING);
  }

  /** Whether an exchange was killed in the middle. */
  static isLeftIn(dataDir: string): boolean {
    return existsSync(join(dataDir, RESTORING_FOLDER, MOVED_TO));
  }

  /** Brings one that was killed to its end; the data folder has a whole database then. */
  static finish(dataDir: string): void {
    if (ExchangeFolder.isLeftIn(dataDir)) exchange(dataDir);
  }

  /** `now`: Unix milliseconds. */
  static make(dataDir: string, now: number): ExchangeFolder {
    const made = new ExchangeFolder(dataDir);
    made.remove();
    mkdirSync(made.content, { mode: 0o700 });
    writeSynced(join(made.content, MOVED_TO), `${SQLITE_FILE}.newer-${new Date(now).toISOString().replaceAll(':', '-')}`);
    return made;
  }

  /** Exchanges them, and returns where the old one lies. From here on no server starts until it is done. */
  place(): string {
    syncFolder(this.content);
    renameSync(this.content, join(this.dataDir, RESTORING_FOLDER));
    syncFolder(this.dataDir);
    return exchange(this.dataDir);
  }

  /** Removes what was prepared and not placed. */
  remove(): void {
    rmSync(this.content, { recursive: true, force: true });
  }
}

/** Each step may have been done by an earlier run. */
function exchange(dataDir: string): string {
  const root = join(dataDir, RESTORING_FOLDER);
  const old = join(dataDir, readFileSync(join(root, MOVED_TO), 'utf8'));
  const file = join(dataDir, SQLITE_FILE);
  const prepared = join(root, SQLITE_FILE);
  if (existsSync(prepared)) {
    rmSync(`${file}-shm`, { force: true });
    for (const end of ['-wal', '']) if (existsSync(file + end)) renameSync(file + end, old + end); // the log has to go along: SQLite would take it for the other one's
    syncFolder(dataDir);
    renameSync(prepared, file);
    syncFolder(dataDir);
  }
  removeAtOnce(dataDir, RESTORING_FOLDER);
  return old;
}

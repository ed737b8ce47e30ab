import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { findDataFolderHolder, lockDataFolder, RESTORING_FOLDER } from '../../database';
import type { Clock } from '../../kernel/clock';
import { syncFolder } from '../../kernel/syncFolder';
import { folderNotEmpty } from './restoreErrors';
import { REMOVED_FOLDER, removeAtomically, writeSynced } from './stagingFiles';

/**
 * What a restore may place in a data folder, in this order. The database is the last one, because it makes the folder
 * usable.
 */
const RESTORED_ENTRIES = ['media', 'tls', 'secrets.key', 'secrets.key.next', 'plantroom.restored.yaml', 'plantroom.db'];
/**
 * What an empty data folder may contain: files of the site, its file system and the program from before the first
 * start.
 */
const IGNORED_ENTRIES = new Set([
  RESTORING_FOLDER,
  REMOVED_FOLDER,
  'backups',
  'plantroom.yaml',
  'lost+found',
  '.runtime',
  'server.lock',
  'server.lock-journal',
  'server.pid',
]);
const CONTENT_FOLDER = 'data';
/** The list of the entries that `moveIntoPlace` moves. */
const ENTRIES_TO_PLACE_FILE = 'placing.json';

/**
 * The folder in a data folder in which a restore prepares everything. It is inside because a data folder can be a
 * volume, which cannot be replaced by a rename, and because the parent folder may belong to another user. While it
 * exists, no server starts; the next restore reverts an interrupted one.
 */
export class StagingFolder {
  /** The folder for the unpacked entries and the database. */
  readonly content: string;
  private readonly root: string;

  private constructor(
    private readonly dataDir: string,
    /** Whether an earlier restore has not finished. */
    readonly hasLeftover: boolean,
    private readonly releaseLock: () => void,
  ) {
    this.root = join(dataDir, RESTORING_FOLDER);
    this.content = join(this.root, CONTENT_FOLDER);
  }

  /**
   * Claims an empty data folder, which is created if it is missing. Throws `data_dir_not_empty`, `data_dir_in_use`,
   * `data_dir_not_writable`. `file`: the backup, which may be inside.
   */
  static async claim(dataDir: string, file: string, clock: Clock): Promise<StagingFolder> {
    if (existsSync(dataDir) && findDataFolderHolder(dataDir) === undefined)
      assertFolderEmpty(dataDir, file, readEntriesToPlace(dataDir)); // before anything is written into it
    const lock = await lockDataFolder(dataDir, clock);
    try {
      const placed = readEntriesToPlace(dataDir);
      assertFolderEmpty(dataDir, file, placed);
      const staging = new StagingFolder(dataDir, existsSync(join(dataDir, RESTORING_FOLDER)), () => lock.release());
      // Removes what an interrupted restore left.
      for (const name of [REMOVED_FOLDER, ...placed]) rmSync(join(dataDir, name), { recursive: true, force: true });
      rmSync(staging.content, { recursive: true, force: true });
      rmSync(join(staging.root, ENTRIES_TO_PLACE_FILE), { force: true });
      mkdirSync(staging.content, { recursive: true, mode: 0o700 });
      syncFolder(dataDir);
      return staging;
    } catch (error) {
      lock.release();
      throw error;
    }
  }

  /**
   * Moves the entries of a backup to their places, the database last, and removes the staging folder with everything
   * else. First writes the list of these entries, so that the next restore can remove them if this one is interrupted.
   */
  moveIntoPlace(): void {
    const found = new Set(readdirSync(this.content));
    const names = RESTORED_ENTRIES.filter((name) => found.has(name));
    writeSynced(join(this.root, ENTRIES_TO_PLACE_FILE), JSON.stringify(names));
    syncFolder(this.root);
    for (const name of names) renameSync(join(this.content, name), join(this.dataDir, name));
    syncFolder(this.dataDir);
    this.remove();
  }

  /** Removes what was prepared; the data folder is unchanged. */
  remove(): void {
    removeAtomically(this.dataDir, RESTORING_FOLDER);
  }

  /** Releases the data folder. */
  releaseFolder(): void {
    this.releaseLock();
  }
}

/**
 * Returns the entries that an interrupted restore may have moved into place. None of them existed before that restore.
 */
function readEntriesToPlace(dataDir: string): string[] {
  const file = join(dataDir, RESTORING_FOLDER, ENTRIES_TO_PLACE_FILE);
  if (!existsSync(file)) return [];
  try {
    const names = JSON.parse(readFileSync(file, 'utf8')) as string[];
    return RESTORED_ENTRIES.filter((name) => names.includes(name));
  } catch {
    return []; // incompletely written, so nothing had been placed yet
  }
}

/**
 * Throws `data_dir_not_empty` unless the data folder contains only IGNORED_ENTRIES, the backup file, and what an
 * interrupted restore may have placed.
 */
function assertFolderEmpty(dataDir: string, file: string, placed: readonly string[]): void {
  const otherEntries = readdirSync(dataDir).filter(
    (name) => !IGNORED_ENTRIES.has(name) && !placed.includes(name) && resolve(dataDir, name) !== resolve(file),
  );
  if (otherEntries.length > 0) throw folderNotEmpty(dataDir, otherEntries.toSorted());
}

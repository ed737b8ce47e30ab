import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { findDataFolderHolder, lockDataFolder, RESTORING_FOLDER } from '../../database';
import type { Clock } from '../../kernel/clock';
import { syncFolder } from '../../kernel/syncFolder';
import { folderNotEmpty } from './restoreErrors';
import { REMOVED_FOLDER, removeAtOnce, writeSynced } from './stagedFiles';

/** What a restore may bring into a data folder, in the order in which it gets its name there; the database makes it one, so it is the last. */
const MEMBERS = ['media', 'tls', 'secrets.key', 'secrets.key.next', 'plantroom.restored.yaml', 'plantroom.db'];
/** What an empty data folder may hold all the same: what a site, its file system and the program put there before the first start. */
const NOT_IN_THE_WAY = new Set([RESTORING_FOLDER, REMOVED_FOLDER, 'backups', 'plantroom.yaml', 'lost+found', '.runtime', 'server.lock', 'server.lock-journal', 'server.pid']);
const CONTENT = 'data';
const PLACING = 'placing.json';

/**
 * The folder in a data folder in which a restore prepares everything. It lies inside, because a data folder can be a volume, which no rename
 * replaces, and because the folder above may belong to somebody else. While it is there no server starts; a restore that was killed is undone by the next one.
 */
export class StagingFolder {
  /** Where the members are laid and the database is opened. */
  readonly content: string;
  private readonly root: string;

  private constructor(
    private readonly dataDir: string,
    /** An earlier restore did not come to its end. */
    readonly hadLeftover: boolean,
    private readonly release: () => void,
  ) {
    this.root = join(dataDir, RESTORING_FOLDER);
    this.content = join(this.root, CONTENT);
  }

  /** Takes an empty data folder, which is made if there is none. Throws `data_folder_not_empty`, `data_folder_in_use`, `data_folder_not_writable`. `file`: the backup, which may lie there. */
  static async take(dataDir: string, file: string, clock: Clock): Promise<StagingFolder> {
    if (existsSync(dataDir) && findDataFolderHolder(dataDir) === undefined) refuseOther(dataDir, file, placedBefore(dataDir)); // before anything is written into it
    const lock = await lockDataFolder(dataDir, clock);
    try {
      const placed = placedBefore(dataDir);
      refuseOther(dataDir, file, placed);
      const staging = new StagingFolder(dataDir, existsSync(join(dataDir, RESTORING_FOLDER)), () => lock.release());
      for (const name of [REMOVED_FOLDER, ...placed]) rmSync(join(dataDir, name), { recursive: true, force: true });
      rmSync(staging.content, { recursive: true, force: true });
      rmSync(join(staging.root, PLACING), { force: true });
      mkdirSync(staging.content, { recursive: true, mode: 0o700 });
      syncFolder(dataDir);
      return staging;
    } catch (error) {
      lock.release();
      throw error;
    }
  }

  /** Gives everything its place, the database last; then nothing is left of the staging. Only the members of a backup; anything else is dropped. */
  place(): void {
    const found = new Set(readdirSync(this.content));
    const names = MEMBERS.filter((name) => found.has(name));
    writeSynced(join(this.root, PLACING), JSON.stringify(names));
    syncFolder(this.root);
    for (const name of names) renameSync(join(this.content, name), join(this.dataDir, name));
    syncFolder(this.dataDir);
    this.remove();
  }

  /** Removes what was prepared; the data folder is as it was. */
  remove(): void {
    removeAtOnce(this.dataDir, RESTORING_FOLDER);
  }

  /** Others may have the data folder again. */
  close(): void {
    this.release();
  }
}

/** What an interrupted restore had placed: it began on a folder without any of it. */
function placedBefore(dataDir: string): string[] {
  const file = join(dataDir, RESTORING_FOLDER, PLACING);
  if (!existsSync(file)) return [];
  try {
    const names = JSON.parse(readFileSync(file, 'utf8')) as string[];
    return MEMBERS.filter((name) => names.includes(name));
  } catch {
    return []; // half written, so nothing had been placed yet
  }
}

function refuseOther(dataDir: string, file: string, placed: readonly string[]): void {
  const inTheWay = readdirSync(dataDir).filter((name) => !NOT_IN_THE_WAY.has(name) && !placed.includes(name) && resolve(dataDir, name) !== resolve(file));
  if (inTheWay.length > 0) throw folderNotEmpty(dataDir, inTheWay.toSorted());
}

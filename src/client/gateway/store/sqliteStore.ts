import { statSync } from 'node:fs';
import { resolve } from 'node:path';
import type { Database } from 'better-sqlite3';
import { GatewayError } from '../gatewayError';
import { bytesOf, type GatewayStore, type KeptCommand, type QueuedUplink, type StoreChange, type StoreIdentity } from './gatewayStore';
import { DiskRoom } from './diskRoom';
import { storeFailure } from './sqliteErrors';
import { openStoreFile } from './sqliteFile';
import type { SqliteFileOptions } from './sqliteOptions';
import { SqliteTables } from './sqliteTables';

/** Space inside of the file that is given back to the disk: when it is more than this, and more than half of the file; so many pages at once. */
const FREE_PAGES = 1024;
const PAGES_AT_ONCE = 512;
/** How often it is looked at, in transactions. */
const LOOK_EVERY = 32;
/** So many pages of the log of a small disk are taken over into the file; 1,000 elsewhere. */
const SHORT_LOG_PAGES = 100;

/**
 * A store in a file, by better-sqlite3 (`npm install better-sqlite3`): it survives the end of the process and a power cut. One gateway at a time can
 * have it open. While the disk is full it takes nothing new, and goes on by itself when there is room.
 */
export function sqliteStore(file: string | SqliteFileOptions): GatewayStore {
  const options = typeof file === 'string' ? { file } : file;
  return new SqliteStore({ ...options, file: resolve(options.file) });
}

class SqliteStore implements GatewayStore {
  readonly isDurable = true;
  private opened: { readonly database: Database; readonly tables: SqliteTables; readonly inode: bigint } | undefined;
  private transactions = 0;
  private readonly room: DiskRoom;

  constructor(private readonly options: SqliteFileOptions) {
    this.room = new DiskRoom(options.file);
  }

  open(asked: StoreIdentity): { readonly gatewayId: string } {
    if (this.opened) throw new GatewayError('store_in_use', `the store ${this.options.file} is used by another gateway of this process; give each gateway a store of its own`);
    const { database, identity } = openStoreFile(this.options, asked);
    try {
      if (this.room.isSmall) database.pragma(`wal_autocheckpoint = ${SHORT_LOG_PAGES}`);
      this.opened = { database, tables: new SqliteTables(database), inode: this.inode() };
    } catch (error) {
      database.close();
      throw storeFailure(this.options.file, error);
    }
    return { gatewayId: identity.gatewayId };
  }

  openCommands(): KeptCommand[] {
    return this.use(({ tables }) => tables.openCommands());
  }

  findCommand(executionId: string): KeptCommand | undefined {
    return this.use(({ tables }) => tables.findCommand(executionId));
  }

  uplinksAfter(position: number, most: number): QueuedUplink[] {
    return this.use(({ tables }) => tables.uplinksAfter(position, most));
  }

  get uplinkCount(): number {
    return this.opened?.tables.uplinkCount ?? 0;
  }

  get uplinkBytes(): number {
    return this.opened?.tables.uplinkBytes ?? 0;
  }

  /**
   * Uplinks are refused before the disk is full, so that there is room for the rest. What the engine could not write is tried once more after its log was
   * begun anew: that makes room in it where the disk has none, and nothing of the failed attempt can be found in it by a later start.
   */
  apply(changes: readonly StoreChange[]): void {
    this.use(({ database, tables, inode }) => {
      if (this.inode() !== inode) throw new GatewayError('store_failed', `the store ${this.options.file} was removed or replaced while it was in use, so that nothing would be kept; start the gateway again`);
      const bytes = changes.reduce((sum, change) => sum + (change.kind === 'uplink' ? bytesOf(change) : 0), 0);
      if (bytes > 0) this.room.requireFor(bytes, () => tables.reusableBytes);
      try {
        tables.apply(changes);
      } catch (error) {
        if (storeFailure(this.options.file, error).reason === 'store_damaged') throw error;
        database.pragma('wal_checkpoint(RESTART)');
        tables.apply(changes);
      }
      this.giveBack(database);
    });
  }

  close(): void {
    this.opened?.database.close();
    this.opened = undefined;
  }

  private use<T>(work: (opened: NonNullable<typeof this.opened>) => T): T {
    if (!this.opened) throw new GatewayError('store_failed', `the store ${this.options.file} is closed`);
    try {
      return work(this.opened);
    } catch (error) {
      throw storeFailure(this.options.file, error);
    }
  }

  private inode(): bigint {
    return statSync(this.options.file, { throwIfNoEntry: false, bigint: true })?.ino ?? -1n;
  }

  private giveBack(database: Database): void {
    this.transactions += 1;
    if (this.transactions % LOOK_EVERY !== 0) return;
    try {
      const free = database.pragma('freelist_count', { simple: true }) as number;
      if (free > FREE_PAGES && free > (database.pragma('page_count', { simple: true }) as number) / 2) database.exec(`pragma incremental_vacuum(${PAGES_AT_ONCE})`);
    } catch (error) {
      // The changes are kept. A disk that does not even take this shows with the next ones, damage shall be known at once.
      if (storeFailure(this.options.file, error).reason === 'store_damaged') throw error;
    }
  }
}

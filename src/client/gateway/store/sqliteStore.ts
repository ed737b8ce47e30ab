import { statSync } from 'node:fs';
import { resolve } from 'node:path';
import type { Database } from 'better-sqlite3';
import { GatewayError } from '../gatewayError';
import {
  getMessageSize,
  type GatewayStore,
  type StoredCommand,
  type QueuedUplink,
  type StoreChange,
  type StoreIdentity,
} from './gatewayStore';
import { DiskSpace } from './diskSpace';
import { toStoreError } from './sqliteErrors';
import { openStoreFile } from './sqliteFile';
import type { SqliteFileOptions } from './sqliteOptions';
import { SqliteTables } from './sqliteTables';

/**
 * Free pages are returned to the disk if there are more than this and more than half of the file; at most
 * PAGE_BATCH_SIZE pages at a time.
 */
const MIN_FREE_PAGES = 1024;
const PAGE_BATCH_SIZE = 512;
/** The interval of this check, in transactions. */
const VACUUM_CHECK_INTERVAL = 32;
/** On a small disk, the log is checkpointed after this number of pages; elsewhere after 1,000. */
const SHORT_LOG_PAGES = 100;

/**
 * Creates a store in a file, with better-sqlite3 (`npm install better-sqlite3`). It survives the end of the process and
 * a power failure. Only one gateway at a time can open it. While the disk is full it rejects new data, and it continues
 * automatically when there is space.
 */
export function sqliteStore(file: string | SqliteFileOptions): GatewayStore {
  const options = typeof file === 'string' ? { file } : file;
  return new SqliteStore({ ...options, file: resolve(options.file) });
}

class SqliteStore implements GatewayStore {
  readonly isDurable = true;
  private opened: { readonly database: Database; readonly tables: SqliteTables; readonly inode: bigint } | undefined;
  private transactionCount = 0;
  private readonly diskSpace: DiskSpace;

  constructor(private readonly options: SqliteFileOptions) {
    this.diskSpace = new DiskSpace(options.file);
  }

  /** Opens the file, and keeps the log short on a small disk. */
  open(requestedIdentity: StoreIdentity): { readonly gatewayId: string } {
    if (this.opened) {
      throw new GatewayError(
        'store_in_use',
        `the store ${this.options.file} is used by another gateway of this process; use a separate store for each gateway`,
      );
    }
    const { database, identity } = openStoreFile(this.options, requestedIdentity);
    try {
      if (this.diskSpace.isSmall) database.pragma(`wal_autocheckpoint = ${SHORT_LOG_PAGES}`);
      this.opened = { database, tables: new SqliteTables(database), inode: this.readInode() };
    } catch (error) {
      database.close();
      throw toStoreError(this.options.file, error);
    }
    return { gatewayId: identity.gatewayId };
  }

  openCommands(): StoredCommand[] {
    return this.use(({ tables }) => tables.openCommands());
  }

  findCommand(executionId: string): StoredCommand | undefined {
    return this.use(({ tables }) => tables.findCommand(executionId));
  }

  uplinksAfter(position: number, max: number): QueuedUplink[] {
    return this.use(({ tables }) => tables.uplinksAfter(position, max));
  }

  get uplinkCount(): number {
    return this.opened?.tables.uplinkCount ?? 0;
  }

  get uplinkBytes(): number {
    return this.opened?.tables.uplinkBytes ?? 0;
  }

  /**
   * Applies all changes or none. Uplinks are rejected before the disk is full, so that there is space for commands and
   * acknowledgements. A failed write is retried once after the log was restarted: this frees space in the log if the
   * disk has none, and a later start cannot find parts of the failed attempt in the log.
   */
  apply(changes: readonly StoreChange[]): void {
    this.use(({ database, tables, inode }) => {
      if (this.readInode() !== inode) {
        throw new GatewayError(
          'store_failed',
          `the store ${this.options.file} was removed or replaced while it was in use, so changes would be lost; restart the gateway`,
        );
      }
      const bytes = changes.reduce((sum, change) => sum + (change.kind === 'uplink' ? getMessageSize(change) : 0), 0);
      if (bytes > 0) this.diskSpace.assertSpaceFor(bytes, () => tables.reusableBytes);
      try {
        tables.apply(changes);
      } catch (error) {
        if (toStoreError(this.options.file, error).reason === 'store_corrupt') throw error;
        database.pragma('wal_checkpoint(RESTART)');
        tables.apply(changes);
      }
      this.releaseFreePages(database);
    });
  }

  close(): void {
    this.opened?.database.close();
    this.opened = undefined;
  }

  /** Runs work with the open store, and converts its errors. Throws `store_failed` if the store is closed. */
  private use<T>(work: (opened: NonNullable<typeof this.opened>) => T): T {
    if (!this.opened) throw new GatewayError('store_failed', `the store ${this.options.file} is closed`);
    try {
      return work(this.opened);
    } catch (error) {
      throw toStoreError(this.options.file, error);
    }
  }

  /** Returns the inode number of the file, which changes when the file is replaced; -1 if the file is missing. */
  private readInode(): bigint {
    return statSync(this.options.file, { throwIfNoEntry: false, bigint: true })?.ino ?? -1n;
  }

  /** Returns free pages to the disk, a few at a time, if more than half of the file is free. */
  private releaseFreePages(database: Database): void {
    this.transactionCount += 1;
    if (this.transactionCount % VACUUM_CHECK_INTERVAL !== 0) return;
    try {
      const free = database.pragma('freelist_count', { simple: true }) as number;
      if (free > MIN_FREE_PAGES && free > (database.pragma('page_count', { simple: true }) as number) / 2)
        database.exec(`pragma incremental_vacuum(${PAGE_BATCH_SIZE})`);
    } catch (error) {
      // The changes are already stored. A failing disk shows with the next changes; only corruption is reported
      // immediately.
      if (toStoreError(this.options.file, error).reason === 'store_corrupt') throw error;
    }
  }
}

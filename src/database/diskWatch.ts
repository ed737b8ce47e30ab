import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DomainError } from '../kernel/errors';
import { freeBytes } from '../kernel/freeBytes';
import type { Logger } from '../kernel/logger';
import { ReserveFile } from './reserveFile';
import { codeOf } from './translate';

/** What the disk of the database takes; `full` and `read_only`: nothing but what clears up. */
export type DiskState = 'ok' | 'full' | 'read_only';

/** What people and metrics are told of the disk. */
export interface DiskFacts {
  readonly state: DiskState;
  /** Bytes that this user may still write on the disk of the data folder; undefined: it does not tell. */
  readonly freeBytes: number | undefined;
  /** Bytes that the reserve is to keep, and those that it keeps. */
  readonly reserveBytes: number;
  readonly keptBytes: number;
}

/** What the watch stands on. */
export interface DiskWatchOptions {
  readonly dataDir: string;
  readonly log: Logger;
  /** Bytes that are free inside of the database file, so that they can be written without more disk. */
  readonly reusableBytes: () => number;
  /** Tries to store something; false: the database refuses. Asked before changes are taken again. */
  readonly takesWrites: () => Promise<boolean>;
  /** How often it looks; a second where nothing is said. */
  readonly everyMs?: number;
  /** Bytes that are free on the disk; asks the file system where nothing is said. */
  readonly free?: () => number;
}

const EVERY_MS = 1000;
const RETRY_MS = 10_000;
/** The database is asked again after so many looks. */
const TRY_AGAIN_LOOKS = 2;
/** SQLite could not write, for whatever reason. */
const WRITING = /^SQLITE_IOERR_(WRITE|FSYNC|DIR_FSYNC|TRUNCATE|DELETE|SHMSIZE|SHMMAP|MMAP)$/;
const MIB = 1024 * 1024;
/** What has to be free beyond the reserve before changes are taken again: less, and it would be full again at once. */
const MARGIN = 4 * MIB;
/** Less than this is none: a page of the log does not fit. */
const NOTHING = 64 * 1024;
/** Changes that are refused again within so many looks were taken again too early: each time it waits twice as long, up to this. */
const LONGEST_WAIT_LOOKS = 60;
/** What an error says of a disk that was asked to take something. A quota is as good as a full disk. */
const REFUSALS: Readonly<Record<string, DiskState>> = { ENOSPC: 'full', EDQUOT: 'full', EFBIG: 'full', EROFS: 'read_only', EACCES: 'read_only', EPERM: 'read_only', EIO: 'read_only' };
/** PostgreSQL says these of its own disk: full; and that it takes no changes: read_only. */
const POSTGRES: Readonly<Record<string, DiskState>> = { '53100': 'full', '25006': 'read_only' };

/**
 * Knows whether the disk takes what is written. When it is full, the space of the reserve is given free, once, and from then on only what
 * clears up is to be written (`requireRoom` tells the others) until there is room again; then the reserve is made anew.
 */
export class DiskWatch {
  private current: DiskState = 'ok';
  private reserve: ReserveFile;
  private timer: NodeJS.Timeout | undefined;
  private looking: Promise<void> | undefined;
  /** The database is another machine's: only itself can say whether there is room again. */
  private isElsewhere = false;
  private recoveredAt = -Infinity;
  private waitLooks = 0;
  private nextTryAt = -Infinity;

  constructor(private readonly options: DiskWatchOptions) {
    this.reserve = new ReserveFile(options.dataDir, 0);
  }

  /** Begins to look, and makes the reserve in the background where there is room for it twice over. For a server only. */
  start(reserveMib: number): void {
    this.reserve = new ReserveFile(this.options.dataDir, reserveMib * MIB);
    if (this.reserve.kept() > this.reserve.bytes) this.reserve.remove();
    if (reserveMib > 0 && this.reserve.wasReleased) {
      this.current = 'full'; // before this start, and whether there is room again is seen in a moment
      this.options.log.error({ state: this.current, free_bytes: this.free() }, 'disk.full');
    }
    this.timer = setInterval(() => void this.look(), this.everyMs).unref();
    void this.look();
  }

  /** Looks no more; resolves when nothing is written any more. */
  async stop(): Promise<void> {
    clearInterval(this.timer);
    await this.reserve.stop();
    await this.looking;
  }

  state(): DiskState {
    return this.current;
  }

  facts(): DiskFacts {
    return { state: this.current, freeBytes: this.free(), reserveBytes: this.reserve.bytes, keptBytes: this.reserve.kept() };
  }

  /** Throws `storage_full` or `storage_read_only` while the disk does not take what makes the database grow. What clears up does not ask. */
  requireRoom(): void {
    if (this.current === 'full') throw new DomainError('unavailable', 'storage_full', 'the disk of the server is full, so that only what clears up is taken (delete, remove, revoke, cancel); make room on the disk, or delete what is not needed, then try again', { retryAfterMs: RETRY_MS });
    if (this.current === 'read_only') throw new DomainError('unavailable', 'storage_read_only', 'the database of the server cannot be written just now, so that nothing is stored; see why (mount, dmesg, PostgreSQL that is a standby or read only), make it writable, then try again', { retryAfterMs: RETRY_MS });
  }

  /** The database could not do something: is it the disk? */
  failed(error: unknown): void {
    const state = this.stateBehind(codeOf(error));
    if (state === 'ok' || state === this.current) return;
    this.current = state;
    this.isElsewhere = POSTGRES[codeOf(error)] !== undefined;
    this.waitLonger();
    const fields = { state, free_bytes: this.free(), err: error };
    if (state === 'read_only') return this.options.log.error(fields, 'disk.read_only');
    this.options.log.error(fields, 'disk.full');
    this.release();
  }

  /** It was taken for mended too early: then it waits longer than the last time. */
  private waitLonger(): void {
    const every = this.everyMs;
    const isSoon = performance.now() - this.recoveredAt < LONGEST_WAIT_LOOKS * every;
    this.waitLooks = isSoon ? Math.min(Math.max(1, this.waitLooks * 2), LONGEST_WAIT_LOOKS) : 0;
    this.nextTryAt = performance.now() + this.waitLooks * every;
  }

  private get everyMs(): number {
    return this.options.everyMs ?? EVERY_MS;
  }

  private stateBehind(code: string): DiskState {
    const elsewhere = POSTGRES[code];
    if (elsewhere) return elsewhere;
    if (code === 'SQLITE_FULL') return 'full';
    if (code.startsWith('SQLITE_READONLY')) return 'read_only';
    if (!/^SQLITE_(IOERR|CANTOPEN)/.test(code)) return 'ok';
    const tried = this.tryDisk();
    if (tried !== 'ok') return tried;
    if ((this.free() ?? Infinity) < NOTHING) return 'full';
    return WRITING.test(code) ? 'read_only' : 'ok'; // the disk takes other files and not this one
  }

  private release(): void {
    try {
      const bytes = this.reserve.release();
      if (bytes > 0) this.options.log.warn({ bytes }, 'disk.reserve_released');
    } catch (error) {
      this.options.log.error({ err: error }, 'disk.reserve_not_released');
    }
  }

  /** One at a time, for making the reserve takes longer than a turn. */
  private async look(): Promise<void> {
    if (this.looking) return;
    this.looking = this.judge().catch((error: unknown) => this.options.log.warn({ err: error }, 'disk.look_failed'));
    await this.looking;
    this.looking = undefined;
  }

  private async judge(): Promise<void> {
    const { bytes } = this.reserve;
    const free = this.free() ?? Infinity;
    if (this.current === 'ok') {
      if (this.reserve.kept() < bytes && free >= 2 * bytes) await this.reserve.make();
      return;
    }
    if (performance.now() < this.nextTryAt) return;
    if (this.isElsewhere || this.current === 'read_only') {
      if (this.isElsewhere || this.tryDisk() === 'ok') await this.tryDatabase();
    } else {
      await this.judgeFull(free);
    }
  }

  private async judgeFull(free: number): Promise<void> {
    const { bytes } = this.reserve;
    if (free >= bytes + MARGIN) {
      if (this.tryDisk() === 'ok' && (await this.reserve.make())) await this.tryDatabase();
    } else if (free >= Math.max(bytes / 2, MARGIN) && this.options.reusableBytes() >= bytes + MARGIN) {
      await this.tryDatabase(); // what was deleted left room inside of the file; the reserve waits for room on the disk
    }
  }

  private async tryDatabase(): Promise<void> {
    if (await this.options.takesWrites()) this.recovered();
    else this.nextTryAt = performance.now() + TRY_AGAIN_LOOKS * this.everyMs;
  }

  private recovered(): void {
    this.recoveredAt = performance.now();
    const was = this.current;
    this.current = 'ok';
    this.options.log.warn({ was, free_bytes: this.free(), reserve_bytes: this.reserve.kept() }, 'disk.recovered');
  }

  /** What the disk says when it is to take a little. Never opens the database's own file: closing it would drop the engine's locks. */
  private tryDisk(): DiskState {
    const probe = join(this.options.dataDir, '.writable');
    let state: DiskState = 'ok';
    try {
      writeFileSync(probe, Buffer.alloc(NOTHING, 1), { mode: 0o600 });
    } catch (error) {
      state = REFUSALS[codeOf(error)] ?? 'ok';
    }
    try {
      rmSync(probe, { force: true });
    } catch {
      // where it could be made it can be removed, or else the disk has just failed: the next look says so
    }
    return state;
  }

  private free(): number | undefined {
    if (this.options.free) return this.options.free();
    try {
      return freeBytes(this.options.dataDir);
    } catch {
      return undefined;
    }
  }
}

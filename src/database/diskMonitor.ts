import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DomainError } from '../kernel/errors';
import { getAvailableBytes } from '../kernel/availableBytes';
import type { Logger } from '../kernel/logger';
import { DiskReserve } from './diskReserve';
import { getCode } from './translate';

/** The state of the disk of the database; `full` and `read_only`: only operations that free space are accepted. */
export type DiskState = 'ok' | 'full' | 'read_only';

/** The disk status for users and metrics. */
interface DiskStatus {
  readonly state: DiskState;
  /** Bytes that this user may still write on the disk of the data folder; undefined: unknown. */
  readonly freeBytes: number | undefined;
  /** The target size of the reserve, and its current size, in bytes. */
  readonly reserveBytes: number;
  readonly currentReserveBytes: number;
}

/** The dependencies of the monitor. */
interface DiskMonitorOptions {
  readonly dataDir: string;
  readonly log: Logger;
  /** Free bytes inside the database file, which can be written without more disk space. */
  readonly reusableBytes: () => number;
  /** Tries a write; false: the database rejects it. Called before changes are accepted again. */
  readonly acceptsWrites: () => Promise<boolean>;
  /** The interval between checks; a second by default. */
  readonly checkIntervalMs?: number;
  /** The free bytes on the disk; asks the file system by default. */
  readonly getFreeBytes?: () => number;
  /** A time in milliseconds that never goes back; `performance.now()` by default. */
  readonly monotonic?: () => number;
}

const CHECK_INTERVAL_MS = 1000;
/** When a caller may repeat a rejected change. */
const RETRY_AFTER_MS = 10_000;
/** After the database rejected a test write, the next one follows after this many checks. */
const RETRY_CHECKS = 2;
/** The error codes of SQLite for a write that failed for any reason. */
const WRITE_ERROR = /^SQLITE_IOERR_(WRITE|FSYNC|DIR_FSYNC|TRUNCATE|DELETE|SHMSIZE|SHMMAP|MMAP)$/;
const MIB = 1024 * 1024;
/**
 * The space that must be free in addition to the reserve before changes are accepted again. With less, the disk would
 * soon be full again.
 */
const MARGIN_BYTES = 4 * MIB;
/** Less than this counts as full: a page of the log does not fit. */
const MIN_WRITABLE_BYTES = 64 * 1024;
/**
 * If changes are rejected again within this many checks, they were accepted too early: the wait doubles each time, up
 * to this maximum.
 */
const MAX_WAIT_CHECKS = 60;
/** Maps a write error to the state of the disk. An exceeded quota counts as a full disk. */
const STATE_BY_SYSTEM_CODE: Readonly<Record<string, DiskState>> = {
  ENOSPC: 'full',
  EDQUOT: 'full',
  EFBIG: 'full',
  EROFS: 'read_only',
  EACCES: 'read_only',
  EPERM: 'read_only',
  EIO: 'read_only',
};
/** PostgreSQL reports these about its own disk: full, and read-only. */
const STATE_BY_POSTGRES_CODE: Readonly<Record<string, DiskState>> = { '53100': 'full', '25006': 'read_only' };

/**
 * Tracks whether the disk accepts writes. When it is full, the reserve is released, and from then on only operations
 * that free space may write (`assertDiskSpace` rejects all other operations) until there is enough space again. Then
 * the reserve is created again.
 */
export class DiskMonitor {
  private current: DiskState = 'ok';
  private reserve: DiskReserve;
  private timer: NodeJS.Timeout | undefined;
  private runningCheck: Promise<void> | undefined;
  /**
   * The last error came from PostgreSQL, which may be on another machine: only the database itself knows whether there
   * is space again.
   */
  private isPostgres = false;
  /** When changes were accepted again last, on the monotonic clock. */
  private recoveredAt = -Infinity;
  /** The length of the last wait, in checks. */
  private lastWaitChecks = 0;
  /** When the next test write is due, on the monotonic clock. */
  private nextTryAt = -Infinity;

  constructor(private readonly options: DiskMonitorOptions) {
    this.reserve = new DiskReserve(options.dataDir, 0);
  }

  /** Starts the checks, and creates the reserve in the background if twice its size is free. For a server only. */
  start(reserveMib: number): void {
    this.reserve = new DiskReserve(this.options.dataDir, reserveMib * MIB);
    if (this.reserve.getCurrentBytes() > this.reserve.bytes) this.reserve.remove();
    if (reserveMib > 0 && this.reserve.wasReleased) {
      this.current = 'full'; // it was full before this start; the first check finds out whether there is space again
      this.options.log.error({ state: this.current, free_bytes: this.getFreeBytes() }, 'disk.full');
    }
    this.timer = setInterval(() => void this.check(), this.checkIntervalMs).unref();
    void this.check();
  }

  /** Stops the checks; resolves when nothing is being written any more. */
  async stop(): Promise<void> {
    clearInterval(this.timer);
    await this.reserve.stop();
    await this.runningCheck;
  }

  /** Returns the current state, as found by the last check or the last error. */
  getState(): DiskState {
    return this.current;
  }

  /** Returns the state with the free space and the size of the reserve, measured now. */
  getStatus(): DiskStatus {
    return {
      state: this.current,
      freeBytes: this.getFreeBytes(),
      reserveBytes: this.reserve.bytes,
      currentReserveBytes: this.reserve.getCurrentBytes(),
    };
  }

  /**
   * Throws `storage_full` or `storage_read_only` while the disk does not accept changes that make the database grow.
   * Operations that free space do not call it.
   */
  assertDiskSpace(): void {
    if (this.current === 'full') {
      throw new DomainError(
        'unavailable',
        'storage_full',
        'the disk of the server is full, so only requests that free space are accepted (delete, remove, revoke, cancel): free space on the disk, or delete what is not needed, then try again',
        { retryAfterMs: RETRY_AFTER_MS },
      );
    }
    if (this.current === 'read_only') {
      throw new DomainError(
        'unavailable',
        'storage_read_only',
        'the database of the server is read-only at the moment, so nothing can be stored: check why (mount, dmesg, a PostgreSQL standby or read-only mode), make it writable, then try again',
        { retryAfterMs: RETRY_AFTER_MS },
      );
    }
  }

  /**
   * Called with every error of the database. If the error shows that the disk is full or read-only, changes are
   * rejected from now on, and the reserve is released for operations that free space.
   */
  handleError(error: unknown): void {
    const state = this.getStateForError(getCode(error));
    if (state === 'ok' || state === this.current) return;
    this.current = state;
    this.isPostgres = STATE_BY_POSTGRES_CODE[getCode(error)] !== undefined;
    this.extendWait();
    const fields = { state, free_bytes: this.getFreeBytes(), err: error };
    if (state === 'read_only') {
      this.options.log.error(fields, 'disk.read_only');
      return;
    }
    this.options.log.error(fields, 'disk.full');
    this.releaseReserve();
  }

  /**
   * Doubles the wait before the next test write if changes were accepted less than MAX_WAIT_CHECKS checks ago, because
   * that was too early; otherwise there is no wait.
   */
  private extendWait(): void {
    const intervalMs = this.checkIntervalMs;
    const wasTooEarly = this.now() - this.recoveredAt < MAX_WAIT_CHECKS * intervalMs;
    this.lastWaitChecks = wasTooEarly ? Math.min(Math.max(1, this.lastWaitChecks * 2), MAX_WAIT_CHECKS) : 0;
    this.nextTryAt = this.now() + this.lastWaitChecks * intervalMs;
  }

  private now(): number {
    return this.options.monotonic?.() ?? performance.now();
  }

  private get checkIntervalMs(): number {
    return this.options.checkIntervalMs ?? CHECK_INTERVAL_MS;
  }

  /**
   * Returns the state of the disk that an error with this code means; `ok`: the error has another cause. SQLite reports
   * many causes as an I/O error, so the disk itself is tested for these.
   */
  private getStateForError(code: string): DiskState {
    const postgresState = STATE_BY_POSTGRES_CODE[code];
    if (postgresState) return postgresState;
    if (code === 'SQLITE_FULL') return 'full';
    if (code.startsWith('SQLITE_READONLY')) return 'read_only';
    if (!/^SQLITE_(IOERR|CANTOPEN)/.test(code)) return 'ok';
    const probed = this.probeDisk();
    if (probed !== 'ok') return probed;
    if ((this.getFreeBytes() ?? Infinity) < MIN_WRITABLE_BYTES) return 'full';
    return WRITE_ERROR.test(code) ? 'read_only' : 'ok'; // the disk accepts other files but not this one
  }

  /** Releases the reserve, so that operations that free space can be stored. */
  private releaseReserve(): void {
    try {
      const bytes = this.reserve.release();
      if (bytes > 0) this.options.log.warn({ bytes }, 'disk.reserve_released');
    } catch (error) {
      this.options.log.error({ err: error }, 'disk.reserve_not_released');
    }
  }

  /** Runs one check at a time, because creating the reserve takes longer than the interval. */
  private async check(): Promise<void> {
    if (this.runningCheck) return;
    this.runningCheck = this.updateState().catch((error: unknown) =>
      this.options.log.warn({ err: error }, 'disk.check_failed'),
    );
    await this.runningCheck;
    this.runningCheck = undefined;
  }

  /** Completes the reserve while the disk is fine; otherwise tests whether changes can be accepted again. */
  private async updateState(): Promise<void> {
    const { bytes } = this.reserve;
    const freeBytes = this.getFreeBytes() ?? Infinity;
    if (this.current === 'ok') {
      if (this.reserve.getCurrentBytes() < bytes && freeBytes >= 2 * bytes) await this.reserve.create();
      return;
    }
    if (this.now() < this.nextTryAt) return;
    // A PostgreSQL database may be on another disk, so only a test write shows whether it is full.
    if (this.isPostgres || this.current === 'read_only') {
      if (this.isPostgres || this.probeDisk() === 'ok') await this.probeDatabase();
    } else {
      await this.checkFullDisk(freeBytes);
    }
  }

  /**
   * Accepts changes again if there is enough space for the reserve and MARGIN_BYTES, either on the disk or, after
   * deletions, inside the database file together with half of the reserve on the disk.
   */
  private async checkFullDisk(freeBytes: number): Promise<void> {
    const { bytes } = this.reserve;
    if (freeBytes >= bytes + MARGIN_BYTES) {
      if (this.probeDisk() === 'ok' && (await this.reserve.create())) await this.probeDatabase();
    } else if (freeBytes >= Math.max(bytes / 2, MARGIN_BYTES) && this.options.reusableBytes() >= bytes + MARGIN_BYTES) {
      await this.probeDatabase(); // deletions freed space inside the file; the reserve waits for space on the disk
    }
  }

  /**
   * Accepts changes again if the database accepts a test write; otherwise waits RETRY_CHECKS checks before the next
   * one.
   */
  private async probeDatabase(): Promise<void> {
    if (await this.options.acceptsWrites()) {
      this.markRecovered();
      return;
    }
    this.nextTryAt = this.now() + RETRY_CHECKS * this.checkIntervalMs;
  }

  /** Accepts changes again. */
  private markRecovered(): void {
    this.recoveredAt = this.now();
    const previous = this.current;
    this.current = 'ok';
    this.options.log.warn(
      { was: previous, free_bytes: this.getFreeBytes(), reserve_bytes: this.reserve.getCurrentBytes() },
      'disk.recovered',
    );
  }

  /**
   * Tests the disk with a small file and returns the state. Never opens the database's own file: closing that file
   * would drop the locks of the engine.
   */
  private probeDisk(): DiskState {
    const probe = join(this.options.dataDir, '.writable');
    let state: DiskState = 'ok';
    try {
      writeFileSync(probe, Buffer.alloc(MIN_WRITABLE_BYTES, 1), { mode: 0o600 });
    } catch (error) {
      state = STATE_BY_SYSTEM_CODE[getCode(error)] ?? 'ok';
    }
    try {
      rmSync(probe, { force: true });
    } catch {
      // if it could be created, it can be removed; otherwise the disk has just failed, and the next check notices it
    }
    return state;
  }

  /** Returns the free bytes of the disk; undefined: the file system did not report them. */
  private getFreeBytes(): number | undefined {
    if (this.options.getFreeBytes) return this.options.getFreeBytes();
    try {
      return getAvailableBytes(this.options.dataDir);
    } catch {
      return undefined;
    }
  }
}

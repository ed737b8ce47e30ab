import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type Clock, createSteadyClock } from '../kernel/clock';
import { DomainError } from '../kernel/errors';
import type { Logger } from '../kernel/logger';
import { writeAtomically } from '../kernel/writeAtomically';
import { DAY_MS } from '../kernel/timeUnits';

/** A clock that jumped ahead of the server's last known time by more than this is not trusted immediately. */
const MAX_CLOCK_LEAD_MS = 3 * DAY_MS;
/** The server must run this long before it trusts such a clock, in milliseconds. */
const CLOCK_TRUST_DELAY_MS = 7 * DAY_MS;
/** A clock that is this far behind the server's last known time is wrong. */
const MAX_CLOCK_LAG_MS = DAY_MS;
/** A clock that moves back by more than this makes the server restart. */
const MAX_CLOCK_STEP_BACK_MS = 3_600_000;
/** A lead of the server's time over the clock that is reported. */
const MIN_REPORTED_LEAD_MS = 5000;
const WRITE_INTERVAL_MS = 3_600_000;
const CHECK_INTERVAL_MS = 5000;
/**
 * A machine with an earlier time has no clock that runs while it is off. Certificates created now would be expired when
 * the clock is set.
 */
const MIN_PLAUSIBLE_TIME_MS = Date.UTC(2020, 0, 1);

/** The persisted state of the clock: the content of `clock.json`. */
interface SavedClockState {
  /** The newest trusted time, Unix milliseconds. */
  readonly seen: number;
  /** For how long the server has run with a clock that is ahead and not trusted, in milliseconds. */
  readonly heldMs: number;
}

/**
 * Reads the persisted state of a data folder. Undefined: there is none, or this user may not read it; then the clock of
 * the machine is trusted.
 */
export function loadClockState(dataDir: string): SavedClockState | undefined {
  try {
    const { seen, heldMs } = JSON.parse(readFileSync(join(dataDir, 'clock.json'), 'utf8')) as Partial<SavedClockState>;
    return Number.isFinite(seen) && Number.isFinite(heldMs)
      ? { seen: Number(seen), heldMs: Number(heldMs) }
      : undefined;
  } catch {
    return undefined; // the first start, an empty file, or a file that this user may not read
  }
}

/** The dependencies of the monitor. */
interface ClockMonitorOptions {
  readonly dataDir: string;
  /** The machine's clock. */
  readonly clock: Clock;
  readonly log: Logger;
  /**
   * Called once, when the clock moved back by over an hour. The server's own time would stay ahead for hours, so
   * the caller must restart it.
   */
  readonly onMovedBackwards?: (error: DomainError) => void;
  /** The interval between two checks of the clock, in milliseconds; 5 s by default. */
  readonly checkIntervalMs?: number;
}

/**
 * Persists the time across restarts, in the file `clock.json` of the data folder. A clock that starts in the past does
 * not make expired keys valid again. A clock that starts years ahead, or jumps there, does not expire stored data,
 * because an unsynchronized machine must not lose a year of readings; it is trusted after 7 days, because a site may
 * have been off for long.
 */
export class ClockMonitor {
  /**
   * The server's time: never before the newest time seen, unless the machine is less than a day behind that time at the
   * start.
   */
  readonly steadyClock: Clock;
  /** The time used to remove expired data. */
  readonly retentionClock: Clock;
  /**
   * Whether the server's time may run slower, to let the machine's clock catch up after it was set back. Set by the
   * server once it knows whether a deadline is pending.
   */
  mayRunSlower: () => boolean = () => false;
  private readonly file: string;
  private readonly isBehind: boolean;
  private trustedTime: number;
  /** For how long the server has run since the clock was found to be ahead, in milliseconds; 0 if it is not ahead. */
  private serverRunMsWhileAhead: number;
  private isAhead = false;
  /** When the trusted time was updated last, on the monotonic clock. */
  private lastUpdateAt: number;
  private timer: NodeJS.Timeout | undefined;
  private hasMovedBackwards = false;
  /** Whether the lead of the server's time over the machine's clock was reported. */
  private isLeadReported = false;
  private lastWriteAt = -Infinity;
  private pendingWrite = Promise.resolve();

  /**
   * Throws `clock_skew`: there is no persisted state, and the clock shows a time before 2020.
   */
  constructor(private readonly options: ClockMonitorOptions) {
    const { clock, dataDir, log } = options;
    this.file = join(dataDir, 'clock.json');
    const machineTime = clock.now();
    const saved = loadClockState(dataDir);
    if (!saved && machineTime < MIN_PLAUSIBLE_TIME_MS) throw clockSkew(machineTime);
    const { seen: lastTrustedTime, heldMs } = saved ?? { seen: machineTime, heldMs: 0 };
    this.isBehind = lastTrustedTime - machineTime > MAX_CLOCK_LAG_MS;
    if (this.isBehind) {
      const message = `the clock of this machine is behind the last time that the server has seen, so the server uses that time: set the clock (NTP), or, if the server was wrong before, delete ${this.file} and restart the server`;
      log.error(
        { shown: new Date(machineTime).toISOString(), seen: new Date(lastTrustedTime).toISOString(), message },
        'clock.behind',
      );
    }
    this.steadyClock = createSteadyClock(clock, {
      notBefore: this.isBehind ? lastTrustedTime : undefined,
      mayRunSlower: () => !this.isBehind && this.mayRunSlower(),
    });
    // A clock that is behind by less than a day is right.
    this.trustedTime = Math.min(lastTrustedTime, this.steadyClock.now());
    this.serverRunMsWhileAhead = heldMs;
    this.lastUpdateAt = clock.monotonic();
    this.retentionClock = { now: () => this.updateTrustedTime(), monotonic: () => clock.monotonic() };
  }

  /** Starts checking the clock, and persists the time now and every hour. */
  start(): void {
    this.check();
    this.timer = setInterval(() => this.check(), this.options.checkIntervalMs ?? CHECK_INTERVAL_MS).unref();
  }

  /** Resolves when the time is persisted. */
  async stop(): Promise<void> {
    clearInterval(this.timer);
    await this.save();
  }

  /**
   * Whether the clock is ahead of the trusted time, and the server has run for less than a day with it: an
   * administrator may still correct it, so its time should not be stored in names or records that stay. A day is enough
   * for these; removing expired data cannot be undone, so it waits for the trusted time. Updates the trusted time
   * first.
   */
  isUnreliable(): boolean {
    this.updateTrustedTime();
    return this.isAhead && this.serverRunMsWhileAhead < DAY_MS;
  }

  /**
   * Compares the clock with the time that the trusted time and the elapsed time give. Trusts the clock unless it is
   * more than MAX_CLOCK_LEAD_MS ahead. Returns the trusted time, Unix milliseconds.
   */
  private updateTrustedTime(): number {
    const now = this.steadyClock.now();
    const monotonic = this.options.clock.monotonic();
    const elapsedMs = Math.max(0, monotonic - this.lastUpdateAt);
    this.lastUpdateAt = monotonic;
    const expectedTime = this.trustedTime + elapsedMs;
    const isTooFarAhead = now - expectedTime > MAX_CLOCK_LEAD_MS;
    if (isTooFarAhead) this.handleClockAhead(now, expectedTime, elapsedMs);
    else this.trustClock(now);
    return Math.floor(this.trustedTime);
  }

  /**
   * The clock (`now`) is too far ahead of the time that the trusted time and the elapsed time give, so `expectedTime`
   * becomes the trusted time. After CLOCK_TRUST_DELAY_MS in this state, the clock is trusted.
   */
  private handleClockAhead(now: number, expectedTime: number, elapsedMs: number): void {
    // The time before the jump was noticed does not count.
    if (this.isAhead) this.serverRunMsWhileAhead += elapsedMs;
    if (this.serverRunMsWhileAhead >= CLOCK_TRUST_DELAY_MS) {
      this.trustClock(now);
      return;
    }
    if (!this.isAhead) {
      const message = `the clock of this machine is days ahead of the last time that the server has seen, so expired data is not removed until the server has run for ${CLOCK_TRUST_DELAY_MS / DAY_MS} days, or the clock is set (NTP): if the clock is right, delete ${this.file} and restart the server`;
      this.options.log.error(
        { shown: new Date(now).toISOString(), seen: new Date(expectedTime).toISOString(), message },
        'clock.ahead',
      );
    }
    this.isAhead = true;
    this.trustedTime = expectedTime;
  }

  /** The clock is right: its time becomes the trusted time. */
  private trustClock(now: number): void {
    if (this.isAhead) this.options.log.warn({ now: new Date(now).toISOString() }, 'clock.jump_accepted');
    this.isAhead = false;
    this.serverRunMsWhileAhead = 0;
    this.trustedTime = now;
  }

  /** Updates the trusted time, reports a clock that moved back, and persists the state once an hour. */
  private check(): void {
    this.updateTrustedTime();
    this.reportBackwardsMove();
    if (this.options.clock.monotonic() - this.lastWriteAt >= WRITE_INTERVAL_MS) void this.save();
  }

  /**
   * Persists the state; resolves when it is written. Writes follow one another, so that an older state never replaces a
   * newer one.
   */
  private async save(): Promise<void> {
    const state: SavedClockState = { seen: this.updateTrustedTime(), heldMs: Math.round(this.serverRunMsWhileAhead) };
    this.lastWriteAt = this.options.clock.monotonic();
    this.pendingWrite = this.pendingWrite
      .then(async () => await writeAtomically(this.file, JSON.stringify(state), 0o600))
      .catch((error: unknown) => {
        // Usually a full disk, which the disk monitor reports.
        this.options.log.debug({ err: error }, 'clock.state_write_failed');
      });
    await this.pendingWrite;
  }

  /**
   * Reports once that the machine's clock moved back by over an hour, and any smaller lead of the server's time. The
   * server's time never moves back while it runs, so that no deadline occurs twice and readings keep their order.
   */
  private reportBackwardsMove(): void {
    const aheadMs = this.steadyClock.now() - this.options.clock.now();
    // With `isBehind`, the server's time is ahead since the start, which is logged already.
    if (this.hasMovedBackwards || this.isBehind) return;
    if (aheadMs <= MAX_CLOCK_STEP_BACK_MS) {
      this.reportLead(aheadMs);
      return;
    }
    this.hasMovedBackwards = true;
    const error = clockMovedBackwards(aheadMs);
    this.options.log.error({ ahead_ms: Math.round(aheadMs), message: error.message }, 'clock.moved_backwards');
    this.options.onMovedBackwards?.(error);
  }

  /** Reports when the server's time gets ahead of the machine's clock, and when the clock has caught up. */
  private reportLead(aheadMs: number): void {
    if (!this.isLeadReported && aheadMs >= MIN_REPORTED_LEAD_MS) {
      this.isLeadReported = true;
      const seconds = Math.round(aheadMs / 1000);
      const message = `the clock of this machine was set back, and the time of the server is ${seconds} s ahead of it: while no execution has a deadline, the server runs at half speed until they agree; restart the server to correct its time at once`;
      this.options.log.warn({ ahead_ms: aheadMs, message }, 'clock.ahead');
    } else if (this.isLeadReported && aheadMs <= 0) {
      this.isLeadReported = false;
      this.options.log.info({}, 'clock.caught_up');
    }
  }
}

/**
 * Creates the error for a clock of the machine that moved back. `aheadMs`: how far the time of the server is ahead of
 * it.
 */
function clockMovedBackwards(aheadMs: number): DomainError {
  return new DomainError(
    'conflict',
    'clock_moved_backwards',
    `the clock of this machine moved back by ${Math.round(aheadMs / 60_000)} minutes while the server was running, and the server cannot follow it: the server stops now. Start it again, unless a supervisor does, to use the right time`,
  );
}

/** Creates the error for a clock of the machine that shows an impossible time. */
function clockSkew(machineTime: number): DomainError {
  return new DomainError(
    'conflict',
    'clock_skew',
    `the clock of this machine shows ${new Date(machineTime).toISOString()}, which is impossible: set it (NTP), then start again`,
  );
}

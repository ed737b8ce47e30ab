import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type Clock, steadyClock } from '../kernel/clock';
import { DomainError } from '../kernel/errors';
import type { Logger } from '../kernel/logger';
import { writeAtomically } from '../kernel/writeAtomically';

const DAY = 86_400_000;
/** A clock that moved so much further than the server knows of is not believed at once. */
const MOST_AHEAD_MS = 3 * DAY;
/** So long the server runs before it believes such a clock all the same, in milliseconds. */
const HELD_FOR_MS = 7 * DAY;
/** A clock that is so far behind what the server has seen is wrong. */
const MOST_BEHIND_MS = DAY;
/** A clock that was put back by more makes the server begin anew. */
const MOST_PUT_BACK_MS = 3_600_000;
const WRITTEN_EVERY_MS = 3_600_000;
const LOOKED_AT_EVERY_MS = 5000;
/** A machine whose clock shows less has none that runs while it is off; certificates made now would be over when it is set. */
const EARLIEST = Date.UTC(2020, 0, 1);

/** What is remembered: the newest time that was believed, Unix milliseconds, and for how long one that is ahead of it was not. */
export interface Remembered {
  readonly seen: number;
  readonly heldMs: number;
}

/** What a person is told of the clock. */
export interface ClockFacts {
  /** `ahead`: what is over its time is not removed until the clock is believed; `behind`: the server goes by the newest time that it has seen. */
  readonly state: 'ok' | 'ahead' | 'behind';
  /** The newest time that is believed, Unix milliseconds. */
  readonly believed: number;
  /** What the clock of the machine shows, Unix milliseconds. */
  readonly shown: number;
}

/** What is remembered in a data folder; undefined: nothing, or nothing that this user may read. */
export function findRemembered(dataDir: string): Remembered | undefined {
  try {
    const { seen, heldMs } = JSON.parse(readFileSync(join(dataDir, 'clock.json'), 'utf8')) as Partial<Remembered>;
    return Number.isFinite(seen) && Number.isFinite(heldMs) ? { seen: Number(seen), heldMs: Number(heldMs) } : undefined;
  } catch {
    return undefined; // the first start, or a file that says nothing: then the clock is believed
  }
}

/** What it needs. */
export interface ClockMemoryOptions {
  readonly dataDir: string;
  /** The clock of the machine. */
  readonly clock: Clock;
  readonly log: Logger;
  /** The clock was put back by over an hour while the server ran, which stays ahead as long as it runs: end it, and start it again. Called once. */
  readonly onPutBack?: (why: DomainError) => void;
  /** How often the clock is looked at, in milliseconds; every 5 s where nothing is said. */
  readonly lookEveryMs?: number;
}

/**
 * Remembers across restarts, in the file `clock.json` of the data folder, what time it was. A clock that comes up in the past makes no key
 * valid again, and one that comes up years ahead, or jumps there, makes nothing go that is kept for a time: an unsynchronised machine is no
 * reason to lose a year of readings. It is believed after 7 days, for a site may have been off for long.
 */
export class ClockMemory {
  /** The time that the server goes by: never before the newest that was seen, unless by less than a day. */
  readonly steady: Clock;
  /** The time by which what is kept for a time is removed. */
  readonly forgetting: Clock;
  private readonly file: string;
  private readonly isBehind: boolean;
  private seen: number;
  private heldMs: number;
  private isHeld = false;
  private at: number;
  private timer: NodeJS.Timeout | undefined;
  private wasPutBack = false;
  private writtenAt = -Infinity;
  private writing = Promise.resolve();

  /** Throws `clock_wrong`: nothing is remembered, and the clock shows years before this program was made. */
  constructor(private readonly options: ClockMemoryOptions) {
    const { clock, dataDir, log } = options;
    this.file = join(dataDir, 'clock.json');
    const shown = clock.now();
    const remembered = findRemembered(dataDir);
    if (!remembered && shown < EARLIEST) throw clockWrong(shown);
    const { seen, heldMs } = remembered ?? { seen: shown, heldMs: 0 };
    this.isBehind = seen - shown > MOST_BEHIND_MS;
    if (this.isBehind) {
      const message = `the clock of this machine is behind what the server has seen, so it goes by that; set the clock (NTP), or, if the server was wrong before, delete ${this.file} and start again`;
      log.error({ shown: new Date(shown).toISOString(), seen: new Date(seen).toISOString(), message }, 'clock.behind');
    }
    this.steady = steadyClock(clock, this.isBehind ? seen : undefined);
    this.seen = Math.min(seen, this.steady.now()); // a clock that was put back by less is right
    this.heldMs = heldMs;
    this.at = clock.monotonic();
    this.forgetting = { now: () => this.believed(), monotonic: () => clock.monotonic() };
  }

  /** Looks at the clock from now on, and writes down what time it is, now and every hour. */
  start(): void {
    this.look();
    this.timer = setInterval(() => this.look(), this.options.lookEveryMs ?? LOOKED_AT_EVERY_MS).unref();
  }

  /** Resolves when it is written down what time it is. */
  async stop(): Promise<void> {
    clearInterval(this.timer);
    await this.write();
  }

  /** The clock is ahead, and the server has not run for a day since: it may be set soon, so what lasts should not be dated by it. */
  get isDoubted(): boolean {
    this.believed();
    return this.isHeld && this.heldMs < DAY;
  }

  facts(): ClockFacts {
    const believed = this.believed();
    return { state: this.isHeld ? 'ahead' : this.isBehind ? 'behind' : 'ok', believed, shown: this.options.clock.now() };
  }

  private believed(): number {
    const [now, monotonic] = [this.steady.now(), this.options.clock.monotonic()];
    const elapsed = Math.max(0, monotonic - this.at);
    this.at = monotonic;
    const expected = this.seen + elapsed;
    const isAhead = now - expected > MOST_AHEAD_MS;
    if (isAhead) this.hold(now, expected, elapsed);
    else this.release(now);
    return Math.floor(this.seen);
  }

  private hold(now: number, expected: number, elapsed: number): void {
    this.heldMs += this.isHeld ? elapsed : 0;
    if (this.heldMs >= HELD_FOR_MS) return this.release(now);
    if (!this.isHeld) {
      const message = `the clock of this machine is days ahead of what the server has seen, so nothing that is kept for a time is removed until it has run for ${HELD_FOR_MS / DAY} days, or the clock is set (NTP); if the clock is right, delete ${this.file} and start again`;
      this.options.log.error({ shown: new Date(now).toISOString(), seen: new Date(expected).toISOString(), message }, 'clock.ahead');
    }
    this.isHeld = true;
    this.seen = expected;
  }

  private release(now: number): void {
    if (this.isHeld) this.options.log.warn({ now: new Date(now).toISOString() }, 'clock.believed');
    this.isHeld = false;
    this.heldMs = 0;
    this.seen = now;
  }

  private look(): void {
    this.believed();
    this.endWherePutBack();
    if (this.options.clock.monotonic() - this.writtenAt >= WRITTEN_EVERY_MS) void this.write();
  }

  private async write(): Promise<void> {
    const remembered: Remembered = { seen: this.believed(), heldMs: Math.round(this.heldMs) };
    this.writtenAt = this.options.clock.monotonic();
    this.writing = this.writing.then(async () => await writeAtomically(this.file, JSON.stringify(remembered), 0o600)).catch((error: unknown) => {
      this.options.log.debug({ err: error }, 'clock.not_remembered'); // the disk is full, which others say
    });
    await this.writing;
  }

  /** The server never goes back with the clock while it runs, so that no deadline comes twice. */
  private endWherePutBack(): void {
    const ahead = this.steady.now() - this.options.clock.now();
    if (this.wasPutBack || this.isBehind || ahead <= MOST_PUT_BACK_MS) return;
    this.wasPutBack = true;
    const why = putBack(ahead);
    this.options.log.error({ ahead_ms: Math.round(ahead), message: why.message }, 'clock.put_back');
    this.options.onPutBack?.(why);
  }
}

function putBack(aheadMs: number): DomainError {
  return new DomainError('conflict', 'clock_put_back', `the clock of this machine was put back by ${Math.round(aheadMs / 60_000)} minutes while the server ran, which never goes back with it; so it ends, to begin anew with the right time: start it again, where nothing does that by itself`);
}

function clockWrong(shown: number): DomainError {
  return new DomainError('conflict', 'clock_wrong', `the clock of this machine shows ${new Date(shown).toISOString()}, which cannot be; set it (NTP), then start again`);
}

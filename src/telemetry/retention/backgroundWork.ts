import { setTimeout as pause } from 'node:timers/promises';
import type { Database, Db } from '../../database';
import type { Clock } from '../../kernel/clock';

const LONGEST_TURN_MS = 5;
/** With the commit, which depends on the disk more than on the rows. */
const LONGEST_STEP_MS = 20;
const LONGEST_PAUSE_MS = 50;
const LEAST = 20;
const FIRST = 200;
const MOST = 2000;
/** Items of a page; each may take a few reads from a cold disk. */
const FIRST_PAGE = 20;
const LARGEST_PAGE = 200;

/** What work in the background needs. */
export interface BackgroundOptions {
  readonly database: Database;
  readonly clock: Clock;
  /** Ends the work between two turns: then they throw its reason. */
  readonly signal: AbortSignal;
  /** Rows that a step writes at most; 2000 where nothing is said. */
  readonly most?: number;
}

/** Lets work in the background take small turns, and leaves half of the time to the others, so that nobody who calls waits for it long. */
export class BackgroundWork {
  private began: number;
  private rows: number;
  private items = FIRST_PAGE;

  constructor(private readonly options: BackgroundOptions) {
    this.began = options.clock.monotonic();
    this.rows = Math.min(FIRST, this.most);
  }

  /** Between two pieces of work that only read: pauses if this turn was long enough, for as long as it took. */
  async breathe(): Promise<void> {
    const { clock, signal } = this.options;
    signal.throwIfAborted();
    const took = clock.monotonic() - this.began;
    if (took < LONGEST_TURN_MS) return;
    await this.pause(took);
  }

  /** Reads the next page of a list, with as many items as fit into a turn, as far as the pages before tell. `isLast`: no more come after it. Then it breathes. */
  async page<Item>(read: (limit: number) => Promise<Item[]>): Promise<{ readonly items: Item[]; readonly isLast: boolean }> {
    const limit = this.items;
    const before = this.options.clock.monotonic();
    const items = await read(limit);
    const took = this.options.clock.monotonic() - before;
    if (took > LONGEST_TURN_MS) this.items = Math.max(1, Math.floor(limit / 2));
    else if (took < LONGEST_TURN_MS / 2) this.items = Math.min(LARGEST_PAGE, limit * 2);
    await this.breathe();
    return { items, isLast: items.length < limit };
  }

  /**
   * Runs one step in a transaction of its own. It may write so many `rows`: as many as fit into a turn, as far as the steps before tell.
   * Where it does several things, it ends before the next one once `isLate` says so. Then it pauses for as long as the step took.
   */
  async step<T>(work: (db: Db, rows: number, isLate: () => boolean) => Promise<T>): Promise<T> {
    const { database, clock, signal } = this.options;
    signal.throwIfAborted();
    let began = 0;
    let worked = 0;
    const result = await database.transaction(async (db) => {
      began = clock.monotonic();
      const value = await work(db, this.rows, () => clock.monotonic() - began > LONGEST_TURN_MS);
      worked = clock.monotonic() - began;
      return value;
    });
    const took = clock.monotonic() - began;
    this.learn(worked, took);
    await this.pause(took);
    return result;
  }

  private get most(): number {
    return this.options.most ?? MOST;
  }

  private async pause(took: number): Promise<void> {
    await pause(Math.max(1, Math.min(took, LONGEST_PAUSE_MS)));
    this.began = this.options.clock.monotonic();
  }

  private learn(worked: number, took: number): void {
    if (worked > LONGEST_TURN_MS || took > LONGEST_STEP_MS) this.rows = Math.max(Math.min(LEAST, this.most), Math.floor(this.rows / 2));
    else if (worked < LONGEST_TURN_MS / 2) this.rows = Math.min(this.most, this.rows * 2);
  }
}

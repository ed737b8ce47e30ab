import { setTimeout as pause } from 'node:timers/promises';
import type { Database, Db } from '../../database';
import type { Clock } from '../../kernel/clock';

const LONGEST_TURN_MS = 5;
const LONGEST_PAUSE_MS = 50;
const LEAST = 20;
const FIRST = 200;
const MOST = 2000;

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

  /**
   * Runs one step in a transaction of its own. It may write so many `rows`: as many as fit into a turn, as far as the steps before tell.
   * Then it pauses for as long as the step took.
   */
  async step<T>(work: (db: Db, rows: number) => Promise<T>): Promise<T> {
    const { database, clock, signal } = this.options;
    signal.throwIfAborted();
    let took = 0;
    const result = await database.transaction(async (db) => {
      const before = clock.monotonic();
      const value = await work(db, this.rows);
      took = clock.monotonic() - before;
      return value;
    });
    this.learn(took);
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

  private learn(took: number): void {
    if (took > LONGEST_TURN_MS) this.rows = Math.max(Math.min(LEAST, this.most), Math.floor(this.rows / 2));
    else if (took < LONGEST_TURN_MS / 2) this.rows = Math.min(this.most, this.rows * 2);
  }
}

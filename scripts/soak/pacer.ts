import { setTimeout as pause } from 'node:timers/promises';
import type { Random } from './random';

/** Something that is done again and again. */
export interface Work {
  readonly name: string;
  readonly perSecond: number;
  /** Does it once. Throws what is wrong. */
  readonly once: () => Promise<void>;
}

/** How often each work was done, and what was wrong. */
export interface Tally {
  readonly name: string;
  done: number;
  failed: number;
  /** Of the first that failed. */
  fault: string | undefined;
}

// So many of one kind under way are a server that does not answer.
const MOST_UNDER_WAY = 500;
const LONGEST_END_MS = 30_000;
/** How often a rare work looks whether all is over. */
const LOOK_MS = 500;

/** Does works at their rates, whether earlier ones are done or not, at random moments. */
export class Pacer {
  readonly tallies: Tally[] = [];
  private readonly under = new Set<Promise<void>>();
  private readonly loops: Promise<void>[] = [];
  private isOver = false;

  constructor(private readonly random: Random) {}

  get done(): number {
    return this.tallies.reduce((sum, { done }) => sum + done, 0);
  }

  get failed(): number {
    return this.tallies.reduce((sum, { failed }) => sum + failed, 0);
  }

  /** Begins; it goes on until `stop`. */
  start(works: readonly Work[]): void {
    for (const work of works) {
      const tally: Tally = { name: work.name, done: 0, failed: 0, fault: undefined };
      this.tallies.push(tally);
      this.loops.push(this.keepDoing(work, tally));
    }
  }

  /** Begins nothing more, and waits for what is under way. */
  async stop(): Promise<void> {
    this.isOver = true;
    await Promise.all(this.loops);
    const left = await Promise.race([Promise.all(this.under).then(() => 0), pause(LONGEST_END_MS, undefined, { ref: false }).then(() => this.under.size)]);
    const [first] = this.tallies;
    if (left > 0 && first) fail(first, `${left} calls were not answered ${LONGEST_END_MS / 1000} s after the end`);
  }

  private async keepDoing({ perSecond, once }: Work, tally: Tally): Promise<void> {
    let due = performance.now();
    let underWay = 0;
    while (!this.isOver) {
      due += this.random.gapMs(perSecond);
      do await pause(Math.max(0, Math.min(due - performance.now(), LOOK_MS)));
      while (!this.isOver && due > performance.now());
      if (this.isOver) return;
      if (underWay >= MOST_UNDER_WAY) {
        fail(tally, `${underWay} were under way at once`);
        continue;
      }
      underWay += 1;
      const doing = once()
        .then(() => void (tally.done += 1))
        .catch((error: unknown) => fail(tally, error instanceof Error ? error.message : String(error)))
        .finally(() => {
          underWay -= 1;
          this.under.delete(doing);
        });
      this.under.add(doing);
    }
  }
}

function fail(tally: Tally, fault: string): void {
  tally.failed += 1;
  tally.fault ??= fault;
}

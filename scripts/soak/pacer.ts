import { setTimeout as pause } from 'node:timers/promises';
import type { Random } from './random';

/** An operation that is repeated at a rate. */
export interface Work {
  readonly name: string;
  readonly perSecond: number;
  /** Runs the operation once. Throws if it fails. */
  readonly run: () => Promise<void>;
}

/** How often an operation was done and failed. */
export interface WorkCounter {
  readonly name: string;
  done: number;
  failed: number;
  /** The message of the first failure. */
  firstError: string | undefined;
}

// So many concurrent operations of one kind mean that the server does not respond.
const MAX_IN_PROGRESS = 500;
const MAX_END_MS = 30_000;
/** How often the loop of a rare operation checks whether the run is over. */
const POLL_INTERVAL_MS = 500;

/** Runs operations at their rates, at random times, without waiting for earlier ones. */
export class Pacer {
  readonly counters: WorkCounter[] = [];
  private readonly pending = new Set<Promise<void>>();
  private readonly loops: Promise<void>[] = [];
  private isOver = false;

  constructor(private readonly random: Random) {}

  get done(): number {
    return this.counters.reduce((sum, { done }) => sum + done, 0);
  }

  get failed(): number {
    return this.counters.reduce((sum, { failed }) => sum + failed, 0);
  }

  /** Starts the operations; they are repeated until `stop`. */
  start(works: readonly Work[]): void {
    for (const work of works) {
      const counter: WorkCounter = { name: work.name, done: 0, failed: 0, firstError: undefined };
      this.counters.push(counter);
      this.loops.push(this.repeat(work, counter));
    }
  }

  /** Starts no more operations, and waits for those in progress. */
  async stop(): Promise<void> {
    this.isOver = true;
    await Promise.all(this.loops);
    const left = await Promise.race([
      Promise.all(this.pending).then(() => 0),
      pause(MAX_END_MS, undefined, { ref: false }).then(() => this.pending.size),
    ]);
    const [first] = this.counters;
    if (left > 0 && first) recordFailure(first, `${left} calls had no response ${MAX_END_MS / 1000} s after the end`);
  }

  private async repeat({ perSecond, run }: Work, counter: WorkCounter): Promise<void> {
    let due = performance.now();
    let inProgress = 0;
    while (!this.isOver) {
      due += this.random.gapMs(perSecond);
      do await pause(Math.max(0, Math.min(due - performance.now(), POLL_INTERVAL_MS)));
      while (!this.isOver && due > performance.now());
      if (this.isOver) return;
      if (inProgress >= MAX_IN_PROGRESS) {
        recordFailure(counter, `${inProgress} were in progress concurrently`);
        continue;
      }
      inProgress += 1;
      const doing = run()
        .then(() => void (counter.done += 1))
        .catch((error: unknown) => recordFailure(counter, error instanceof Error ? error.message : String(error)))
        .finally(() => {
          inProgress -= 1;
          this.pending.delete(doing);
        });
      this.pending.add(doing);
    }
  }
}

function recordFailure(counter: WorkCounter, firstError: string): void {
  counter.failed += 1;
  counter.firstError ??= firstError;
}

import { FairQueue } from '../../kernel/fairQueue';

/**
 * Limits how many tasks run at the same time, in total and per key; the others wait. Tasks of one key start in their
 * order; the keys take turns. So uplinks alone never fill the queue of the sandbox, and the result of the running tasks
 * of a key is known before its next ones start.
 */
export class ConcurrencyLimiter {
  /** The functions that start the waiting tasks. */
  private readonly waiting = new FairQueue<() => void>();
  private readonly runningByKey = new Map<string, number>();
  private runningCount = 0;

  constructor(private readonly limits: { readonly perKey: number; readonly total: number }) {}

  /** Runs the task as soon as the limits allow it. Resolves or rejects as the task does. */
  async run<T>(key: string, task: () => Promise<T>): Promise<T> {
    await new Promise<void>((resolve) => {
      this.waiting.add(key, () => {
        this.changeRunning(key, 1);
        resolve();
      });
      this.startWaitingTasks();
    });
    try {
      return await task();
    } finally {
      this.changeRunning(key, -1);
      this.startWaitingTasks();
    }
  }

  /** Starts waiting tasks until the limits are reached. */
  private startWaitingTasks(): void {
    while (this.runningCount < this.limits.total) {
      const start = this.waiting.removeNext((key) => this.getRunning(key) < this.limits.perKey);
      if (!start) return;
      start();
    }
  }

  /** Records that a task of the key has started (1) or ended (-1). */
  private changeRunning(key: string, change: 1 | -1): void {
    const running = this.getRunning(key) + change;
    if (running > 0) this.runningByKey.set(key, running);
    else this.runningByKey.delete(key);
    this.runningCount += change;
  }

  private getRunning(key: string): number {
    return this.runningByKey.get(key) ?? 0;
  }
}

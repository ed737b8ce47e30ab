/**
 * Runs jobs: those with the same key one after another, others concurrently. At most `limit` jobs are in progress,
 * including those that wait for an earlier job with the same key.
 */
export class KeyedQueue {
  /** Resolves when the last job of each key has ended. A key without jobs in progress has no entry. */
  private readonly lastJobByKey = new Map<string, Promise<void>>();
  /** Wakes the callers that wait for a free slot, in order. */
  private readonly slotWaiters: (() => void)[] = [];
  private inProgressCount = 0;

  constructor(private readonly limit: number) {}

  /** Adds a job; waits only while `limit` jobs are in progress, not for the job. The job must not reject. */
  async add(key: string, job: () => Promise<void>): Promise<void> {
    // Checked again after each wait, because another caller may have taken the free slot.
    while (this.inProgressCount >= this.limit) await new Promise<void>((resolve) => this.slotWaiters.push(resolve));
    this.inProgressCount += 1;
    const lastJob = (this.lastJobByKey.get(key) ?? Promise.resolve())
      .then(job)
      .finally(() => this.finishJob(key, lastJob));
    this.lastJobByKey.set(key, lastJob);
  }

  /** Resolves when no job is in progress. */
  async waitUntilIdle(): Promise<void> {
    while (this.lastJobByKey.size > 0) await Promise.all(this.lastJobByKey.values());
  }

  /** Frees the slot of a job, and wakes the next caller that waits for one. */
  private finishJob(key: string, lastJob: Promise<void>): void {
    this.inProgressCount -= 1;
    if (this.lastJobByKey.get(key) === lastJob) this.lastJobByKey.delete(key);
    this.slotWaiters.shift()?.();
  }
}

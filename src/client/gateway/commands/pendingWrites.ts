/** Tracks running work that writes to the store, so that others can wait until it is done. */
export class PendingWrites {
  private readonly running = new Set<Promise<void>>();

  /** `onFailure`: called with the error of work that failed. */
  constructor(private readonly onFailure: (error: unknown) => void) {}

  /** The number of running calls of `run`. */
  get runningCount(): number {
    return this.running.size;
  }

  /** Runs the work. Resolves with its result, or with undefined if it failed; the failure is passed to `onFailure`. */
  async run<Result>(work: () => Promise<Result>): Promise<Result | undefined> {
    const result = work().catch((error: unknown) => {
      this.onFailure(error);
      return undefined;
    });
    const running = result.then(() => void this.running.delete(running));
    this.running.add(running);
    return await result;
  }

  /** Resolves when no work is running. */
  async waitUntilDone(): Promise<void> {
    while (this.running.size > 0) await Promise.all(this.running);
  }
}

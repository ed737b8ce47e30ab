// Another process that writes to the same database is noticed by looking.
const LOOK_EVERY_MS = 2000;

/** Tells those who watch an organization that its executions have news. It holds no news itself: those are in the database. */
export class ExecutionFeed {
  private readonly waiting = new Map<string, Set<() => void>>();
  private readonly changes = new Map<string, number>();

  /** There is news. */
  notify(organizationId: string): void {
    this.changes.set(organizationId, this.seen(organizationId) + 1);
    const waiting = this.waiting.get(organizationId);
    this.waiting.delete(organizationId);
    for (const wake of waiting ?? []) wake();
  }

  /** How much news there has been; give it to `news` after having looked. */
  seen(organizationId: string): number {
    return this.changes.get(organizationId) ?? 0;
  }

  /** Resolves when there is more news than `seen`, when it is time to look in any case, or when the signal aborts. */
  async news(organizationId: string, seen: number, signal: AbortSignal): Promise<void> {
    if (signal.aborted || this.seen(organizationId) !== seen) return;
    await new Promise<void>((resolve) => {
      const waiting = this.waiting.get(organizationId) ?? new Set();
      const wake = (): void => {
        clearTimeout(timer);
        signal.removeEventListener('abort', wake);
        waiting.delete(wake);
        resolve();
      };
      const timer = setTimeout(wake, LOOK_EVERY_MS);
      timer.unref();
      signal.addEventListener('abort', wake);
      waiting.add(wake);
      this.waiting.set(organizationId, waiting);
    });
  }
}

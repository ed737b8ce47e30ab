// Another process that writes to the same database is noticed by looking.
const LOOK_EVERY_MS = 2000;

/** Tells those who watch an organization that its executions have news. It holds no news itself: those are in the database; nor anything of an organization that nobody watches. */
export class ExecutionFeed {
  private readonly readers = new Map<string, Set<NewsReader>>();

  /** There is news. */
  notify(organizationId: string): void {
    for (const reader of this.readers.get(organizationId) ?? []) reader.tell();
  }

  /** From now on news of this organization is noticed, until the signal aborts or the reader is closed. */
  open(organizationId: string, signal: AbortSignal): NewsReader {
    const readers = this.readers.get(organizationId) ?? new Set();
    const close = (): void => {
      signal.removeEventListener('abort', close);
      readers.delete(reader);
      if (readers.size === 0 && this.readers.get(organizationId) === readers) this.readers.delete(organizationId);
      reader.tell();
    };
    const reader = new NewsReader(close);
    if (signal.aborted) return reader;
    this.readers.set(organizationId, readers.add(reader));
    signal.addEventListener('abort', close);
    return reader;
  }
}

/** One who watches an organization. */
export class NewsReader {
  private isTold = false;
  private wake: (() => void) | undefined;

  constructor(
    /** No more news; whoever waits for some goes on. */
    readonly close: () => void,
  ) {}

  /** Call it before looking: what comes from now on is news. */
  looks(): void {
    this.isTold = false;
  }

  /** There is news. */
  tell(): void {
    this.isTold = true;
    this.wake?.();
  }

  /** Resolves when there is news since the last look, or when it is time to look in any case. */
  async news(): Promise<void> {
    if (this.isTold) return;
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, LOOK_EVERY_MS);
      timer.unref();
      this.wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
    this.wake = undefined;
  }
}

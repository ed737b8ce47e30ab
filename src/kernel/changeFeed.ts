// Changes by another process that writes to the same database are noticed by polling.
const POLL_INTERVAL_MS = 2000;

/**
 * Notifies watchers of an organization that its records of one kind changed. It holds no events, which are in the
 * database, and no state for organizations without watchers.
 */
export class ChangeFeed {
  private readonly subscriptions = new Map<string, Set<ChangeSubscription>>();

  /** Notifies the watchers of an organization that something changed. */
  notify(organizationId: string): void {
    for (const subscription of this.subscriptions.get(organizationId) ?? []) subscription.notify();
  }

  /** Subscribes to changes of this organization until the signal aborts or the subscription is closed. */
  subscribe(organizationId: string, signal: AbortSignal): ChangeSubscription {
    const organizationSubscriptions = this.subscriptions.get(organizationId) ?? new Set();
    const close = (): void => {
      signal.removeEventListener('abort', close);
      organizationSubscriptions.delete(subscription);
      // A later subscriber may have created another set, after this one was empty.
      const isCurrent = this.subscriptions.get(organizationId) === organizationSubscriptions;
      if (organizationSubscriptions.size === 0 && isCurrent) this.subscriptions.delete(organizationId);
      subscription.notify();
    };
    const subscription = new ChangeSubscription(close);
    if (signal.aborted) return subscription;
    this.subscriptions.set(organizationId, organizationSubscriptions.add(subscription));
    signal.addEventListener('abort', close);
    return subscription;
  }
}

/** The subscription of one watcher. */
export class ChangeSubscription {
  private hasChange = false;
  private wake: (() => void) | undefined;

  constructor(
    /** Stops notifications; a waiting caller continues. */
    readonly close: () => void,
  ) {}

  /** Call this before reading from the database: changes from now on count as new. */
  markRead(): void {
    this.hasChange = false;
  }

  /** Reports a change. */
  notify(): void {
    this.hasChange = true;
    this.wake?.();
  }

  /** Resolves when a change was reported since the last read, or when the subscription is closed. */
  async waitForNotification(): Promise<void> {
    if (this.hasChange) return;
    await new Promise<void>((resolve) => (this.wake = resolve));
    this.wake = undefined;
  }

  /** Same as waitForNotification, and resolves when the polling interval has passed. */
  async waitForChange(): Promise<void> {
    if (this.hasChange) return;
    const timer = setTimeout(() => this.wake?.(), POLL_INTERVAL_MS).unref();
    await this.waitForNotification();
    clearTimeout(timer);
  }
}

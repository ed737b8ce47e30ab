import { evictOldest } from '../../kernel/evictOldest';

/** The maximum number of ids that are kept. For a time before the evicted changes, hasChanged returns true. */
const MAX_TRACKED_IDS = 10_000;

/**
 * Records which keys and organizations this process changed, so that only the affected keys are read again, and
 * notifies listeners. Changes are numbered from 1.
 */
export class KeyInvalidation {
  /** The number of the last change of each id. */
  private readonly lastChangeById = new Map<string, number>();
  private changeCount = 0;
  /** Changes up to this number may have been evicted. */
  private lastEvictedChange = 0;
  private readonly keyListeners = new Set<(keyId: string) => void>();
  private readonly accessListeners = new Set<(organizationId: string) => void>();

  /** The number of the latest change. */
  get latestChange(): number {
    return this.changeCount;
  }

  /** Records a change of a key. Call it after the change is stored. */
  keyChanged(keyId: string): void {
    this.record(keyId);
    for (const listener of this.keyListeners) listener(keyId);
  }

  /** Records a change of the members, roles or settings of an organization. Call it after the change is stored. */
  accessChanged(organizationId: string): void {
    this.record(organizationId);
    for (const listener of this.accessListeners) listener(organizationId);
  }

  /** Calls the listener with the id of each changed key. Returns a function that removes the listener. */
  onKeyChanged(listener: (keyId: string) => void): () => void {
    this.keyListeners.add(listener);
    return () => this.keyListeners.delete(listener);
  }

  /** Calls the listener with the id of each changed organization. Returns a function that removes the listener. */
  onAccessChanged(listener: (organizationId: string) => void): () => void {
    this.accessListeners.add(listener);
    return () => this.accessListeners.delete(listener);
  }

  /**
   * Whether the key or its organization may have changed after the change with the number `since`. Also returns true if
   * `since` is so long ago that changes after it may have been evicted.
   */
  hasChanged(since: number, keyId: string, organizationId: string): boolean {
    if (since === this.changeCount) return false; // nothing changed
    return (
      since < this.lastEvictedChange ||
      (this.lastChangeById.get(keyId) ?? 0) > since ||
      (this.lastChangeById.get(organizationId) ?? 0) > since
    );
  }

  private record(id: string): void {
    this.changeCount += 1;
    // Deleting and inserting again moves the id to the end of the map, so that the map stays ordered by change.
    if (!this.lastChangeById.delete(id)) this.evict();
    this.lastChangeById.set(id, this.changeCount);
  }

  /** Evicts the oldest ids if the map is full, and remembers up to which change the log is now incomplete. */
  private evict(): void {
    const { size } = this.lastChangeById;
    evictOldest(this.lastChangeById, MAX_TRACKED_IDS);
    if (this.lastChangeById.size === size) return;
    const [oldestChange = this.changeCount] = this.lastChangeById.values(); // the map is ordered by change
    this.lastEvictedChange = oldestChange - 1;
  }
}

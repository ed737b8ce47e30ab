import { evictOldest } from '../kernel/evictOldest';

const MAX_TRACKED_IDS = 10_000;

/**
 * The ids of recently deleted connections, so that late events of these connections are ignored. Such events arrive
 * within seconds, so at most the last 10,000 ids are stored. Ids are never reused.
 */
export class TombstoneCache {
  private readonly ids = new Set<string>();

  /** Adds a deleted connection. */
  add(id: string): void {
    evictOldest(this.ids, MAX_TRACKED_IDS);
    this.ids.add(id);
  }

  /** Whether the connection was recently deleted. */
  has(id: string): boolean {
    return this.ids.has(id);
  }
}

/** The limits of the queue, of one owner or in total. */
interface QueueLimits {
  readonly items: number;
  /** The sum of the weights. */
  readonly weight: number;
}

/** The waiting items of one owner; at least one. */
interface OwnerQueue<T> {
  readonly items: { readonly value: T; readonly weight: number }[];
  weight: number;
}

const UNLIMITED: QueueLimits = { items: Infinity, weight: Infinity };

/** A queue of items by owner. Owners are served round robin; the items of one owner are first in, first out. */
export class FairQueue<T> {
  // The order of the Map is the round robin order: an owner moves to the end when it is served.
  private readonly queueByOwner = new Map<string, OwnerQueue<T>>();
  private itemCount = 0;
  private totalWeight = 0;

  constructor(
    private readonly limits: { readonly perOwner: QueueLimits; readonly total: QueueLimits } = {
      perOwner: UNLIMITED,
      total: UNLIMITED,
    },
  ) {}

  /** The number of waiting items. */
  get size(): number {
    return this.itemCount;
  }

  /** Appends an item to the owner's queue. Returns false if it would exceed a limit of the owner or of all owners. */
  add(owner: string, value: T, weight = 0): boolean {
    const queue = this.queueByOwner.get(owner) ?? { items: [], weight: 0 };
    const { perOwner, total } = this.limits;
    if (
      queue.items.length >= perOwner.items ||
      this.itemCount >= total.items ||
      this.totalWeight + weight > total.weight ||
      queue.weight + weight > perOwner.weight
    )
      return false;
    queue.items.push({ value, weight });
    queue.weight += weight;
    this.queueByOwner.set(owner, queue);
    this.itemCount += 1;
    this.totalWeight += weight;
    return true;
  }

  /**
   * Removes and returns the next item; undefined if there is none. Owners for which `canRun` returns false are skipped
   * and keep their position.
   */
  removeNext(canRun: (owner: string) => boolean = () => true): T | undefined {
    for (const [owner, queue] of this.queueByOwner) {
      if (!canRun(owner)) continue;
      this.queueByOwner.delete(owner); // inserted again at the end
      this.queueByOwner.set(owner, queue);
      return this.removeAt(owner, queue, 0);
    }
    return undefined;
  }

  /** Removes an item that no longer needs to wait. Returns false if it is not in the queue. */
  remove(owner: string, value: T): boolean {
    const queue = this.queueByOwner.get(owner);
    const index = queue?.items.findIndex((item) => item.value === value) ?? -1;
    if (!queue || index === -1) return false;
    this.removeAt(owner, queue, index);
    return true;
  }

  /** Removes and returns all items. */
  removeAll(): readonly T[] {
    const removed: T[] = [];
    for (let value = this.removeNext(); value !== undefined; value = this.removeNext()) removed.push(value);
    return removed;
  }

  /** Removes and returns the item at an index of the owner's queue. */
  private removeAt(owner: string, queue: OwnerQueue<T>, index: number): T | undefined {
    const [item] = queue.items.splice(index, 1);
    if (queue.items.length === 0) this.queueByOwner.delete(owner);
    if (!item) return undefined;
    queue.weight -= item.weight;
    this.itemCount -= 1;
    this.totalWeight -= item.weight;
    return item.value;
  }
}

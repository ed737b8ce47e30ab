// The minimum number of removed items before the array is compacted.
const MIN_REMOVED_TO_COMPACT = 1000;

/** A first-in, first-out queue. Taking an item has constant cost, regardless of the length. */
export class FifoQueue<Item> {
  private items: Item[] = [];
  /** The index of the first item; the items before it were taken. */
  private head = 0;

  get size(): number {
    return this.items.length - this.head;
  }

  /** Returns the first item without removing it. */
  peek(): Item | undefined {
    return this.items[this.head];
  }

  add(item: Item): void {
    this.items.push(item);
  }

  /** Removes and returns the first item; undefined if the queue is empty. */
  take(): Item | undefined {
    if (this.head === this.items.length) return undefined;
    const item = this.items[this.head] as Item;
    this.head += 1;
    if (this.head === this.items.length) this.replace([]);
    else if (this.head >= MIN_REMOVED_TO_COMPACT && this.head > this.items.length / 2)
      this.replace(this.items.slice(this.head));
    return item;
  }

  /** Replaces all items. */
  replace(items: Item[]): void {
    this.items = items;
    this.head = 0;
  }
}

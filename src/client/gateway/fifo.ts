// Below that a copy costs less than it frees.
const FEWEST_TO_TIDY = 1000;

/** First in, first out; taking costs the same however many wait. */
export class Fifo<Item> {
  private items: Item[] = [];
  private head = 0;

  get size(): number {
    return this.items.length - this.head;
  }

  /** The first one, which stays. */
  peek(): Item | undefined {
    return this.items[this.head];
  }

  add(item: Item): void {
    this.items.push(item);
  }

  /** Takes the first one; undefined: none waits. */
  take(): Item | undefined {
    if (this.head === this.items.length) return undefined;
    const item = this.items[this.head] as Item;
    this.head += 1;
    if (this.head === this.items.length) this.replace([]);
    else if (this.head >= FEWEST_TO_TIDY && this.head * 2 > this.items.length) this.replace(this.items.slice(this.head));
    return item;
  }

  /** Puts these in the place of all that wait. */
  replace(items: Item[]): void {
    this.items = items;
    this.head = 0;
  }
}

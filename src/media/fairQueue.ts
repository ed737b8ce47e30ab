/** Things that wait, each for an owner. The owners have turns: one who brings many waits for others no less than they for him. */
export class FairQueue<T> {
  /** The first of the owners is the next. None is without things. */
  private readonly owners = new Map<string, T[]>();
  private count = 0;

  /** How many wait in all. */
  get size(): number {
    return this.count;
  }

  /** How many of an owner's wait. */
  sizeOf(owner: string): number {
    return this.owners.get(owner)?.length ?? 0;
  }

  /** Lets a thing wait behind its owner's others. */
  add(owner: string, thing: T): void {
    const things = this.owners.get(owner);
    if (things) things.push(thing);
    else this.owners.set(owner, [thing]);
    this.count += 1;
  }

  /** Takes the next; undefined: none waits. */
  take(): T | undefined {
    for (const [owner, [thing, ...others]] of this.owners) {
      this.owners.delete(owner);
      if (others.length > 0) this.owners.set(owner, others); // the last one now
      this.count -= 1;
      return thing;
    }
    return undefined;
  }

  /** Takes a thing out, wherever it stands; false: it does not wait any more. */
  remove(owner: string, thing: T): boolean {
    const things = this.owners.get(owner) ?? [];
    const at = things.indexOf(thing);
    if (at === -1) return false;
    things.splice(at, 1);
    if (things.length === 0) this.owners.delete(owner);
    this.count -= 1;
    return true;
  }
}

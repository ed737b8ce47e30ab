/** How much may wait. */
export interface TurnLimits {
  readonly items: number;
  /** The sum of the weights. */
  readonly weight: number;
}

interface Item<T> {
  readonly value: T;
  readonly weight: number;
}

/** What waits, by owner. Owners take turns; an owner's own are first in, first out. */
export class Turns<T> {
  // The order of a Map is that of the turns: who was served goes to its end.
  private readonly owners = new Map<string, Item<T>[]>();
  private items = 0;
  private weight = 0;

  constructor(private readonly limits: { readonly each: TurnLimits; readonly all: TurnLimits }) {}

  /** How many wait. */
  get size(): number {
    return this.items;
  }

  /** Takes one more to the end of its owner's row. False: too much waits already. */
  add(owner: string, value: T, weight: number): boolean {
    const row = this.owners.get(owner) ?? [];
    const { each, all } = this.limits;
    if (row.length >= each.items || this.items >= all.items || this.weight + weight > all.weight || sum(row) + weight > each.weight) return false;
    row.push({ value, weight });
    this.owners.set(owner, row);
    this.items += 1;
    this.weight += weight;
    return true;
  }

  /** Takes out whose turn it is; those who may not go now keep their place. */
  next(mayGo: (owner: string) => boolean = () => true): T | undefined {
    for (const [owner, row] of this.owners) {
      if (!mayGo(owner)) continue;
      const item = row.shift();
      this.owners.delete(owner);
      if (row.length > 0) this.owners.set(owner, row);
      if (!item) continue;
      this.items -= 1;
      this.weight -= item.weight;
      return item.value;
    }
    return undefined;
  }

  /** Takes out one that need not wait any more. False: it does not wait. */
  remove(owner: string, value: T): boolean {
    const row = this.owners.get(owner) ?? [];
    const at = row.findIndex((item) => item.value === value);
    const [item] = at === -1 ? [] : row.splice(at, 1);
    if (!item) return false;
    if (row.length === 0) this.owners.delete(owner);
    this.items -= 1;
    this.weight -= item.weight;
    return true;
  }

  /** Takes out all. */
  takeAll(): readonly T[] {
    const taken: T[] = [];
    for (let value = this.next(); value !== undefined; value = this.next()) taken.push(value);
    return taken;
  }
}

const sum = (row: readonly Item<unknown>[]): number => row.reduce((total, { weight }) => total + weight, 0);

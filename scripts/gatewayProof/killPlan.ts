import type { Random } from '../soak/random';

/** So long a process may take to hear of its trap: work that comes before that comes to no trap. In milliseconds. */
export const ARMING_MS = 30;
const TRIES = 4;
const MOST_TURNS = 8;

/** A trap at a point. */
export interface PlannedTrap<Point extends string> {
  readonly point: Point;
  /** Counts from 1. */
  readonly nth: number;
  /** Turns of the event loop until the end; 0: not one more instruction runs. */
  readonly turns: number;
}

/**
 * Where to kill: every point is gone through first, in an order by chance, at once when it is come to. Then by chance, half of the times at any moment.
 * A point that was not come to is tried again later.
 */
export class KillPlan<Point extends string> {
  private readonly open: Point[];
  private readonly tries = new Map<Point, number>();
  private readonly reached = new Set<Point>();

  /** `most`: about how often a point is come to in one round. */
  constructor(
    private readonly points: readonly Point[],
    private readonly random: Random,
    private readonly most: (point: Point) => number,
  ) {
    this.open = shuffled(points, random);
  }

  /** The next kill; undefined: at any moment. Only points that `isMeant` are gone through. */
  next(isMeant: (point: Point) => boolean = () => true): PlannedTrap<Point> | undefined {
    const at = this.open.findIndex(isMeant);
    const [point] = at < 0 ? [] : this.open.splice(at, 1);
    if (point !== undefined) return { point, nth: 1, turns: 0 };
    return this.random.chance(0.5) ? this.byChance(this.random.oneOf(this.points.filter(isMeant))) : undefined;
  }

  /** One that was not reached yet, of those that `isMeant`; it stays in the plan. */
  unreached(isMeant: (point: Point) => boolean): PlannedTrap<Point> | undefined {
    const point = this.random.oneOf([undefined, ...this.points.filter((one) => isMeant(one) && !this.reached.has(one))]);
    return point && { point, nth: 1, turns: 0 };
  }

  /** What became of it. */
  tell({ point }: PlannedTrap<Point>, died: boolean): void {
    if (died) this.reached.add(point);
    if (this.reached.has(point)) return;
    const tries = (this.tries.get(point) ?? 0) + 1;
    this.tries.set(point, tries);
    if (tries < TRIES && !this.open.includes(point)) this.open.push(point);
  }

  /** How many points a process was killed at. */
  get reachedCount(): number {
    return this.reached.size;
  }

  /** Those where none was. */
  missing(): Point[] {
    return this.points.filter((point) => !this.reached.has(point));
  }

  private byChance(point: Point): PlannedTrap<Point> {
    const nth = 1 + Math.floor(this.random.next() * this.most(point) * 0.8);
    return { point, nth, turns: this.random.chance(0.5) ? 0 : Math.floor(this.random.next() * MOST_TURNS) };
  }
}

function shuffled<Item>(items: readonly Item[], random: Random): Item[] {
  return items.map((item) => ({ item, at: random.next() })).toSorted((a, b) => a.at - b.at).map(({ item }) => item);
}

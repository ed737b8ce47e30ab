import type { Random } from '../soak/random';

/** The time a process needs to receive its trap, in milliseconds; earlier work does not spring it. */
export const ARMING_MS = 30;
const MAX_ATTEMPTS = 4;
const MAX_TURNS = 8;

/** A trap at a point. */
export interface PlannedTrap<Point extends string> {
  readonly point: Point;
  /** Counts from 1. */
  readonly nth: number;
  /** Turns of the event loop between the point and the kill; 0: no further instruction runs. */
  readonly turns: number;
}

/**
 * Plans the kills: first once at every point, in random order, as soon as it is reached; then at random points, and half
 * of the times at a random moment. A point that was not reached is tried again later.
 */
export class KillPlan<Point extends string> {
  private readonly open: Point[];
  private readonly attempts = new Map<Point, number>();
  private readonly reached = new Set<Point>();

  /** `max`: about how often a point is reached in one round. */
  constructor(
    private readonly points: readonly Point[],
    private readonly random: Random,
    private readonly max: (point: Point) => number,
  ) {
    this.open = shuffle(points, random);
  }

  /** Returns the next kill among the points that satisfy `isEligible`; undefined: at a random moment. */
  next(isEligible: (point: Point) => boolean = () => true): PlannedTrap<Point> | undefined {
    const at = this.open.findIndex(isEligible);
    const [point] = at < 0 ? [] : this.open.splice(at, 1);
    if (point !== undefined) return { point, nth: 1, turns: 0 };
    return this.random.chance(0.5)
      ? this.createRandomTrap(this.random.pickOne(this.points.filter(isEligible)))
      : undefined;
  }

  /** Picks an eligible point that was not reached yet, or none. The point stays in the plan. */
  pickUnreached(isEligible: (point: Point) => boolean): PlannedTrap<Point> | undefined {
    const point = this.random.pickOne([
      undefined,
      ...this.points.filter((one) => isEligible(one) && !this.reached.has(one)),
    ]);
    return point && { point, nth: 1, turns: 0 };
  }

  /** Records whether a process was killed by the trap. */
  recordAttempt({ point }: PlannedTrap<Point>, isKilled: boolean): void {
    if (isKilled) this.reached.add(point);
    if (this.reached.has(point)) return;
    const attempts = (this.attempts.get(point) ?? 0) + 1;
    this.attempts.set(point, attempts);
    if (attempts < MAX_ATTEMPTS && !this.open.includes(point)) this.open.push(point);
  }

  /** The number of points at which a process was killed. */
  get reachedCount(): number {
    return this.reached.size;
  }

  /** Lists the points at which no process was killed. */
  listMissing(): Point[] {
    return this.points.filter((point) => !this.reached.has(point));
  }

  private createRandomTrap(point: Point): PlannedTrap<Point> {
    const nth = 1 + Math.floor(this.random.next() * this.max(point) * 0.8);
    return { point, nth, turns: this.random.chance(0.5) ? 0 : Math.floor(this.random.next() * MAX_TURNS) };
  }
}

function shuffle<Item>(items: readonly Item[], random: Random): Item[] {
  return items
    .map((item) => ({ item, at: random.next() }))
    .toSorted((a, b) => a.at - b.at)
    .map(({ item }) => item);
}

/** A seeded random number generator (mulberry32): the same seed gives the same numbers. */
export class Random {
  constructor(private state: number) {}

  /** Returns a number from 0 (inclusive) to 1 (exclusive). */
  next(): number {
    this.state = (this.state + 0x6d2b79f5) | 0;
    let t = Math.imul(this.state ^ (this.state >>> 15), 1 | this.state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4_294_967_296;
  }

  /** Returns true with the given probability. */
  chance(share: number): boolean {
    return this.next() < share;
  }

  /** Picks one of the values, of which there must be at least one. */
  pickOne<T>(values: readonly T[]): T {
    return values[Math.floor(this.next() * values.length)] as T;
  }

  /** Returns the time to the next event of a Poisson process with this rate, in milliseconds. */
  gapMs(perSecond: number): number {
    return (-Math.log(1 - this.next()) * 1000) / perSecond;
  }
}

/** How long an owner is one, in milliseconds. */
const SUSPECT_MS = 10_000;

/** Owners whose script took its thread with it a short while ago: they are given one thread at a time, so that others find one. */
export class Suspects {
  private readonly until = new Map<string, number>();

  /** Takes note of one that lost a thread. */
  add(owner: string): void {
    const now = performance.now();
    for (const [other, until] of this.until) if (until <= now) this.until.delete(other);
    this.until.set(owner, now + SUSPECT_MS);
  }

  /** Whether one did in the last ten seconds. */
  has(owner: string): boolean {
    return (this.until.get(owner) ?? 0) > performance.now();
  }
}

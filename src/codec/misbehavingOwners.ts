/** How long an owner counts as misbehaving, in milliseconds. */
const PENALTY_MS = 10_000;

/**
 * Owners whose script recently caused the loss of its thread. They get one thread at a time, so that threads remain for
 * the others.
 */
export class MisbehavingOwners {
  /** When the penalty of each owner ends, on the clock of `performance.now`. */
  private readonly penaltyEndByOwner = new Map<string, number>();

  /** Records that an owner lost a thread. */
  add(owner: string): void {
    const now = performance.now();
    for (const [otherOwner, penaltyEnd] of this.penaltyEndByOwner)
      if (penaltyEnd <= now) this.penaltyEndByOwner.delete(otherOwner); // keeps the map small
    this.penaltyEndByOwner.set(owner, now + PENALTY_MS);
  }

  /** Whether the owner lost a thread in the last ten seconds. */
  has(owner: string): boolean {
    return (this.penaltyEndByOwner.get(owner) ?? 0) > performance.now();
  }
}

import { outcomeOfReason, type PublishOutcome } from './publishOutcome';

interface Entry {
  readonly onOutcome: (outcome: PublishOutcome) => void;
  readonly deadline: number | undefined;
}

/** A broker that is well answers sooner, in milliseconds. */
const GRACE = 10_000;

/** What we published on one connection and the broker has not acknowledged. */
export class Unacknowledged {
  private readonly entries = new Map<number, Entry>();
  private commands = 0;
  private excusedUntil = Number.NEGATIVE_INFINITY;

  /** All of them. */
  get count(): number {
    return this.entries.size;
  }

  /** Those with a deadline: all but our own fences. */
  get commandCount(): number {
    return this.commands;
  }

  /** `deadline`: Unix milliseconds. */
  add(messageId: number, onOutcome: (outcome: PublishOutcome) => void, deadline: number | undefined): void {
    this.entries.set(messageId, { onOutcome, deadline });
    if (deadline !== undefined) this.commands += 1;
  }

  /** A PUBACK came. */
  settle(messageId: number, reason: number): void {
    const entry = this.entries.get(messageId);
    if (!entry) return;
    this.entries.delete(messageId);
    if (entry.deadline !== undefined) this.commands -= 1;
    entry.onOutcome(outcomeOfReason(reason));
  }

  /** Nobody will answer any more. */
  clear(): void {
    this.entries.clear();
    this.commands = 0;
  }

  /** Whether one is unacknowledged 10 s past its deadline. While nothing is read (`isHeld`), and 10 s after it, the broker is excused. */
  isOverdue(now: number, isHeld: boolean): boolean {
    if (isHeld) this.excusedUntil = now + GRACE;
    if (now < this.excusedUntil) return false;
    for (const { deadline } of this.entries.values()) if (deadline !== undefined && now >= deadline + GRACE) return true;
    return false;
  }
}

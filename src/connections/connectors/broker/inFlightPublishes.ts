import { getReasonOutcome, type PublishOutcome } from './publishOutcome';

/** A published message that the broker has not acknowledged. */
interface Publish {
  readonly onOutcome: (outcome: PublishOutcome) => void;
  /** Unix milliseconds; undefined for a barrier message (MessageBarrier): only commands have a deadline. */
  readonly deadline: number | undefined;
}

/** The time after a deadline within which a healthy broker responds, in milliseconds. */
const GRACE_PERIOD_MS = 10_000;

/**
 * The messages that were published on one connection and that the broker has not acknowledged: commands, and barrier
 * messages that this server sends to itself.
 */
export class InFlightPublishes {
  /** By packet identifier; messages with QoS 0 by a negative key. */
  private readonly publishByMessageId = new Map<number, Publish>();
  private unacknowledgedCommandCount = 0;
  /** The last key of a message without a packet identifier; below all packet identifiers. */
  private lastKeyWithoutId = 0;
  /** No command is overdue before this time, Unix milliseconds, because reading was paused. */
  private excusedUntil = Number.NEGATIVE_INFINITY;

  /** The number of all unacknowledged messages. */
  get count(): number {
    return this.publishByMessageId.size;
  }

  /** The number of unacknowledged commands, that is, without barrier messages. */
  get commandCount(): number {
    return this.unacknowledgedCommandCount;
  }

  /** Adds a published message. `deadline`: Unix milliseconds; undefined for a barrier message. */
  add(messageId: number, onOutcome: (outcome: PublishOutcome) => void, deadline: number | undefined): void {
    const publish = { onOutcome, deadline };
    this.publishByMessageId.set(messageId, publish);
    if (isCommand(publish)) this.unacknowledgedCommandCount += 1;
  }

  /**
   * Adds a message with QoS 0, which has no packet identifier and is in flight until it has left this process. Returns
   * the function to call then.
   */
  addWithoutId(onOutcome: (outcome: PublishOutcome) => void, deadline: number | undefined): () => void {
    this.lastKeyWithoutId -= 1;
    const key = this.lastKeyWithoutId;
    this.add(key, onOutcome, deadline);
    return () => this.finish(key, { kind: 'not_acknowledged' });
  }

  /** Reports the outcome of a PUBACK to the publisher of the message. `reasonCode`: that of the PUBACK. */
  resolve(messageId: number, reasonCode: number): void {
    this.finish(messageId, getReasonOutcome(reasonCode));
  }

  /** Removes a message and reports its outcome. Does nothing if it is unknown, for example after `clear`. */
  private finish(key: number, outcome: PublishOutcome): void {
    const publish = this.publishByMessageId.get(key);
    if (!publish) return;
    this.publishByMessageId.delete(key);
    if (isCommand(publish)) this.unacknowledgedCommandCount -= 1;
    publish.onOutcome(outcome);
  }

  /** Forgets all messages: no more acknowledgements will arrive. */
  clear(): void {
    this.publishByMessageId.clear();
    this.unacknowledgedCommandCount = 0;
  }

  /**
   * Call it while reading is paused: until 10 s after the last call no command is overdue, because acknowledgements
   * cannot arrive.
   */
  excuseDelay(now: number): void {
    this.excusedUntil = now + GRACE_PERIOD_MS;
  }

  /** Returns whether a command is unacknowledged 10 s past its deadline, and that is not excused. */
  hasOverdueCommand(now: number): boolean {
    if (now < this.excusedUntil) return false;
    return [...this.publishByMessageId.values()].some(
      ({ deadline }) => deadline !== undefined && now >= deadline + GRACE_PERIOD_MS,
    );
  }
}

/** Returns whether a message is a command: only commands have a deadline. */
function isCommand({ deadline }: Publish): boolean {
  return deadline !== undefined;
}

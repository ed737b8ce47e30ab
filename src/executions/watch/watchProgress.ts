import type { Clock } from '../../kernel/clock';
import { isFinal, type ShownExecution } from '../execution';

/** How many events are read per query. */
export const EVENT_PAGE_SIZE = 200;
/** A resume position is sent after this many events that do not match the watch; for a restricted key only by time. */
const MAX_UNSENT_EVENTS = 200;
/** After this time, a resume position is sent if there was an event that does not match the watch. */
const RESUME_POSITION_INTERVAL_MS = 30_000;

/**
 * Remembers which resume position was sent last, and decides when the next one must be sent: a reader whose watch
 * matches few of the events would otherwise resume from an old position.
 */
export class SentPosition {
  private sentAt: number;
  private readonly isByTimeOnly: boolean;

  /** `sentPosition`: where the watch starts. `isByTimeOnly`: for a restricted key. */
  constructor(
    private readonly clock: Clock,
    private sentPosition: number,
    { isByTimeOnly }: { readonly isByTimeOnly: boolean },
  ) {
    this.isByTimeOnly = isByTimeOnly;
    this.sentAt = clock.monotonic();
  }

  /** Records that this position is sent now. */
  markSent(position: number): void {
    this.sentPosition = position;
    this.sentAt = this.clock.monotonic();
  }

  /** Whether the position must be sent now as a resume position. */
  isDue(position: number): boolean {
    const isIntervalOver = this.clock.monotonic() - this.sentAt >= RESUME_POSITION_INTERVAL_MS;
    if (this.isByTimeOnly) return isIntervalOver; // a restricted key must not learn how many events it may not see
    const eventCount = position - this.sentPosition;
    return eventCount >= MAX_UNSENT_EVENTS || (eventCount > 0 && isIntervalOver);
  }
}

/** Tracks whether a reader of one execution has received all its events up to the final state. */
export class FinalStateTracker {
  private isFinalBeforeRead = false;
  private readonly isWanted: boolean;
  private isFinal: boolean;

  /** `isWanted`: whether the watch ends at the final state. `isFinal`: whether the execution is final already. */
  constructor({ isWanted, isFinal }: { readonly isWanted: boolean; readonly isFinal: boolean }) {
    this.isWanted = isWanted;
    this.isFinal = isFinal;
  }

  /**
   * Call this before reading a page of events: if the execution is known to be final now, its last event is already
   * stored, so that the page or a later one contains it.
   */
  markRead(): void {
    this.isFinalBeforeRead = this.isFinal;
  }

  /** Records that this item was sent. */
  markSent({ update }: { readonly update: { readonly execution: Pick<ShownExecution, 'state'> } | undefined }): void {
    if (update && this.isWanted && isFinal(update.execution.state)) this.isFinal = true;
  }

  /** Whether all events are sent, after a page with that many events: a page that is not full is the last one. */
  isComplete(eventCount: number): boolean {
    return this.isFinalBeforeRead && eventCount < EVENT_PAGE_SIZE;
  }
}

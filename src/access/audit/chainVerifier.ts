import { CHAIN_START, computeEventHash, getSubjectResource } from './auditEvent';
import type { AuditRow } from './auditRepository';
import { parseRemovedEvents, type RemovedEvents } from './removedEvents';
import { RETENTION } from './serverEvents';

/** An error in a chain, with its position. */
interface ChainError {
  readonly chain: string;
  readonly seq: number;
  readonly what:
    'changed' | 'removed' | 'inserted' | 'head mismatch' | 'tail missing' | 'beginning mismatch' | 'not verifiable';
  /** One sentence. */
  readonly detail: string;
}

const MAX_ERRORS = 20;

/** A position in a chain. */
export interface ChainPosition {
  readonly seq: number;
  readonly hash: string;
}

/**
 * Verifies one chain event by event and collects the errors. A chain is the audit trail of one organization or of the
 * installation; the hash of each event covers the event before it. Pass the events in the order of their sequence
 * numbers, then check the ends.
 */
export class ChainVerifier {
  readonly errors: ChainError[] = [];
  eventCount = 0;
  private lastEvent: ChainPosition;
  private readonly removedRanges: RemovedEvents[] = [];
  /** The hash of the event with the sequence number of `expectedHead`; undefined until it was checked. */
  private hashAtExpectedHead: string | undefined;
  /** The earliest event before the beginning that was checked so far; the next one must be linked to it. */
  private earliestRemoved: AuditRow | undefined;

  /**
   * `beginning`: the position after which the first event follows. `expectedHead`: the last event (head) of the chain
   * at an earlier time, which an operator noted then.
   */
  constructor(
    readonly chain: string,
    private readonly beginning: ChainPosition,
    private readonly expectedHead?: ChainPosition,
  ) {
    this.lastEvent = beginning;
  }

  /** The sequence number of the first event that this check covers. */
  get from(): number {
    return this.beginning.seq + 1;
  }

  /** The position of the last checked event. */
  get head(): ChainPosition {
    return this.lastEvent;
  }

  /** Checks the next event. */
  addEvent(row: AuditRow): void {
    const { seq, hash } = this.lastEvent;
    if (row.seq <= seq) {
      this.addError(row.seq, 'inserted', `event ${row.seq} occurs again after event ${seq}`);
      return;
    }
    if (row.seq > seq + 1)
      this.addError(seq + 1, 'removed', `${row.seq - seq - 1} event(s) before event ${row.seq} are missing`);
    else if (!this.matchesHash(row, hash))
      this.addError(row.seq, 'changed', `event ${row.seq}, or the one before it, was modified after it was written`);
    if (row.actor === 'server' && row.method === RETENTION)
      this.removedRanges.push(...parseRemovedEvents(row.resource, row.at));
    if (row.seq === this.expectedHead?.seq) this.hashAtExpectedHead = row.hash;
    this.eventCount += 1;
    this.lastEvent = row;
  }

  /**
   * Checks an event that is before the beginning of the chain; the caller passes these events newest first. The
   * retention deletes the oldest events first, so the events that remain for now must be linked to the beginning
   * without a gap.
   */
  addRemovedEvent(row: AuditRow): void {
    const next = this.earliestRemoved;
    const isLinked = next
      ? row.seq === next.seq - 1 && computeEventHash(row.hash, next) === next.hash
      : row.seq === this.beginning.seq && row.hash === this.beginning.hash;
    if (row.seq < 1 || !isLinked) {
      this.addError(
        row.seq,
        'inserted',
        `event ${row.seq} is before event ${this.from}, where the chain begins, and is not linked to it`,
      );
      return;
    }
    this.earliestRemoved = row;
  }

  /** Reports a line or a position that is not an event of the chain. */
  addInvalidLine(detail: string): void {
    this.addError(this.lastEvent.seq + 1, 'changed', detail);
  }

  /** Checks that a part of an export continues where the previous part ended; each part is a file. */
  checkContinuation(chain: string, after: ChainPosition): void {
    const { seq, hash } = this.lastEvent;
    if (chain !== this.chain) this.addError(seq + 1, 'inserted', `another chain follows after event ${seq}`);
    else if (after.seq !== seq || after.hash !== hash)
      this.addError(
        Math.min(after.seq, seq) + 1,
        after.seq > seq ? 'removed' : 'inserted',
        `a part continues after event ${after.seq}, but the previous part ends with event ${seq}`,
      );
  }

  /**
   * Checks the last verified event against the stored end of the chain. `end`: undefined if none is stored.
   * `hasEventsAfterEnd`: the database has events after that end, which were not verified.
   */
  checkEnd(end: ChainPosition | undefined, hasEventsAfterEnd: boolean): void {
    const { seq, hash } = this.lastEvent;
    if (!end && this.eventCount === 0)
      this.addError(1, 'removed', 'the organization has no chain, but every organization has at least one event');
    else if (!end) this.addError(seq, 'head mismatch', 'the end of the chain is not stored, but the chain has events');
    else if (seq < end.seq)
      this.addError(
        seq + 1,
        'tail missing',
        `the chain should end with event ${end.seq}, but there are no events after ${seq}`,
      );
    else if (hash !== end.hash || seq !== end.seq)
      this.addError(seq, 'head mismatch', 'the last event does not match the stored head of the chain');
    if (end && hasEventsAfterEnd)
      this.addError(end.seq + 1, 'inserted', `there are events after event ${end.seq}, where the chain ends`);
  }

  /** Reports a chain without a stored end. */
  reportMissingStoredEnd(): void {
    this.checkEnd(undefined, false);
  }

  /** Reports an export without its last line: events may have been cut off. */
  reportMissingEnd(): void {
    const { seq } = this.lastEvent;
    this.addError(
      seq + 1,
      'tail missing',
      `the export ends after event ${seq} without its last line, so later events may be missing. Export them with --from-seq ${seq + 1}`,
    );
  }

  /** Checks that the chain begins at its first event, or where a retention event says. */
  checkBeginning(): void {
    const { seq, hash } = this.beginning;
    const isValid = seq === 0 ? hash === CHAIN_START : this.isRemoved(this.beginning);
    if (!isValid)
      this.addError(
        seq + 1,
        'beginning mismatch',
        `the chain begins with event ${seq + 1}, but no retention event says that the earlier events were removed because of their age`,
      );
  }

  /**
   * Checks that the expected head is in the chain, or that a retention event says that the events up to it were
   * removed.
   */
  checkExpectedHead(): void {
    if (!this.expectedHead) return;
    const { seq, hash } = this.expectedHead;
    if (seq > this.lastEvent.seq) {
      this.addError(
        seq,
        'tail missing',
        `the expected head is event ${seq}, but the chain ends with event ${this.lastEvent.seq}`,
      );
      return;
    }
    if (seq < this.beginning.seq) {
      // The event itself is removed: only a retention event that names its hash can confirm it.
      if (!this.isRemoved(this.expectedHead))
        this.addError(
          seq,
          'not verifiable',
          `the expected head is event ${seq}, but the stored events begin with ${this.from}, so the link to that head cannot be verified: use a newer head`,
        );
      return;
    }
    const actualHash = seq === this.beginning.seq ? this.beginning.hash : this.hashAtExpectedHead;
    if (actualHash !== hash) this.addError(seq, 'head mismatch', `event ${seq} does not have the expected hash`);
  }

  /**
   * Whether the hash of the row follows from the previous hash and the row's columns, and the row is stored in this
   * chain.
   */
  private matchesHash(row: AuditRow, previousHash: string): boolean {
    return (
      computeEventHash(previousHash, row) === row.hash &&
      getSubjectResource(row.resource) === row.subject &&
      row.chain === this.chain
    );
  }

  /** Whether a retention event says that the events up to this position were removed. */
  private isRemoved(position: ChainPosition): boolean {
    return this.removedRanges.some(({ seq, hash }) => seq === position.seq && hash === position.hash);
  }

  /** Adds an error, up to the maximum number of errors. */
  private addError(seq: number, what: ChainError['what'], detail: string): void {
    if (this.errors.length < MAX_ERRORS) this.errors.push({ chain: this.chain, seq, what, detail });
  }
}

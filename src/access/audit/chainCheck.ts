import { CHAIN_START, eventHash, subjectOf } from './auditEvent';
import type { AuditRow } from './auditRepository';
import { RETENTION } from './serverEvents';

/** What is wrong with a chain, and where. */
export interface ChainFault {
  readonly chain: string;
  readonly seq: number;
  readonly what: 'changed' | 'removed' | 'inserted' | 'head does not fit' | 'tail missing' | 'beginning does not fit';
  /** One sentence. */
  readonly detail: string;
}

const MOST_FAULTS = 20;
const REMOVED = /^audit-events\/\d+\.\.(\d+)\/([0-9a-f]{64})$/;

/** A place in a chain. */
export interface ChainPlace {
  readonly seq: number;
  readonly hash: string;
}

/** Follows one chain event by event and tells what does not fit. Give it the events in the order of their places, then check its ends. */
export class ChainCheck {
  readonly faults: ChainFault[] = [];
  events = 0;
  private last: ChainPlace;
  private removedUpTo: ChainPlace | undefined;
  private noted: string | undefined;

  /** `before`: the place that the first event goes on from. `expected`: a head that was noted earlier. */
  constructor(
    readonly chain: string,
    private readonly before: ChainPlace,
    private readonly expected?: ChainPlace,
  ) {
    this.last = before;
  }

  /** Where the chain was at the end of what was followed. */
  get head(): ChainPlace {
    return this.last;
  }

  /** The next event. */
  take(row: AuditRow): void {
    const { seq, hash } = this.last;
    if (row.seq <= seq) return; // given up by the retention, and about to be removed
    const fits = eventHash(hash, row) === row.hash && subjectOf(row.resource) === row.subject;
    if (row.seq > seq + 1) this.fault(seq + 1, 'removed', `before event ${row.seq} ${row.seq - seq - 1} are missing`);
    else if (!fits) this.fault(row.seq, 'changed', `event ${row.seq}, or the one before it, is not as it was written`);
    this.removedUpTo = removedBy(row) ?? this.removedUpTo;
    if (row.seq === this.expected?.seq) this.noted = row.hash;
    this.events += 1;
    this.last = row;
  }

  /** Compares the last event with what else says where the chain ends; undefined: nothing does. `beyond`: an event stands behind that. */
  checkEnd(end: ChainPlace | undefined, beyond: boolean): void {
    const { seq, hash } = this.last;
    if (!end) this.fault(seq, 'head does not fit', 'nothing says where the chain ends, though there are events of it');
    else if (seq < end.seq) this.fault(seq + 1, 'tail missing', `the chain goes to ${end.seq}, but nothing is there after ${seq}`);
    else if (hash !== end.hash) this.fault(seq, 'head does not fit', 'the last event is not the one that the head of the chain names');
    if (end && beyond) this.fault(end.seq + 1, 'inserted', `there are events behind ${end.seq}, where the chain ends`);
  }

  /** A chain begins at its first event, or where an event of the retention says. */
  checkBeginning(): void {
    const { seq, hash } = this.before;
    const fits = seq === 0 ? hash === CHAIN_START : this.removedUpTo?.seq === seq && this.removedUpTo.hash === hash;
    if (!fits) this.fault(seq + 1, 'beginning does not fit', `the chain begins at ${seq + 1}, and no event of the retention says that those before were removed`);
  }

  /** Looks whether the head that was noted earlier is in the chain, unless it is over its time. */
  checkExpected(): void {
    if (!this.expected || this.expected.seq <= this.before.seq) return;
    const { seq, hash } = this.expected;
    if (this.last.seq < seq) this.fault(seq, 'tail missing', `the head that was noted is ${seq}, but the chain ends at ${this.last.seq}`);
    else if (this.noted !== hash) this.fault(seq, 'head does not fit', `event ${seq} is not the one whose hash was noted`);
  }

  private fault(seq: number, what: ChainFault['what'], detail: string): void {
    if (this.faults.length < MOST_FAULTS) this.faults.push({ chain: this.chain, seq, what, detail });
  }
}

function removedBy({ actor, method, resource }: AuditRow): ChainPlace | undefined {
  if (actor !== 'server' || method !== RETENTION) return undefined;
  const [, seq, hash] = REMOVED.exec(resource) ?? [];
  return hash === undefined ? undefined : { seq: Number(seq), hash };
}

import { CHAIN_START, eventHash, subjectOf } from './auditEvent';
import type { AuditRow } from './auditRepository';
import { removedIn, type RemovedEvents } from './removedEvents';
import { RETENTION } from './serverEvents';

/** What is wrong with a chain, and where. */
export interface ChainFault {
  readonly chain: string;
  readonly seq: number;
  readonly what: 'changed' | 'removed' | 'inserted' | 'head does not fit' | 'tail missing' | 'beginning does not fit' | 'cannot be told';
  /** One sentence. */
  readonly detail: string;
}

const MOST_FAULTS = 20;

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
  private readonly removed: RemovedEvents[] = [];
  private noted: string | undefined;
  /** The event before the beginning that is expected next, on the way back from it. */
  private givenUp: AuditRow | undefined;

  /** `before`: the place that the first event goes on from. `expected`: a head that was noted earlier. */
  constructor(
    readonly chain: string,
    private readonly before: ChainPlace,
    private readonly expected?: ChainPlace,
  ) {
    this.last = before;
  }

  /** The number of the first event that it tells of. */
  get from(): number {
    return this.before.seq + 1;
  }

  /** Where the chain was at the end of what was followed. */
  get head(): ChainPlace {
    return this.last;
  }

  /** The next event. */
  take(row: AuditRow): void {
    const { seq, hash } = this.last;
    if (row.seq <= seq) return this.fault(row.seq, 'inserted', `event ${row.seq} is there again, behind event ${seq}`);
    if (row.seq > seq + 1) this.fault(seq + 1, 'removed', `before event ${row.seq} ${row.seq - seq - 1} are missing`);
    else if (!this.fits(row, hash)) this.fault(row.seq, 'changed', `event ${row.seq}, or the one before it, is not as it was written`);
    if (row.actor === 'server' && row.method === RETENTION) this.removed.push(...removedIn(row.resource, row.at));
    if (row.seq === this.expected?.seq) this.noted = row.hash;
    this.events += 1;
    this.last = row;
  }

  /** The next event on the way back from the beginning: the retention removes the oldest first, so that what is left of them leads up to it. */
  takeGivenUp(row: AuditRow): void {
    const next = this.givenUp;
    const leads = next ? row.seq === next.seq - 1 && eventHash(row.hash, next) === next.hash : row.seq === this.before.seq && row.hash === this.before.hash;
    if (row.seq < 1 || !leads) return this.fault(row.seq, 'inserted', `event ${row.seq} stands before ${this.from}, where the chain begins, and nothing leads from it to there`);
    this.givenUp = row;
  }

  /** A line or a place that is no event of the chain. */
  spoilt(detail: string): void {
    this.fault(this.last.seq + 1, 'changed', detail);
  }

  /** Compares where a part goes on with where the one before it ended. */
  checkGoesOn(chain: string, after: ChainPlace): void {
    const { seq, hash } = this.last;
    if (chain !== this.chain) this.fault(seq + 1, 'inserted', `behind event ${seq} another chain goes on`);
    else if (after.seq !== seq || after.hash !== hash) this.fault(Math.min(after.seq, seq) + 1, after.seq > seq ? 'removed' : 'inserted', `a part goes on after event ${after.seq}, but the part before it ends with event ${seq}`);
  }

  /** Compares the last event with what else says where the chain ends; undefined: nothing does. `beyond`: an event stands behind that. */
  checkEnd(end: ChainPlace | undefined, beyond: boolean): void {
    const { seq, hash } = this.last;
    if (!end && this.events === 0) this.fault(1, 'removed', 'the organization has no chain, though each has an event from its beginning on');
    else if (!end) this.fault(seq, 'head does not fit', 'nothing says where the chain ends, though there are events of it');
    else if (seq < end.seq) this.fault(seq + 1, 'tail missing', `the chain goes to ${end.seq}, but nothing is there after ${seq}`);
    else if (hash !== end.hash || seq !== end.seq) this.fault(seq, 'head does not fit', 'the last event is not the one that the head of the chain names');
    if (end && beyond) this.fault(end.seq + 1, 'inserted', `there are events behind ${end.seq}, where the chain ends`);
  }

  /** An export that does not say where the chain ended: what followed may be cut off. */
  checkCut(): void {
    const { seq } = this.last;
    this.fault(seq + 1, 'tail missing', `the export ends after event ${seq}, without the line that says where the chain ended; what followed is not in it. Go on with --from-seq ${seq + 1}`);
  }

  /** A chain begins at its first event, or where an event of the retention says. */
  checkBeginning(): void {
    const { seq, hash } = this.before;
    const fits = seq === 0 ? hash === CHAIN_START : this.isRemoved(this.before);
    if (!fits) this.fault(seq + 1, 'beginning does not fit', `the chain begins at ${seq + 1}, and no event of the retention says that those before were removed because they were over their time`);
  }

  /** Looks whether the head that was noted earlier is in the chain, or is what the retention says that the chain goes on from. */
  checkExpected(): void {
    if (!this.expected) return;
    const { seq, hash } = this.expected;
    const isBefore = seq <= this.before.seq;
    if (this.last.seq < seq) this.fault(seq, 'tail missing', `the head that was noted is ${seq}, but the chain ends at ${this.last.seq}`);
    else if (isBefore && !this.isRemoved(this.expected) && seq < this.before.seq) this.fault(seq, 'cannot be told', `the head that was noted is ${seq}, but what is there begins at ${this.from}: whether it goes back to that head cannot be told any more; take a younger one`);
    else if (isBefore ? seq === this.before.seq && this.before.hash !== hash : this.noted !== hash) this.fault(seq, 'head does not fit', `event ${seq} is not the one whose hash was noted`);
  }

  private fits(row: AuditRow, previous: string): boolean {
    return eventHash(previous, row) === row.hash && subjectOf(row.resource) === row.subject && row.chain === this.chain;
  }

  private isRemoved(place: ChainPlace): boolean {
    return this.removed.some(({ seq, hash }) => seq === place.seq && hash === place.hash);
  }

  private fault(seq: number, what: ChainFault['what'], detail: string): void {
    if (this.faults.length < MOST_FAULTS) this.faults.push({ chain: this.chain, seq, what, detail });
  }
}

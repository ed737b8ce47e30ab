const A_DAY = 24 * 60 * 60_000;
const TEXT = /^audit-events\/(\d{1,15})\.\.(\d{1,15})\/([0-9a-f]{64})\/(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z)\/(\d{1,5})d$/;

/** What an event of the retention says: the events from `first` up to this one are removed. */
export interface RemovedEvents {
  readonly first: number;
  readonly seq: number;
  /** By which the chain goes on. */
  readonly hash: string;
  /** When the newest of them began, Unix milliseconds. */
  readonly newest: number;
  /** How long events were kept then. */
  readonly days: number;
}

/** The resource of such an event. */
export function removedText({ first, seq, hash, newest, days }: RemovedEvents): string {
  return `audit-events/${first}..${seq}/${hash}/${new Date(newest).toISOString()}/${days}d`;
}

/** What it says, as one of a list; none: it says nothing of this, or it removed what was younger than it says itself. `at`: when it was written. */
export function removedIn(resource: string, at: number): readonly RemovedEvents[] {
  const [, first, seq, hash, newest, days] = TEXT.exec(resource) ?? [];
  if (hash === undefined || newest === undefined || Number(days) < 1 || Number(first) > Number(seq)) return [];
  const removed = { first: Number(first), seq: Number(seq), hash, newest: Date.parse(newest), days: Number(days) };
  return removed.newest < at - removed.days * A_DAY ? [removed] : [];
}

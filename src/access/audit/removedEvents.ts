import { DAY_MS } from '../../kernel/timeUnits';

// `audit-events/<first>..<seq>/<hash>/<newest>/<days>d`, as formatRemovedEvents writes it.
const FORMAT =
  /^audit-events\/(\d{1,15})\.\.(\d{1,15})\/([0-9a-f]{64})\/(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z)\/(\d{1,5})d$/;

/** The content of a retention event: the events from `first` to `seq` are removed. */
export interface RemovedEvents {
  readonly first: number;
  readonly seq: number;
  /** The hash from which the chain continues. */
  readonly hash: string;
  /** When the newest removed event started, Unix milliseconds. */
  readonly newest: number;
  /** The retention time at that moment, in days. */
  readonly days: number;
}

/** Formats the resource of a retention event. */
export function formatRemovedEvents({ first, seq, hash, newest, days }: RemovedEvents): string {
  return `audit-events/${first}..${seq}/${hash}/${new Date(newest).toISOString()}/${days}d`;
}

/**
 * Parses the resource of a retention event; returns a list of one item, to be added to a list. The list is empty if the
 * resource has another format, or if it removed events that were younger than the retention time it names. `at`: when
 * the event was written, Unix milliseconds.
 */
export function parseRemovedEvents(resource: string, at: number): readonly RemovedEvents[] {
  const [, first, seq, hash, newest, days] = FORMAT.exec(resource) ?? [];
  if (hash === undefined || newest === undefined || Number(days) < 1 || Number(first) > Number(seq)) return [];
  const removed = { first: Number(first), seq: Number(seq), hash, newest: Date.parse(newest), days: Number(days) };
  return removed.newest < at - removed.days * DAY_MS ? [removed] : [];
}

import type { Durations } from '../../kernel/durations';
import type { Tally } from '../../kernel/tally';

/** One series of a family: the values of its labels in their order, and what it shows now. */
export interface Sample<Value> {
  readonly labels: readonly string[];
  readonly value: Value;
}

interface Named {
  /** By the rules of Prometheus: `plantroom_`, what it is, its unit, and `_total` where it only grows. */
  readonly name: string;
  /** A sentence. */
  readonly help: string;
  /** The names of its labels; each has a bounded number of values, none is of an organization or a device. */
  readonly labels: readonly string[];
}

/** Numbers that Prometheus takes: asked anew for each scrape. What cannot be told just now is left out. */
export type Family =
  | (Named & { readonly type: 'counter' | 'gauge'; readonly samples: () => Iterable<Sample<number>> | Promise<Iterable<Sample<number>>> })
  | (Named & { readonly type: 'histogram'; readonly samples: () => Iterable<Sample<Durations>> });

/** What grows by one label, or by none: from a count that is kept elsewhere. */
export function counter(name: string, help: string, label: string, tally: Pick<Tally, 'entries'>): Family {
  return { name, help, type: 'counter', labels: [label], samples: () => Array.from(tally.entries(), ([word, value]) => ({ labels: [word], value })) };
}

/** A number that goes up and down; undefined: not known, so not shown. */
export function gauge(name: string, help: string, value: () => number | undefined | Promise<number | undefined>): Family {
  return { name, help, type: 'gauge', labels: [], samples: async () => plain(await value()) };
}

/** A number that only grows. */
export function total(name: string, help: string, value: () => number): Family {
  return { name, help, type: 'counter', labels: [], samples: () => plain(value()) };
}

/** How long things took, by one label. */
export function histogramBy(name: string, help: string, label: string, durations: { entries(): Iterable<readonly [string, Durations]> }): Family {
  return { name, help, type: 'histogram', labels: [label], samples: () => Array.from(durations.entries(), ([word, value]) => ({ labels: [word], value })) };
}

/** How long things took. */
export function histogram(name: string, help: string, durations: Durations): Family {
  return { name, help, type: 'histogram', labels: [], samples: () => [{ labels: [], value: durations }] };
}

function plain(value: number | undefined): Sample<number>[] {
  return value === undefined ? [] : [{ labels: [], value }];
}

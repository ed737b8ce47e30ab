import type { DurationHistogram } from '../../kernel/durations';
import type { Counter } from '../../kernel/counter';

/** One series of a family: the values of its labels, in order, and its current value. */
export interface Sample<Value> {
  readonly labels: readonly string[];
  readonly value: Value;
}

interface FamilyInfo {
  /** Follows the Prometheus naming rules: `plantroom_`, the subject, the unit, and `_total` for a counter. */
  readonly name: string;
  /** The help text, a sentence. */
  readonly help: string;
  /** The names of its labels. Each has a bounded number of values, and none identifies an organization or a device. */
  readonly labels: readonly string[];
}

/** Metrics for Prometheus, read again for each scrape. Unknown values are omitted. */
export type MetricFamily =
  | (FamilyInfo & {
      readonly type: 'counter' | 'gauge';
      readonly samples: () => Iterable<Sample<number>> | Promise<Iterable<Sample<number>>>;
    })
  | (FamilyInfo & { readonly type: 'histogram'; readonly samples: () => Iterable<Sample<DurationHistogram>> });

/** Creates a counter with one label. `counts` holds the current count for each value of the label. */
export function counter(name: string, help: string, label: string, counts: Pick<Counter, 'entries'>): MetricFamily {
  return {
    name,
    help,
    type: 'counter',
    labels: [label],
    samples: () => Array.from(counts.entries(), ([labelValue, value]) => ({ labels: [labelValue], value })),
  };
}

/** Creates a gauge without labels; the gauge is omitted while its value is undefined. */
export function gauge(
  name: string,
  help: string,
  value: () => number | undefined | Promise<number | undefined>,
): MetricFamily {
  return { name, help, type: 'gauge', labels: [], samples: async () => toSamples(await value()) };
}

/** Creates a counter without labels. */
export function plainCounter(name: string, help: string, value: () => number): MetricFamily {
  return { name, help, type: 'counter', labels: [], samples: () => toSamples(value()) };
}

/** Creates a histogram of durations with one label. */
export function histogramBy(
  name: string,
  help: string,
  label: string,
  durations: { entries(): Iterable<readonly [string, DurationHistogram]> },
): MetricFamily {
  return {
    name,
    help,
    type: 'histogram',
    labels: [label],
    samples: () => Array.from(durations.entries(), ([labelValue, value]) => ({ labels: [labelValue], value })),
  };
}

/** Creates a histogram of durations without labels. */
export function histogram(name: string, help: string, durations: DurationHistogram): MetricFamily {
  return { name, help, type: 'histogram', labels: [], samples: () => [{ labels: [], value: durations }] };
}

function toSamples(value: number | undefined): Sample<number>[] {
  return value === undefined ? [] : [{ labels: [], value }];
}

import type { JsonValue } from '../../kernel/jsonValue';
import { type Summary, timeWeightedAverage } from '../readings/hourSummary';
import { sizeOfValue } from './readingSize';

/** What can be told of a bucket. */
export const AGGREGATE_FUNCTIONS = ['min', 'max', 'avg', 'sum', 'count', 'first', 'last', 'timeWeightedAverage'] as const;

/** One of them. */
export type AggregateFunction = (typeof AGGREGATE_FUNCTIONS)[number];

/** What stands for buckets without readings. */
export type AggregateFill = 'none' | 'null' | 'previous' | 'linear';

/** What a bucket shows; what was not asked for, or has no sense, is absent. */
export interface BucketValues extends Partial<Record<AggregateFunction, number>> {
  readonly firstText?: JsonValue;
  readonly lastText?: JsonValue;
}

/** A bucket with its ends, Unix milliseconds. */
export interface Bucket {
  readonly start: number;
  readonly end: number;
  readonly values: BucketValues;
}

/** The texts of a bucket. */
export interface TextSummary {
  readonly count: number;
  /** Undefined: not asked for. */
  readonly first: JsonValue | undefined;
  readonly last: JsonValue | undefined;
}

type Known = { -readonly [Name in keyof BucketValues]: BucketValues[Name] };

/**
 * What numbers show in buckets, all functions, those without any undefined. `carried`: the value that held before the first bucket.
 * `now` is the end of what can be known.
 */
export function valuesOfNumbers(edges: readonly number[], sums: readonly (Summary | undefined)[], carried: number | undefined, now: number): (BucketValues | undefined)[] {
  let held = carried;
  return sums.map((sum, at) => {
    if (!sum) return undefined;
    const until = Math.max(sum.lastTime, Math.min(edges[at + 1] as number, now));
    const { count, min, max, first, last } = sum;
    const values = { count, sum: sum.sum, min, max, avg: sum.sum / count, first, last, timeWeightedAverage: timeWeightedAverage(sum, held, edges[at] as number, until) };
    held = last;
    return values;
  });
}

/** The same of texts and JSON. */
export function valuesOfTexts(sums: readonly (TextSummary | undefined)[]): (BucketValues | undefined)[] {
  return sums.map((sum) => sum && { count: sum.count, ...(sum.first !== undefined && { firstText: sum.first }), ...(sum.last !== undefined && { lastText: sum.last }) });
}

/** What a value that held before the first bucket shows in those that come before any reading. */
export function valuesOfHeld(held: number | undefined): BucketValues | undefined {
  return held === undefined ? undefined : { min: held, max: held, avg: held, first: held, last: held, timeWeightedAverage: held };
}

/** Buckets as they are told. `before`: what the fill `previous` shows before the first bucket with readings. */
export function filledBuckets(edges: readonly number[], values: readonly (BucketValues | undefined)[], fill: AggregateFill, before: BucketValues | undefined): Bucket[] {
  const bucketOf = (at: number, shown: BucketValues): Bucket => ({ start: edges[at] as number, end: edges[at + 1] as number, values: shown });
  if (fill === 'none') return values.flatMap((shown, at) => (shown ? [bucketOf(at, shown)] : []));
  const filler = FILLERS[fill](edges, values, before);
  return values.map((shown, at) => bucketOf(at, shown ?? { ...filler(at), count: 0 }));
}

/** How many bytes the texts of buckets take as they are sent; many buckets may show the same one. */
export function sizeOfTexts(buckets: readonly Bucket[]): number {
  const known = new Map<JsonValue, number>();
  const sizeOf = (text: JsonValue | undefined): number => {
    if (text === undefined) return 0;
    const size = known.get(text) ?? sizeOfValue(text);
    known.set(text, size);
    return size;
  };
  return buckets.reduce((sum, { values }) => sum + sizeOf(values.firstText) + sizeOf(values.lastText), 0);
}

/** Only what was asked for; everything for an empty list. */
export function chosen(values: BucketValues, functions: readonly AggregateFunction[]): BucketValues {
  if (functions.length === 0) return values;
  const known: Known = {};
  for (const name of functions) if (values[name] !== undefined) known[name] = values[name];
  if (functions.includes('first') && values.firstText !== undefined) known.firstText = values.firstText;
  if (functions.includes('last') && values.lastText !== undefined) known.lastText = values.lastText;
  return known;
}

type Filler = (at: number) => BucketValues;
type FillerOf = (edges: readonly number[], values: readonly (BucketValues | undefined)[], before: BucketValues | undefined) => Filler;

const FILLERS: Readonly<Record<Exclude<AggregateFill, 'none'>, FillerOf>> = {
  null: () => () => ({}),
  previous: (_edges, values, before) => {
    const lefts = nearestShown(values);
    return (at) => {
      const previous: Known = { ...(values[lefts[at] as number] ?? before) };
      delete previous.sum; // of no readings there is none
      return { ...previous, ...(previous.last !== undefined && { timeWeightedAverage: previous.last }) };
    };
  },
  linear: (edges, values) => {
    const [lefts, rights] = [nearestShown(values), nearestShown(values.toReversed()).map((at) => values.length - 1 - at).toReversed()];
    return (at) => {
      const [one, other] = [lefts[at] as number, rights[at] as number];
      const [left, right] = [values[one], values[other]];
      if (!left || !right) return {};
      const share = ((edges[at] as number) - (edges[one] as number)) / ((edges[other] as number) - (edges[one] as number));
      return between(left, right, share);
    };
  },
};

/** For each bucket the last one with readings up to it; -1 for none. */
function nearestShown(values: readonly (BucketValues | undefined)[]): number[] {
  let nearest = -1;
  return values.map((shown, at) => (nearest = shown ? at : nearest));
}

function between(left: BucketValues, right: BucketValues, share: number): BucketValues {
  const known: Known = {};
  for (const name of AGGREGATE_FUNCTIONS) {
    if (name === 'sum') continue;
    const [from, to] = [left[name], right[name]];
    if (from !== undefined && to !== undefined) known[name] = from * (1 - share) + to * share;
  }
  return known;
}

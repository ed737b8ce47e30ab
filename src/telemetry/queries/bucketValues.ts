import type { JsonValue } from '../../kernel/jsonValue';
import { computeTimeWeightedAverage, type NumberSummary } from '../readings/hourSummary';
import { computeValueSize } from './readingSize';

/** The aggregate functions. */
const AGGREGATE_FUNCTIONS = ['min', 'max', 'avg', 'sum', 'count', 'first', 'last', 'timeWeightedAverage'] as const;

/** One of AGGREGATE_FUNCTIONS. */
export type AggregateFunction = (typeof AGGREGATE_FUNCTIONS)[number];

/** How buckets without readings are filled. */
export type AggregateFill = 'none' | 'null' | 'previous' | 'linear';

/** The values of a bucket. Functions that were not requested or do not apply are absent. */
export interface BucketValues extends Partial<Record<AggregateFunction, number>> {
  readonly firstText?: JsonValue;
  readonly lastText?: JsonValue;
}

/** A bucket from `start` (inclusive) to `end` (exclusive), Unix milliseconds. */
export interface Bucket {
  readonly start: number;
  readonly end: number;
  readonly values: BucketValues;
}

/** The summary of the strings or JSON values of a bucket. */
export interface TextSummary {
  readonly count: number;
  /** Undefined if not requested. */
  readonly first: JsonValue | undefined;
  /** Undefined if not requested. */
  readonly last: JsonValue | undefined;
}

type MutableValues = { -readonly [Name in keyof BucketValues]: BucketValues[Name] };

/**
 * Calculates all functions of numbers, for each bucket; undefined for a bucket without readings. For the average
 * weighted by time, the last value before a bucket counts from its start on (`carried`: that before the first bucket),
 * and the last value of a bucket counts until its end, but not beyond `now`, unless its own time is later.
 */
export function getNumberValues(
  edges: readonly number[],
  summaries: readonly (NumberSummary | undefined)[],
  carried: number | undefined,
  now: number,
): (BucketValues | undefined)[] {
  let previous = carried;
  return summaries.map((summary, index) => {
    if (!summary) return undefined;
    const until = Math.max(summary.lastTime, Math.min(edges[index + 1] as number, now));
    const { count, min, max, first, last } = summary;
    const values = {
      count,
      sum: summary.sum,
      min,
      max,
      avg: summary.sum / count,
      first,
      last,
      timeWeightedAverage: computeTimeWeightedAverage(summary, previous, edges[index] as number, until),
    };
    previous = last;
    return values;
  });
}

/** Calculates the values of strings and JSON for each bucket; undefined for a bucket without readings. */
export function getTextValues(sums: readonly (TextSummary | undefined)[]): (BucketValues | undefined)[] {
  return sums.map(
    (sum) =>
      sum && {
        count: sum.count,
        ...(sum.first !== undefined && { firstText: sum.first }),
        ...(sum.last !== undefined && { lastText: sum.last }),
      },
  );
}

/** Returns the bucket values for a number that was the last one before the first bucket. */
export function getPreviousValues(previous: number | undefined): BucketValues | undefined {
  return previous === undefined
    ? undefined
    : {
        min: previous,
        max: previous,
        avg: previous,
        first: previous,
        last: previous,
        timeWeightedAverage: previous,
      };
}

/**
 * Builds the buckets and fills those without readings; with `none`, they are omitted. `before`: the values that the
 * fill `previous` uses until the first bucket with readings.
 */
export function fillBuckets(
  edges: readonly number[],
  values: readonly (BucketValues | undefined)[],
  fill: AggregateFill,
  before: BucketValues | undefined,
): Bucket[] {
  const toBucket = (index: number, bucketValues: BucketValues): Bucket => ({
    start: edges[index] as number,
    end: edges[index + 1] as number,
    values: bucketValues,
  });
  if (fill === 'none') return values.flatMap((found, index) => (found ? [toBucket(index, found)] : []));
  const filler = FILLERS[fill](edges, values, before);
  return values.map((found, index) => toBucket(index, found ?? { ...filler(index), count: 0 }));
}

/** Returns the size of the texts of buckets in bytes as they are sent. Many buckets may contain the same text. */
export function getTextsSize(buckets: readonly Bucket[]): number {
  const sizeByText = new Map<JsonValue, number>();
  const getSize = (text: JsonValue | undefined): number => {
    if (text === undefined) return 0;
    const size = sizeByText.get(text) ?? computeValueSize(text);
    sizeByText.set(text, size);
    return size;
  };
  return buckets.reduce((sum, { values }) => sum + getSize(values.firstText) + getSize(values.lastText), 0);
}

/** Returns only the requested functions; all for an empty list. */
export function selectFunctions(values: BucketValues, functions: readonly AggregateFunction[]): BucketValues {
  if (functions.length === 0) return values;
  const selected: MutableValues = {};
  for (const name of functions) if (values[name] !== undefined) selected[name] = values[name];
  if (functions.includes('first') && values.firstText !== undefined) selected.firstText = values.firstText;
  if (functions.includes('last') && values.lastText !== undefined) selected.lastText = values.lastText;
  return selected;
}

/** Returns the values of the bucket with this index, which has no readings; empty without a value to fill in. */
type Filler = (index: number) => BucketValues;
/** Prepares the filler for the buckets of one sensor. */
type FillerFactory = (
  edges: readonly number[],
  values: readonly (BucketValues | undefined)[],
  before: BucketValues | undefined,
) => Filler;

const FILLERS: Readonly<Record<Exclude<AggregateFill, 'none'>, FillerFactory>> = {
  null: () => () => ({}),
  /** Repeats the last bucket with readings. Its last value holds for the whole bucket, as the time-weighted average. */
  previous: (_edges, values, before) => {
    const previousIndexes = findPreviousFilledIndexes(values);
    return (index) => {
      const previous: MutableValues = { ...(values[previousIndexes[index] as number] ?? before) };
      delete previous.sum; // a bucket without readings has no sum
      return { ...previous, ...(previous.last !== undefined && { timeWeightedAverage: previous.last }) };
    };
  },
  /** Interpolates between the nearest buckets with readings on both sides, by the start of the buckets. */
  linear: (edges, values) => {
    const previousIndexes = findPreviousFilledIndexes(values);
    // The next bucket with readings is the previous one in reverse order.
    const nextIndexes = findPreviousFilledIndexes(values.toReversed())
      .map((reversedIndex) => values.length - 1 - reversedIndex)
      .toReversed();
    return (index) => {
      const leftIndex = previousIndexes[index] as number;
      const rightIndex = nextIndexes[index] as number;
      const left = values[leftIndex];
      const right = values[rightIndex];
      if (!left || !right) return {};
      const leftStart = edges[leftIndex] as number;
      const distance = (edges[rightIndex] as number) - leftStart;
      return interpolate(left, right, ((edges[index] as number) - leftStart) / distance);
    };
  },
};

/** Returns for each bucket the index of the last bucket with readings up to and including it; -1 if there is none. */
function findPreviousFilledIndexes(values: readonly (BucketValues | undefined)[]): number[] {
  let lastFilled = -1;
  return values.map((found, index) => {
    if (found) lastFilled = index;
    return lastFilled;
  });
}

/** Interpolates all functions except the sum; `share` is 0 at the left bucket and 1 at the right one. */
function interpolate(left: BucketValues, right: BucketValues, share: number): BucketValues {
  const result: MutableValues = {};
  for (const name of AGGREGATE_FUNCTIONS) {
    if (name === 'sum') continue;
    const from = left[name];
    const to = right[name];
    if (from !== undefined && to !== undefined) result[name] = from * (1 - share) + to * share;
  }
  return result;
}

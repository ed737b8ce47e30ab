import { type BucketLength, listBucketEdges } from './buckets';
import { DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS } from '../../kernel/timeUnits';

const WEEK_MS = 7 * DAY_MS;

/** A bucket length and its length in milliseconds; a day and a week are as long as without a clock change. */
interface Candidate {
  readonly length: BucketLength;
  readonly bucketMs: number;
}

/** The bucket lengths from which the server chooses, the shortest first; then come 1, 2, 4, 8 weeks and so on. */
const CANDIDATES: readonly Candidate[] = [
  ...listCandidates('second', SECOND_MS, [1, 2, 5, 10, 15, 30]),
  ...listCandidates('minute', MINUTE_MS, [1, 2, 5, 10, 15, 30]),
  ...listCandidates('hour', HOUR_MS, [1, 2, 3, 6, 12]),
  ...listCandidates('day', DAY_MS, [1]),
];

/** The range to divide into buckets. Times are Unix milliseconds; `from` is before `to`. */
interface DividedRange {
  readonly from: number;
  readonly to: number;
  /** An IANA name. */
  readonly timeZone: string;
  /** The maximum number of buckets, at least 2. */
  readonly maxPoints: number;
}

/** The chosen buckets. */
export interface ChosenBuckets extends Candidate {
  /** See listBucketEdges. */
  readonly edges: readonly number[];
}

/**
 * Chooses the shortest bucket length, at least `minBucketMs`, with which the range has at most `maxPoints` buckets.
 * Every range fits, because the number of weeks is not limited.
 */
export async function chooseBuckets(range: DividedRange, minBucketMs: number): Promise<ChosenBuckets> {
  const { from, to, timeZone, maxPoints } = range;
  for (const { length, bucketMs } of listFittingCandidates(range, minBucketMs)) {
    const edges = await listBucketEdges(from, to, length, timeZone);
    if (edges.length - 1 <= maxPoints) return { length, bucketMs, edges };
  }
  throw new Error('bug: every range has at most two buckets if the bucket is as long as the range');
}

/** Yields the lengths that may fit, the shortest first. Only the edges show whether they do. */
function* listFittingCandidates({ from, to, maxPoints }: DividedRange, minBucketMs: number): Generator<Candidate> {
  for (const candidate of CANDIDATES) {
    // A bucket of more than an hour is longer when clocks are put back.
    const maxBucketMs = candidate.bucketMs > HOUR_MS ? candidate.bucketMs + HOUR_MS : candidate.bucketMs;
    if (candidate.bucketMs >= minBucketMs && (to - from) / maxBucketMs <= maxPoints) yield candidate;
  }
  // Buckets that are longer than the range divide it into at most two parts.
  for (let count = 1; count * WEEK_MS <= 2 * (to - from + WEEK_MS); count *= 2) {
    if ((to - from) / (count * WEEK_MS + HOUR_MS) <= maxPoints)
      yield { length: { count, unit: 'week' }, bucketMs: count * WEEK_MS };
  }
}

function listCandidates(unit: BucketLength['unit'], unitMs: number, counts: readonly number[]): Candidate[] {
  return counts.map((count) => ({ length: { count, unit }, bucketMs: count * unitMs }));
}

import { HOUR_MS } from '../../kernel/timeUnits';

/**
 * The summary of the numbers of one series in a time range (a boolean counts as 0 or 1). Samples are added in the order
 * of their times; samples with the same time in the order of their positions. Times are Unix milliseconds; values are
 * finite. A sum outside the range of a double is clamped to the largest one, so that it can always be stored.
 */
export interface NumberSummary {
  /** The number of samples, at least 1. */
  count: number;
  sum: number;
  min: number;
  max: number;
  firstTime: number;
  first: number;
  lastTime: number;
  last: number;
  /** The sum of value × milliseconds: each value counts from its own time until the time of the next sample. */
  area: number;
}

/** Rounds a time down to the start of its hour, a full hour of UTC. */
export function toHour(time: number): number {
  return Math.floor(time / HOUR_MS) * HOUR_MS;
}

/** Creates the summary of a first sample. */
export function createSummary(time: number, value: number): NumberSummary {
  return {
    count: 1,
    sum: value,
    min: value,
    max: value,
    firstTime: time,
    first: value,
    lastTime: time,
    last: value,
    area: 0,
  };
}

/**
 * Adds a sample to a summary. The sample must come after all samples of the summary: the last value so far counts in
 * the area until the time of the sample.
 */
export function addSample(summary: NumberSummary, time: number, value: number): void {
  summary.count += 1;
  summary.sum = clampToFinite(summary.sum + value);
  if (value < summary.min) summary.min = value;
  if (value > summary.max) summary.max = value;
  const addedArea = clampToFinite(summary.last * (time - summary.lastTime));
  summary.area = clampToFinite(summary.area + addedArea);
  summary.lastTime = time;
  summary.last = value;
}

/**
 * Adds a later summary to a summary. All its samples must come after those of the first, with none between the two: the
 * last value of the first counts in the area until the first sample of the later one.
 */
export function addSummary(summary: NumberSummary, later: Readonly<NumberSummary>): void {
  summary.count += later.count;
  summary.sum = clampToFinite(summary.sum + later.sum);
  summary.min = Math.min(summary.min, later.min);
  summary.max = Math.max(summary.max, later.max);
  const areaBetween = clampToFinite(summary.last * (later.firstTime - summary.lastTime));
  summary.area = clampToFinite(clampToFinite(summary.area + areaBetween) + later.area);
  summary.lastTime = later.lastTime;
  summary.last = later.last;
}

/**
 * Returns the average weighted by time: each value counts until the time of the next sample, the last one until `until`
 * (which is not before the last sample). `carried` is the value before the first sample, which counts from `from` on;
 * if it is undefined, the average starts at the first sample. Returns the last value if the time range is empty.
 */
export function computeTimeWeightedAverage(
  summary: Readonly<NumberSummary>,
  carried: number | undefined,
  from: number,
  until: number,
): number {
  const span = until - (carried === undefined ? summary.firstTime : from);
  if (span <= 0) return summary.last;
  const areaBefore = carried === undefined ? 0 : clampToFinite(carried * (summary.firstTime - from));
  const areaAfter = clampToFinite(summary.last * (until - summary.lastTime));
  return clampToFinite(clampToFinite(areaBefore + summary.area) + areaAfter) / span;
}

/**
 * Clamps infinity to the largest finite number, which databases can store. The sum or product of two finite numbers is
 * never NaN.
 */
function clampToFinite(value: number): number {
  return Math.max(-Number.MAX_VALUE, Math.min(Number.MAX_VALUE, value));
}

/** The length of the hours that readings are summed up in: those of UTC. */
export const HOUR_MS = 3_600_000;

/**
 * What a stretch of time shows of a series of numbers (a boolean counts as 0 or 1). Samples are taken in the order of their
 * times, and of their positions within one time. Times are Unix milliseconds; values are finite. A sum that grows beyond what a
 * double holds stays at the largest one, so that it can always be stored.
 */
export interface Summary {
  /** How many samples; at least 1. */
  count: number;
  sum: number;
  min: number;
  max: number;
  firstTime: number;
  first: number;
  lastTime: number;
  last: number;
  /** The sum over neighbouring samples of the value of the earlier times the milliseconds between them: a value holds until the next one. */
  area: number;
}

/** The beginning of the hour that a time lies in. */
export function hourOf(time: number): number {
  return Math.floor(time / HOUR_MS) * HOUR_MS;
}

/** The summary of a first sample. */
export function summaryOf(time: number, value: number): Summary {
  return { count: 1, sum: value, min: value, max: value, firstTime: time, first: value, lastTime: time, last: value, area: 0 };
}

/** Takes one more sample into a summary. It comes after all that the summary holds. */
export function addSample(summary: Summary, time: number, value: number): void {
  summary.count += 1;
  summary.sum = finite(summary.sum + value);
  if (value < summary.min) summary.min = value;
  if (value > summary.max) summary.max = value;
  summary.area = finite(summary.area + finite(summary.last * (time - summary.lastTime)));
  summary.lastTime = time;
  summary.last = value;
}

/** Takes into a summary a later one: all its samples come after all of the first, and none lies between the two. */
export function addSummary(summary: Summary, later: Readonly<Summary>): void {
  summary.count += later.count;
  summary.sum = finite(summary.sum + later.sum);
  summary.min = Math.min(summary.min, later.min);
  summary.max = Math.max(summary.max, later.max);
  summary.area = finite(finite(summary.area + finite(summary.last * (later.firstTime - summary.lastTime))) + later.area);
  summary.lastTime = later.lastTime;
  summary.last = later.last;
}

/**
 * The average over time, each value weighted by how long it held, up to `until`, the end of the stretch (not before its last sample).
 * `carried` is the value that held at `from`, the beginning, undefined if there was none: then time counts from the first sample.
 * The last value if no time passed at all.
 */
export function timeWeightedAverage(summary: Readonly<Summary>, carried: number | undefined, from: number, until: number): number {
  const span = until - (carried === undefined ? summary.firstTime : from);
  if (span <= 0) return summary.last;
  const before = carried === undefined ? 0 : finite(carried * (summary.firstTime - from));
  const after = finite(summary.last * (until - summary.lastTime));
  return finite(finite(before + summary.area) + after) / span;
}

/** Two finite numbers make an infinite one at most, never NaN, as long as each step ends here. */
function finite(value: number): number {
  return Math.max(-Number.MAX_VALUE, Math.min(Number.MAX_VALUE, value));
}

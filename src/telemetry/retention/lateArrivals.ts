import { addSample, addSummary, createSummary, type NumberSummary } from '../readings/hourSummary';

/** A number and the time of its measurement, Unix milliseconds. */
export interface TimedNumber {
  readonly time: number;
  readonly num: number;
}

/** Sums up numbers that are sorted by time; undefined for an empty list. */
export function summarize(numbers: readonly TimedNumber[]): NumberSummary | undefined {
  let summary: NumberSummary | undefined;
  for (const { time, num } of numbers) {
    if (summary) addSample(summary, time, num);
    else summary = createSummary(time, num);
  }
  return summary;
}

/**
 * Adds late numbers to the summary of an hour whose single numbers are deleted. The late numbers are sorted by time,
 * and were stored after all numbers of the summary. The result is exact, except for the area (number times duration,
 * from which the time-weighted average is computed): a late number between the first and the last one does not change
 * it, because its neighbours are unknown.
 */
export function addLateNumbers(
  summary: Readonly<NumberSummary> | undefined,
  late: readonly TimedNumber[],
): NumberSummary | undefined {
  if (!summary) return summarize(late);
  const merged = summarize(late.filter(({ time }) => time < summary.firstTime)) ?? { ...summary };
  const hasEarlierNumbers = merged.firstTime < summary.firstTime;
  if (hasEarlierNumbers) addSummary(merged, summary);
  for (const { time, num } of late) {
    // Earlier numbers are already in `merged`.
    if (time >= summary.lastTime) addSample(merged, time, num);
    else if (time >= summary.firstTime) addWithin(merged, num);
  }
  return merged;
}

/** Adds a number between the first and the last one of a summary: the area and the last value do not change. */
function addWithin(summary: NumberSummary, value: number): void {
  const { area, lastTime, last } = summary;
  addSample(summary, lastTime, value); // this adds no area because no time passes; only `last` must be restored
  summary.area = area;
  summary.last = last;
}

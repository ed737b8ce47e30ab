import { addSample, addSummary, summaryOf, type Summary } from '../readings/hourSummary';

/** A number and when it was taken, Unix milliseconds. */
export interface TimedNumber {
  readonly time: number;
  readonly num: number;
}

/** The summary of numbers in the order of their times; undefined for none. */
export function summaryOfAll(numbers: readonly TimedNumber[]): Summary | undefined {
  let summary: Summary | undefined;
  for (const { time, num } of numbers) {
    if (summary) addSample(summary, time, num);
    else summary = summaryOf(time, num);
  }
  return summary;
}

/**
 * The summary of an hour whose single numbers are gone, with numbers that came late. Numbers are in the order of their times, and
 * were stored after all that the summary holds. Everything is exact but the area where a number lies between the first and the last one:
 * nobody knows any more between which two, so it stays.
 */
export function withLate(summary: Readonly<Summary> | undefined, late: readonly TimedNumber[]): Summary | undefined {
  if (!summary) return summaryOfAll(late);
  const before = summaryOfAll(late.filter(({ time }) => time < summary.firstTime));
  const merged = before ?? { ...summary };
  if (before) addSummary(before, summary);
  for (const { time, num } of late) {
    if (time >= summary.lastTime) addSample(merged, time, num);
    else if (time >= summary.firstTime) addWithin(merged, num);
  }
  return merged;
}

function addWithin(summary: Summary, value: number): void {
  const { area, lastTime, last } = summary;
  addSample(summary, lastTime, value); // no time passes: only the last value has to be put back
  summary.area = area;
  summary.last = last;
}

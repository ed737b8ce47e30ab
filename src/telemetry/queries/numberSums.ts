import { setImmediate as yieldToEventLoop } from 'node:timers/promises';
import type { HourQueryRepository, SummedHour } from '../readings/hourQueryRepository';
import { addSample, addSummary, toHour, type NumberSummary, createSummary } from '../readings/hourSummary';
import type { NumberSample, ReadingKey, ReadingQueryRepository } from '../readings/readingQueryRepository';
import { HOUR_MS } from '../../kernel/timeUnits';

/** The series whose numbers are aggregated. */
export interface NumberSource {
  readonly series: number;
  /** Hours before this time are summed up, except stale ones. Unix milliseconds. */
  readonly summedUntil: number;
  /** Before this time, the single numbers may be deleted and only the hourly summaries exist. Unix milliseconds. */
  readonly downsampledUntil: number;
  /** Whether hourly summaries can replace readings. False if buckets are shorter than an hour or end within one. */
  readonly useHours: boolean;
}

/** The page size of reads. Other work runs between two pages. */
const PAGE_SIZE = 2000;

interface TimeRange {
  readonly from: number;
  readonly to: number;
}

/**
 * Aggregates the numbers of one series in buckets. Uses the hourly summaries for hours that lie completely in one
 * bucket, and the readings otherwise. A downsampled hour counts completely in the bucket of its first reading.
 */
export class NumberSums {
  private readonly buckets: Buckets;

  constructor(
    private readonly readings: ReadingQueryRepository,
    private readonly hours: HourQueryRepository,
    private readonly source: NumberSource,
    private readonly edges: readonly number[],
  ) {
    this.buckets = new Buckets(edges);
  }

  /**
   * Returns a summary for each bucket; undefined for buckets without numbers. Must be called once. Hours up to
   * `summedEnd` have summaries; the numbers after it are read one by one.
   */
  async sumUp(): Promise<readonly (NumberSummary | undefined)[]> {
    const from = this.edges[0] as number;
    const to = this.edges.at(-1) as number;
    const start = toHour(from);
    const endOfLastHour = toHour(to + HOUR_MS - 1); // `to` rounded up to a full hour
    const summedEnd = this.source.useHours ? Math.min(toHour(this.source.summedUntil), endOfLastHour) : start;
    if (summedEnd > start) await this.addSummedHours(from, to, { from: start, to: summedEnd });
    await this.addReadings({ from: Math.max(from, summedEnd), to });
    return this.buckets.sums;
  }

  /** Adds the summed-up hours; reads single readings for the hours whose summaries cannot be used. */
  private async addSummedHours(from: number, to: number, hours: TimeRange): Promise<void> {
    let next = hours.from;
    for (const range of await this.listRangesWithoutSummaries(hours)) {
      await this.addHours({ from: next, to: range.from });
      await this.addReadings({ from: Math.max(from, range.from), to: Math.min(to, range.to) });
      next = range.to;
    }
    await this.addHours({ from: next, to: hours.to });
  }

  /**
   * Lists the ranges of hours whose summaries cannot be used, because a bucket ends within the hour or the hour is
   * stale. Downsampled hours are excluded, because their readings no longer exist.
   */
  private async listRangesWithoutSummaries({ from: first, to }: TimeRange): Promise<TimeRange[]> {
    const from = Math.max(first, toHour(this.source.downsampledUntil));
    const hours = new Set(this.edges.filter((edge) => edge % HOUR_MS !== 0).map(toHour));
    for await (const page of readPages((last: number | undefined) =>
      this.hours.listStale(this.source.series, last === undefined ? from : last + 1, to, PAGE_SIZE),
    )) {
      for (const hour of page) hours.add(hour);
    }
    return mergeHours([...hours].filter((hour) => hour >= from && hour < to).toSorted((left, right) => left - right));
  }

  /** Adds the hourly summaries of a range. */
  private async addHours({ from, to }: TimeRange): Promise<void> {
    if (from >= to) return;
    for await (const page of this.listHours({ from, to })) {
      for (const hour of page) this.buckets.merge(hour);
    }
  }

  /** Adds the single readings of a range. */
  private async addReadings(range: TimeRange): Promise<void> {
    if (range.from >= range.to) return;
    for await (const page of this.listSamples(range)) {
      for (const { time, num } of page) this.buckets.add(time, num);
    }
  }

  private listHours({ from, to }: TimeRange): AsyncGenerator<SummedHour[]> {
    return readPages((last: SummedHour | undefined) =>
      this.hours.list(this.source.series, last === undefined ? from : last.hour + 1, to, PAGE_SIZE),
    );
  }

  private listSamples(range: TimeRange): AsyncGenerator<NumberSample[]> {
    return readPages((last: ReadingKey | undefined) =>
      this.readings.listNumbers({ ...this.source, ...range }, last, PAGE_SIZE),
    );
  }
}

/**
 * Reads page after page until one has fewer than `size` items; `read` gets the last item of the previous page. Yields
 * to the event loop in between.
 */
export async function* readPages<Item>(
  read: (last: Item | undefined) => Promise<Item[]>,
  size = PAGE_SIZE,
): AsyncGenerator<Item[]> {
  let page = await read(undefined);
  while (page.length > 0) {
    yield page;
    if (page.length < size) return;
    await yieldToEventLoop();
    page = await read(page.at(-1));
  }
}

/** Merges sorted hours into ranges. */
function mergeHours(hours: readonly number[]): TimeRange[] {
  const ranges: { from: number; to: number }[] = [];
  for (const hour of hours) {
    const last = ranges.at(-1);
    if (last?.to === hour) last.to = hour + HOUR_MS;
    else ranges.push({ from: hour, to: hour + HOUR_MS });
  }
  return ranges;
}

/** Buckets that are filled in ascending order of time. Samples outside all buckets are ignored. */
class Buckets {
  readonly sums: (NumberSummary | undefined)[];
  private currentIndex = 0;

  constructor(private readonly edges: readonly number[]) {
    this.sums = Array.from({ length: edges.length - 1 });
  }

  /** Adds one number; times must not decrease. */
  add(time: number, value: number): void {
    if (!this.moveTo(time)) return;
    const sum = this.sums[this.currentIndex];
    if (sum) addSample(sum, time, value);
    else this.sums[this.currentIndex] = createSummary(time, value);
  }

  /** Adds the summary of an hour to the bucket of its first number. */
  merge(summary: Readonly<NumberSummary>): void {
    if (!this.moveTo(summary.firstTime)) return;
    const sum = this.sums[this.currentIndex];
    if (sum) addSummary(sum, summary);
    else this.sums[this.currentIndex] = { ...summary };
  }

  /** Makes the bucket of a time the current one. Returns false if the time is in no bucket. */
  private moveTo(time: number): boolean {
    while (this.currentIndex < this.sums.length - 1 && time >= (this.edges[this.currentIndex + 1] as number))
      this.currentIndex += 1;
    return time >= (this.edges[this.currentIndex] as number) && time < (this.edges[this.currentIndex + 1] as number);
  }
}

import { setImmediate as othersTurn } from 'node:timers/promises';
import type { HourQueryRepository, SummedHour } from '../readings/hourQueryRepository';
import { addSample, addSummary, HOUR_MS, hourOf, type Summary, summaryOf } from '../readings/hourSummary';
import type { NumberSample, ReadingPlace, ReadingQueryRepository } from '../readings/readingQueryRepository';

/** What numbers are summed up of. */
export interface NumberSource {
  readonly sensorId: string;
  readonly series: number;
  /** Hours before it are summed up, but stale ones; Unix milliseconds. */
  readonly summedUntil: number;
  /** Hours before it are all that is left of their readings, or soon will be; Unix milliseconds. */
  readonly thinnedUntil: number;
  /** Whether hours may stand for their readings: not where buckets lie within them. */
  readonly byHours: boolean;
}

/** Reads in pages, so that others have their turn in between. */
const PAGE = 2000;

interface Stretch {
  readonly from: number;
  readonly to: number;
}

/**
 * Sums up the numbers of one series in buckets: from its hours where a whole one lies in a bucket, from its readings elsewhere. An hour
 * whose readings are thinned counts as a whole where its first one lay.
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

  /** A summary of each bucket, undefined for those without a number. Call it once. */
  async sumUp(): Promise<readonly (Summary | undefined)[]> {
    const [from, to] = [this.edges[0] as number, this.edges.at(-1) as number];
    const start = hourOf(from);
    const summed = this.source.byHours ? Math.min(hourOf(this.source.summedUntil), hourOf(to + HOUR_MS - 1)) : start;
    if (summed > start) await this.takeSummed(from, to, { from: start, to: summed });
    await this.takeReadings({ from: Math.max(from, summed), to });
    return this.buckets.sums;
  }

  /** Takes the hours that are summed up, and the readings of those of them that do not tell. */
  private async takeSummed(from: number, to: number, hours: Stretch): Promise<void> {
    let at = hours.from;
    for (const stretch of await this.uncertain(hours)) {
      await this.takeHours({ from: at, to: stretch.from });
      await this.takeReadings({ from: Math.max(from, stretch.from), to: Math.min(to, stretch.to) });
      at = stretch.to;
    }
    await this.takeHours({ from: at, to: hours.to });
  }

  /** The stretches of hours that have to be looked at reading by reading, as long as these are there: cut by an edge, or stale. */
  private async uncertain({ from: first, to }: Stretch): Promise<Stretch[]> {
    const from = Math.max(first, hourOf(this.source.thinnedUntil));
    const hours = new Set(this.edges.filter((edge) => edge % HOUR_MS !== 0).map(hourOf));
    for await (const page of pages((last: number | undefined) => this.hours.stale(this.source.series, last === undefined ? from : last + 1, to, PAGE))) {
      for (const hour of page) hours.add(hour);
    }
    return stretchesOf([...hours].filter((hour) => hour >= from && hour < to).toSorted((one, other) => one - other));
  }

  private async takeHours({ from, to }: Stretch): Promise<void> {
    if (from >= to) return;
    for await (const page of this.hoursOf({ from, to })) for (const hour of page) this.buckets.merge(hour);
  }

  private async takeReadings(stretch: Stretch): Promise<void> {
    if (stretch.from >= stretch.to) return;
    for await (const page of this.samplesOf(stretch)) for (const { time, num } of page) this.buckets.add(time, num);
  }

  private hoursOf({ from, to }: Stretch): AsyncGenerator<SummedHour[]> {
    return pages((last: SummedHour | undefined) => this.hours.list(this.source.series, last === undefined ? from : last.hour + 1, to, PAGE));
  }

  private samplesOf(stretch: Stretch): AsyncGenerator<NumberSample[]> {
    return pages((last: ReadingPlace | undefined) => this.readings.numbers({ ...this.source, ...stretch }, last, PAGE));
  }
}

/** Page after page, each read after the last item of the one before; the others have their turn in between. */
export async function* pages<Item>(read: (last: Item | undefined) => Promise<Item[]>, size = PAGE): AsyncGenerator<Item[]> {
  let page = await read(undefined);
  while (page.length > 0) {
    yield page;
    if (page.length < size) return;
    await othersTurn();
    page = await read(page.at(-1));
  }
}

function stretchesOf(hours: readonly number[]): Stretch[] {
  const stretches: { from: number; to: number }[] = [];
  for (const hour of hours) {
    const last = stretches.at(-1);
    if (last?.to === hour) last.to = hour + HOUR_MS;
    else stretches.push({ from: hour, to: hour + HOUR_MS });
  }
  return stretches;
}

/** Buckets that are filled from the first to the last. What lies outside of all of them is left out. */
class Buckets {
  readonly sums: (Summary | undefined)[];
  private at = 0;

  constructor(private readonly edges: readonly number[]) {
    this.sums = Array.from({ length: edges.length - 1 });
  }

  add(time: number, value: number): void {
    if (!this.find(time)) return;
    const sum = this.sums[this.at];
    if (sum) addSample(sum, time, value);
    else this.sums[this.at] = summaryOf(time, value);
  }

  merge(summary: Readonly<Summary>): void {
    if (!this.find(summary.firstTime)) return;
    const sum = this.sums[this.at];
    if (sum) addSummary(sum, summary);
    else this.sums[this.at] = { ...summary };
  }

  private find(time: number): boolean {
    while (this.at < this.sums.length - 1 && time >= (this.edges[this.at + 1] as number)) this.at += 1;
    return time >= (this.edges[this.at] as number) && time < (this.edges[this.at + 1] as number);
  }
}

import type { Clock } from '../../kernel/clock';
import type { Database } from '../../database';
import { addSample, HOUR_MS, hourOf, summaryOf, type Summary } from '../readings/hourSummary';
import type { ReadingPositions } from '../readings/readingPositions';
import type { SeriesNumbers } from '../readings/seriesNumbers';
import type { BackgroundWork } from './backgroundWork';
import { HourSummaryRepository, type NewHour, type StaleHour, type SummedReading, type WaitingSeries } from './hourSummaryRepository';
import { withLate } from './lateReadings';

/** What it needs. */
export interface HourSummariserOptions {
  readonly database: Database;
  readonly clock: Clock;
  readonly positions: ReadingPositions;
  readonly series: SeriesNumbers;
}

/** An hour is summed up so long after its end: most of what comes late has come by then. Milliseconds. */
export const SETTLING_MS = 600_000;

const STALE_AT_ONCE = 100;
const PAGE = 2000;
const HOURS_AT_ONCE = 256;

/** Sums up readings by hours, so that a year of them can be asked for in a moment. One run at a time. */
export class HourSummariser {
  private readonly reads: HourSummaryRepository;

  constructor(private readonly options: HourSummariserOptions) {
    this.reads = new HourSummaryRepository(options.database.db);
  }

  /** Up to where hours can be summed up now, Unix milliseconds. */
  horizon(): number {
    return hourOf(this.options.clock.now() - SETTLING_MS);
  }

  /** Sums up all hours before the horizon that were not summed up yet. Returns how many readings that took. */
  async sumUp(work: BackgroundWork): Promise<number> {
    const horizon = this.horizon();
    let readings = 0;
    for (let after = 0; ;) {
      const { items, isLast } = await work.page(async (limit) => await this.reads.waiting(after, horizon, limit));
      readings += await this.sumSeries(items.filter(({ firstTime }) => firstTime !== null), horizon, work);
      const last = items.at(-1);
      if (!last || isLast) return readings;
      after = last.number;
    }
  }

  /** Sums up anew the hours that got readings after they were summed up. Returns how many these were. */
  async redo(work: BackgroundWork): Promise<number> {
    const { positions } = this.options;
    let hours = 0;
    for (let after = { series: -1, hour: 0 }; ;) {
      const page = await this.reads.stale(after, STALE_AT_ONCE);
      const last = page.at(-1);
      if (!last) return hours;
      await positions.settled();
      const position = positions.watermark();
      await this.redoWhole(page.filter(({ isThinned }) => !isThinned), position, work);
      for (const stale of page) if (stale.isThinned) await this.addLate(stale, position, work);
      hours += page.length;
      after = last;
    }
  }

  private async sumSeries(waiting: readonly WaitingSeries[], horizon: number, work: BackgroundWork): Promise<number> {
    const { positions, series } = this.options;
    if (waiting.length === 0) return 0;
    for (const { sensorId } of waiting) series.raise(sensorId, horizon);
    try {
      await positions.settled(); // uplinks on their way do not know yet that what they store makes hours stale
      return await this.sumSettled(waiting, horizon, work);
    } finally {
      await positions.settled(); // one that read the series before it was summed up has to be told as well
      for (const { sensorId } of waiting) series.summed(sensorId);
    }
  }

  private async sumSettled(waiting: readonly WaitingSeries[], horizon: number, work: BackgroundWork): Promise<number> {
    const position = this.options.positions.watermark();
    let readings = 0;
    let hours: NewHour[] = [];
    let until = new Map<number, number>();
    for (const { number, firstTime } of waiting) {
      for await (const part of this.partsOf(number, firstTime ?? horizon, horizon, position, work)) {
        readings += part.readings;
        hours.push(...part.hours);
        until.set(number, part.until);
        if (hours.length < HOURS_AT_ONCE) continue;
        await this.write(hours, until, work);
        [hours, until] = [[], new Map()];
      }
    }
    await this.write(hours, until, work);
    return readings;
  }

  /** The hours of a series, part by part; each says up to where the series is summed up with it. */
  private async *partsOf(series: number, from: number, horizon: number, position: number, work: BackgroundWork): AsyncGenerator<{ hours: NewHour[]; until: number; readings: number }> {
    const sums = new HourSums(series, position);
    for await (const page of this.pagesOf(series, from, horizon, work)) {
      for (const reading of page) sums.add(reading);
      const last = page.at(-1);
      const isLast = page.length < PAGE || !last;
      const until = isLast ? horizon : hourOf(last.time);
      yield { hours: sums.takeBefore(until), until, readings: page.length };
    }
  }

  private async *pagesOf(series: number, from: number, to: number, work: BackgroundWork): AsyncGenerator<SummedReading[]> {
    for (let after = { time: from, position: -1 }; ;) {
      const page = await this.reads.readings(series, after, to, PAGE);
      yield page;
      await work.breathe();
      const last = page.at(-1);
      if (!last || page.length < PAGE) return;
      after = last;
    }
  }

  /** The hours first: only when all of them are on disk the series says so. */
  private async write(hours: readonly NewHour[], until: ReadonlyMap<number, number>, work: BackgroundWork): Promise<void> {
    for (let at = 0; at < hours.length; ) {
      at += await work.step(async (db, rows) => {
        await new HourSummaryRepository(db).store(hours.slice(at, at + rows));
        return rows;
      });
    }
    if (until.size > 0) await work.step(async (db) => await new HourSummaryRepository(db).advance(until));
  }

  /** Hours whose readings are all there; `position`: all readings up to it are on disk. */
  private async redoWhole(stale: readonly StaleHour[], position: number, work: BackgroundWork): Promise<void> {
    if (stale.length === 0) return;
    const summed: (readonly [StaleHour, NewHour | undefined])[] = [];
    for (const one of stale) {
      const sums = new HourSums(one.series, position);
      for await (const page of this.pagesOf(one.series, one.hour, one.hour + HOUR_MS, work)) {
        for (const reading of page) sums.add(reading);
      }
      summed.push([one, sums.takeBefore(one.hour + HOUR_MS)[0]]);
    }
    for (let at = 0; at < summed.length; ) {
      at += await work.step(async (db, rows) => {
        const repository = new HourSummaryRepository(db);
        for (const [one, hour] of summed.slice(at, at + rows)) {
          await repository.hold(one);
          await repository.settle(one, position);
          if (!hour) await repository.drop(one);
        }
        await repository.store(summed.slice(at, at + rows).flatMap(([, hour]) => hour ?? []));
        return rows;
      });
    }
  }

  /** Of a thinned hour the late numbers up to a position are added to the sum. They stay until they are thinned themselves: whoever resumes a stream has not seen them yet. */
  private async addLate(stale: StaleHour, until: number, work: BackgroundWork): Promise<void> {
    let isAll = false;
    while (!isAll) {
      isAll = await work.step(async (db, rows) => {
        const repository = new HourSummaryRepository(db);
        await repository.hold(stale);
        const before = await repository.find(stale);
        const { position = -1 } = before ?? {};
        const late = await repository.late(stale, position, until, rows);
        const last = late.length < rows ? until : (late.at(-1)?.position ?? until);
        const summary = withLate(before, late.toSorted((one, other) => one.time - other.time || one.position - other.position));
        if (summary) await repository.store([{ ...summary, series: stale.series, hour: stale.hour, position: Math.max(position, last) }]);
        if (late.length === rows) return false;
        await repository.settle(stale, until);
        return true;
      });
    }
  }
}

/** The sums of the hours of one series, filled in the order of time by its numbers up to a position: later ones make their hours stale. */
class HourSums {
  private readonly open: { readonly hour: number; readonly summary: Summary }[] = [];

  constructor(
    private readonly series: number,
    private readonly position: number,
  ) {}

  add({ time, num, position }: SummedReading): void {
    if (num === null || position > this.position) return;
    const last = this.open.at(-1);
    if (last && time < last.hour + HOUR_MS) addSample(last.summary, time, num);
    else this.open.push({ hour: hourOf(time), summary: summaryOf(time, num) });
  }

  /** Hands over the hours before a time. */
  takeBefore(time: number): NewHour[] {
    const first = this.open.findIndex(({ hour }) => hour >= time);
    const taken = this.open.splice(0, first === -1 ? this.open.length : first);
    return taken.map(({ hour, summary }) => ({ ...summary, series: this.series, hour, position: this.position }));
  }
}

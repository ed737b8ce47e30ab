import type { Clock } from '../../kernel/clock';
import { HOUR_MS } from '../../kernel/timeUnits';
import type { Database } from '../../database';
import { addSample, toHour, createSummary, type NumberSummary } from '../readings/hourSummary';
import type { ReadingSequence } from '../readings/readingSequence';
import { BEFORE_ALL_POSITIONS } from '../readings/storedReading';
import type { SeriesIdCache } from '../readings/seriesIdCache';
import type { BackgroundWork } from './backgroundWork';
import {
  HourSummaryRepository,
  type NewHour,
  type StaleHour,
  type ReadingToSum,
  type PendingSeries,
} from './hourSummaryRepository';
import { addLateNumbers } from './lateArrivals';

/** Dependencies of HourlyRollup and ReadingRemoval. */
export interface RetentionOptions {
  readonly database: Database;
  readonly clock: Clock;
  readonly positions: ReadingSequence;
  readonly series: SeriesIdCache;
}

/** The delay between the end of an hour and its roll-up, milliseconds. Most late readings have arrived by then. */
const ROLLUP_DELAY_MS = 600_000;

const STALE_BATCH_SIZE = 100;
const PAGE_SIZE = 2000;
const HOUR_BATCH_SIZE = 256;

/**
 * Sums up readings by hour, so that queries of a year are fast. The horizon is the time up to which hours can be summed
 * up now. A summed-up hour becomes stale when it receives further readings. Positions are the order in which readings
 * are stored; the watermark is the position up to which all readings are on disk. Only one run at a time is allowed.
 */
export class HourlyRollup {
  private readonly repository: HourSummaryRepository;

  constructor(private readonly options: RetentionOptions) {
    this.repository = new HourSummaryRepository(options.database.db);
  }

  /**
   * Returns the time up to which hours can be summed up now, Unix milliseconds: most late readings of the hours before
   * have arrived.
   */
  getHorizon(): number {
    return toHour(this.options.clock.now() - ROLLUP_DELAY_MS);
  }

  /** Sums up all pending hours before the horizon. Returns the number of summed-up readings. */
  async sumUp(work: BackgroundWork): Promise<number> {
    const horizon = this.getHorizon();
    let readingCount = 0;
    for (let afterSeries = 0; ;) {
      const { items, isLast } = await work.readPage(
        async (limit) => await this.repository.listPending(afterSeries, horizon, limit),
      );
      readingCount += await this.sumSeries(
        items.filter(({ firstTime }) => firstTime !== null),
        horizon,
        work,
      );
      const last = items.at(-1);
      if (!last || isLast) return readingCount;
      afterSeries = last.number;
    }
  }

  /**
   * Updates the stale hours: sums up their readings again or, if the readings are downsampled, adds the late readings
   * to the summary. Returns the number of these hours.
   */
  async recomputeStale(work: BackgroundWork): Promise<number> {
    const { positions } = this.options;
    let hourCount = 0;
    const beforeFirst = { series: -1, hour: 0 };
    for (let after = beforeFirst; ;) {
      const page = await this.repository.listStale(after, STALE_BATCH_SIZE);
      const last = page.at(-1);
      if (!last) return hourCount;
      await positions.waitUntilAllClosed();
      const watermark = positions.advanceGlobalWatermark();
      await this.recompute(
        page.filter(({ isDownsampled }) => !isDownsampled),
        watermark,
        work,
      );
      for (const stale of page) {
        if (stale.isDownsampled) await this.addLateNumbers(stale, watermark, work);
      }
      hourCount += page.length;
      after = last;
    }
  }

  /**
   * Sums up the pending readings of some series, so that a reading stored meanwhile is either included or marks its
   * hour as stale: first every new uplink marks these hours, then uplinks in progress are awaited, then the readings
   * are read.
   */
  private async sumSeries(pending: readonly PendingSeries[], horizon: number, work: BackgroundWork): Promise<number> {
    const { positions, series } = this.options;
    if (pending.length === 0) return 0;
    for (const { sensorId } of pending) series.beginRollup(sensorId, horizon);
    try {
      // Uplinks in progress may not know yet that they must mark these hours as stale.
      await positions.waitUntilAllClosed();
      return await this.sumStoredReadings(pending, horizon, work);
    } finally {
      // An uplink in progress may have loaded the series before the roll-up was stored.
      await positions.waitUntilAllClosed();
      for (const { sensorId } of pending) series.endRollup(sensorId);
    }
  }

  /** Sums up the readings that are on disk and writes the hours in batches. Returns the number of readings. */
  private async sumStoredReadings(
    pending: readonly PendingSeries[],
    horizon: number,
    work: BackgroundWork,
  ): Promise<number> {
    const watermark = this.options.positions.advanceGlobalWatermark();
    let readingCount = 0;
    let hours: NewHour[] = [];
    let summedUntilBySeries = new Map<number, number>();
    for (const { number, firstTime } of pending) {
      for await (const part of this.sumInParts(number, firstTime ?? horizon, horizon, watermark, work)) {
        readingCount += part.readings;
        hours.push(...part.hours);
        summedUntilBySeries.set(number, part.until);
        if (hours.length < HOUR_BATCH_SIZE) continue;
        await this.writeHours(hours, summedUntilBySeries, work);
        hours = [];
        summedUntilBySeries = new Map();
      }
    }
    await this.writeHours(hours, summedUntilBySeries, work);
    return readingCount;
  }

  /**
   * Yields the hours of a series in parts. After each part, the series is summed up to the time `until`. `watermark`:
   * all readings up to this position are on disk.
   */
  private async *sumInParts(
    series: number,
    from: number,
    horizon: number,
    watermark: number,
    work: BackgroundWork,
  ): AsyncGenerator<{ hours: NewHour[]; until: number; readings: number }> {
    const sums = new HourAccumulator(series, watermark);
    for await (const page of this.readPages(series, from, horizon, work)) {
      for (const reading of page) sums.add(reading);
      const last = page.at(-1);
      const isLast = page.length < PAGE_SIZE || !last;
      const until = isLast ? horizon : toHour(last.time);
      yield { hours: sums.removeHoursBefore(until), until, readings: page.length };
    }
  }

  /** Reads the readings of a time range page by page, ending with a page that is not full. */
  private async *readPages(
    series: number,
    from: number,
    to: number,
    work: BackgroundWork,
  ): AsyncGenerator<ReadingToSum[]> {
    for (let after = { time: from, position: BEFORE_ALL_POSITIONS }; ;) {
      const page = await this.repository.listReadings(series, after, to, PAGE_SIZE);
      yield page;
      await work.pauseIfDue();
      const last = page.at(-1);
      if (!last || page.length < PAGE_SIZE) return;
      after = last;
    }
  }

  /**
   * Writes hours, then up to which time each series is summed up: a series may only be marked as summed up when its
   * hours are on disk.
   */
  private async writeHours(
    hours: readonly NewHour[],
    summedUntilBySeries: ReadonlyMap<number, number>,
    work: BackgroundWork,
  ): Promise<void> {
    for (let start = 0; start < hours.length;) {
      start += await work.runStep(async (db, maxRows) => {
        await new HourSummaryRepository(db).store(hours.slice(start, start + maxRows));
        return maxRows;
      });
    }
    if (summedUntilBySeries.size > 0)
      await work.runStep(async (db) => await new HourSummaryRepository(db).advanceSummedUntil(summedUntilBySeries));
  }

  /** Sums up stale hours again whose readings all exist. `watermark`: all readings up to this position are on disk. */
  private async recompute(staleHours: readonly StaleHour[], watermark: number, work: BackgroundWork): Promise<void> {
    if (staleHours.length === 0) return;
    // The summary is undefined for an hour without numbers.
    const summed: (readonly [stale: StaleHour, summary: NewHour | undefined])[] = [];
    for (const stale of staleHours) {
      const sums = new HourAccumulator(stale.series, watermark);
      for await (const page of this.readPages(stale.series, stale.hour, stale.hour + HOUR_MS, work)) {
        for (const reading of page) sums.add(reading);
      }
      summed.push([stale, sums.removeHoursBefore(stale.hour + HOUR_MS)[0]]);
    }
    for (let start = 0; start < summed.length;) {
      start += await work.runStep(async (db, maxRows) => {
        const repository = new HourSummaryRepository(db);
        const batch = summed.slice(start, start + maxRows);
        for (const [stale, hour] of batch) {
          await repository.lock(stale);
          await repository.clearStale(stale, watermark);
          if (!hour) await repository.delete(stale);
        }
        await repository.store(batch.flatMap(([, hour]) => hour ?? []));
        return maxRows;
      });
    }
  }

  /**
   * Adds the late numbers of a downsampled hour, up to the watermark, to its summary in batches. The summary stores
   * the position up to which it contains all numbers. The numbers are deleted later, when they are downsampled
   * themselves: clients that resume a stream still need them.
   */
  private async addLateNumbers(stale: StaleHour, watermark: number, work: BackgroundWork): Promise<void> {
    let isDone = false;
    while (!isDone) {
      isDone = await work.runStep(async (db, maxRows) => {
        const repository = new HourSummaryRepository(db);
        await repository.lock(stale);
        const before = await repository.find(stale);
        const { position = BEFORE_ALL_POSITIONS } = before ?? {};
        const late = await repository.listLate(stale, position, watermark, maxRows);
        const isLastBatch = late.length < maxRows;
        const lastPosition = isLastBatch ? watermark : (late.at(-1)?.position ?? watermark);
        // A batch has the next positions; within it, numbers are added in the order of time.
        const summary = addLateNumbers(
          before,
          late.toSorted((left, right) => left.time - right.time || left.position - right.position),
        );
        if (summary)
          await repository.store([
            { ...summary, series: stale.series, hour: stale.hour, position: Math.max(position, lastPosition) },
          ]);
        if (!isLastBatch) return false;
        await repository.clearStale(stale, watermark);
        return true;
      });
    }
  }
}

/**
 * Sums up the numbers of one series by hour. Numbers are added in the order of time. `watermark`: the position up to
 * which all readings are on disk. Numbers after it are ignored, because they mark their hours as stale.
 */
class HourAccumulator {
  private readonly hours: { readonly hour: number; readonly summary: NumberSummary }[] = [];

  constructor(
    private readonly series: number,
    private readonly watermark: number,
  ) {}

  /** Adds a reading, unless it is not a number or was stored after the watermark. */
  add({ time, num, position }: ReadingToSum): void {
    if (num === null || position > this.watermark) return;
    const last = this.hours.at(-1);
    if (last && time < last.hour + HOUR_MS) addSample(last.summary, time, num);
    else this.hours.push({ hour: toHour(time), summary: createSummary(time, num) });
  }

  /**
   * Removes and returns the hours before a time. Each summary contains the numbers up to the watermark, which becomes
   * its `position`: later, only numbers after that position are added to it.
   */
  removeHoursBefore(time: number): NewHour[] {
    const firstKeptIndex = this.hours.findIndex(({ hour }) => hour >= time);
    const removed = this.hours.splice(0, firstKeptIndex === -1 ? this.hours.length : firstKeptIndex);
    return removed.map(({ hour, summary }) => ({ ...summary, series: this.series, hour, position: this.watermark }));
  }
}

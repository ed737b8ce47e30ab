import type { Database } from '../../database';
import type { Clock } from '../../kernel/clock';
import { HOUR_MS } from '../readings/hourSummary';
import type { ReadingPositions } from '../readings/readingPositions';
import type { SeriesNumbers } from '../readings/seriesNumbers';
import { POSITIONS_PER_MS } from '../readings/storedReading';
import type { BackgroundWork } from './backgroundWork';
import { ReadingRemovalRepository, type AgingSeries, type Place, type Removed } from './readingRemovalRepository';
import { readingTimes } from './readingTimes';

/** What it needs. */
export interface ReadingRemovalOptions {
  readonly database: Database;
  readonly clock: Clock;
  readonly positions: ReadingPositions;
  readonly series: SeriesNumbers;
}

/** What a run removed. */
export interface RemovalReport {
  /** Readings that were older than their organization keeps them, or those of deleted sensors. */
  readings: number;
  /** Readings of numbers that made way for their hours. */
  thinned: number;
  hours: number;
  /** Deleted sensors of which nothing is left now. */
  series: number;
  /** The most rows that were removed in one transaction. */
  largestStep: number;
}

type Kind = 'readings' | 'thinned' | 'late' | 'hours' | 'series';

/** One thing to do with a series: remove what is before a time. */
interface Job {
  readonly kind: Kind;
  readonly series: number;
  readonly before: number;
  readonly from: Place;
  /** Readings with a greater position stay: a stream may be resumed before them. */
  readonly until: number;
}

const START: Place = { time: 0, position: -1 };
const END_OF_TIME = Number.MAX_SAFE_INTEGER;

/** Removes readings that are no longer kept, and thins those that are to be thinned. One run at a time; the next one goes on where a run was ended. */
export class ReadingRemoval {
  private readonly reads: ReadingRemovalRepository;

  constructor(private readonly options: ReadingRemovalOptions) {
    this.reads = new ReadingRemovalRepository(options.database.db);
  }

  /** One run through all series of all organizations. */
  async run(work: BackgroundWork): Promise<RemovalReport> {
    const { clock, positions } = this.options;
    const report: RemovalReport = { readings: 0, thinned: 0, hours: 0, series: 0, largestStep: 0 };
    const now = clock.now();
    await positions.settled();
    const position = positions.watermark();
    for (let after = 0; ;) {
      const { items, isLast } = await work.page(async (limit) => await this.reads.aging(after, limit));
      await this.forget(items.filter(({ sensor }) => sensor === null));
      await this.perform(items.flatMap((series) => jobsOf(series, now)), position, work, report);
      const numbers = [after, ...items.map(({ number }) => number), ...(isLast ? [END_OF_TIME] : [])];
      await this.removeStrays(numbers, position, work, report);
      const last = items.at(-1);
      if (!last || isLast) return report;
      after = last.number;
    }
  }

  /** All of an organization that goes, whose sensors are gone. */
  async removeAllOf(organizationId: string, work: BackgroundWork): Promise<void> {
    const report: RemovalReport = { readings: 0, thinned: 0, hours: 0, series: 0, largestStep: 0 };
    for (let after = 0; ;) {
      const { items, isLast } = await work.page(async (limit) => await this.reads.ofOrganization(organizationId, after, limit));
      await this.forget(items);
      await this.perform(items.flatMap(({ number }) => wholeOf(number)), END_OF_TIME, work, report);
      const last = items.at(-1);
      if (!last || isLast) return;
      after = last.number;
    }
  }

  /** Deleted sensors: what is being stored of them comes to rest, and nothing follows. */
  private async forget(series: readonly Pick<AgingSeries, 'sensorId'>[]): Promise<void> {
    if (series.length === 0) return;
    await this.options.positions.settled();
    for (const { sensorId } of series) this.options.series.forget(sensorId);
  }

  /** Whatever lies between two numbers of series belongs to none. */
  private async removeStrays(numbers: readonly number[], position: number, work: BackgroundWork, report: RemovalReport): Promise<void> {
    for (const [at, before] of numbers.entries()) {
      const after = numbers[at - 1];
      if (after === undefined || before === after + 1) continue;
      for (let stray = await this.reads.findStray(after, before); stray !== undefined; stray = await this.reads.findStray(after, before)) {
        await this.perform(wholeOf(stray), position, work, report);
      }
      await work.breathe();
    }
  }

  private async perform(jobs: readonly Job[], position: number, work: BackgroundWork, report: RemovalReport): Promise<void> {
    let left = jobs;
    while (left.length > 0) {
      const step = await work.step(async (db, limit, isLate) => await removeSome(new ReadingRemovalRepository(db), left, position, { limit, isLate }));
      left = step.left;
      for (const [kind, rows] of step.removed) report[kind === 'late' ? 'thinned' : kind] += rows;
      report.largestStep = Math.max(report.largestStep, step.rows);
    }
  }
}

/** How far a step may go. */
interface StepLimits {
  readonly limit: number;
  readonly isLate: () => boolean;
}

/** What a step did, and what it left. */
interface RemovalStep {
  readonly left: readonly Job[];
  readonly removed: readonly (readonly [Kind, number])[];
  readonly rows: number;
}

/** As many of the jobs as `limit` rows and the time allow, the last one perhaps in part; one at least. */
async function removeSome(repository: ReadingRemovalRepository, jobs: readonly Job[], position: number, { limit, isLate }: StepLimits): Promise<RemovalStep> {
  const removed: (readonly [Kind, number])[] = [];
  let rows = 0;
  for (const [at, job] of jobs.entries()) {
    const done = await removeOne(repository, job, position, limit - rows);
    removed.push([job.kind, done.rows]);
    rows += done.rows;
    if (done.next) return { left: [{ ...job, from: done.next }, ...jobs.slice(at + 1)], removed, rows };
    if (rows >= limit || at + 1 >= limit || isLate()) return { left: jobs.slice(at + 1), removed, rows };
  }
  return { left: [], removed, rows };
}

function removeOne(repository: ReadingRemovalRepository, { kind, series, before, from, until }: Job, position: number, limit: number): Promise<Removed> {
  if (kind === 'readings') return repository.removeReadings(series, before, limit);
  if (kind === 'hours') return repository.removeHours(series, before, limit);
  if (kind === 'thinned') return repository.thin(series, from, before, Math.min(position, until), limit);
  if (kind === 'late') return repository.thinLate(series, from, before, Math.min(position, until), limit);
  return repository.removeSeries(series);
}

function jobsOf(series: AgingSeries, now: number): Job[] {
  const { number, sensor, summedUntil, thinnedUntil, oldestReading, oldestHour, oldestUnthinned, oldestLate } = series;
  if (sensor === null) return wholeOf(number);
  const { keptSince, thinnedBefore = 0 } = readingTimes(series, now);
  const until = thinnedBefore * POSITIONS_PER_MS;
  const jobs: Job[] = [];
  if (isBefore(oldestReading, keptSince)) jobs.push({ kind: 'readings', series: number, before: keptSince, from: START, until });
  if (isBefore(oldestHour, keptSince)) jobs.push({ kind: 'hours', series: number, before: keptSince, from: START, until });
  // First those that came after their hour was thinned: the next job moves on the place from which these are looked for.
  if (isBefore(oldestLate, until)) jobs.push({ kind: 'late', series: number, before: thinnedUntil, from: { time: 0, position: (thinnedUntil - HOUR_MS) * POSITIONS_PER_MS }, until });
  const thin = Math.min(thinnedBefore, summedUntil);
  // One hour back, because a run that was ended may have left some of the last hour.
  if (isBefore(oldestUnthinned, thin)) jobs.push({ kind: 'thinned', series: number, before: thin, from: { time: Math.max(0, thinnedUntil - HOUR_MS), position: -1 }, until });
  return jobs;
}

function isBefore(oldest: number | null, end: number): boolean {
  return oldest !== null && oldest < end;
}

function wholeOf(series: number): Job[] {
  return (['readings', 'hours', 'series'] as const).map((kind) => ({ kind, series, before: END_OF_TIME, from: START, until: END_OF_TIME }));
}

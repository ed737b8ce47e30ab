import type { ReadingKey } from '../readings/readingQueryRepository';
import { AFTER_ALL_POSITIONS, BEFORE_ALL_POSITIONS, getFirstPosition } from '../readings/storedReading';
import type { BackgroundWork } from './backgroundWork';
import type { RetentionOptions } from './hourlyRollup';
import { ReadingRemovalRepository, type AgingSeries, type RemovalResult } from './readingRemovalRepository';
import { computeAgeLimits } from './readingTimes';
import { HOUR_MS } from '../../kernel/timeUnits';

/** What a run deleted. */
interface RemovalReport {
  /** The number of readings older than the retention of their organization, or of deleted sensors. */
  readings: number;
  /** The number of numeric readings that were downsampled, so that only their hourly summaries are left. */
  downsampled: number;
  /** The number of hourly summaries. */
  hours: number;
  /** The number of series of deleted sensors. */
  series: number;
  /** The greatest number of rows that one transaction deleted. */
  maxStep: number;
}

/**
 * What a task deletes. `numbers`: the numeric readings of old hours. `lateNumbers`: those that were stored after their
 * hour was downsampled, so that a search by time, which continues after the downsampled hours, does not find them.
 */
type Kind = 'readings' | 'hours' | 'numbers' | 'lateNumbers' | 'series';

/** The field of the report that counts the deleted rows of a task. */
const REPORT_FIELDS = {
  readings: 'readings',
  hours: 'hours',
  numbers: 'downsampled',
  lateNumbers: 'downsampled',
  series: 'series',
} as const satisfies Record<Kind, keyof RemovalReport>;

/**
 * One task for a series: delete rows before a time, from a key on. Late numbers are searched by their position only.
 */
interface RemovalTask {
  readonly kind: Kind;
  readonly series: number;
  readonly before: number;
  readonly from: ReadingKey;
  /**
   * The position (order of storage) up to which numbers are downsampled. Those that were stored later remain for now,
   * because a stream may still be resumed before them.
   */
  readonly maxPosition: number;
}

/** The key before all readings of a series. */
const START: ReadingKey = { time: 0, position: BEFORE_ALL_POSITIONS };
/** Later than every reading, Unix milliseconds. */
const END_OF_TIME = Number.MAX_SAFE_INTEGER;
/** Greater than every series number. */
const AFTER_ALL_SERIES = Number.MAX_SAFE_INTEGER;

/**
 * Deletes expired readings, and downsamples old ones: deletes their numbers, whose hourly summaries remain. The
 * watermark is the position (order of storage) up to which all readings are on disk. Only one run at a time is allowed.
 * The next run continues after an interrupted one.
 */
export class ReadingRemoval {
  private readonly repository: ReadingRemovalRepository;

  constructor(private readonly options: RetentionOptions) {
    this.repository = new ReadingRemovalRepository(options.database.db);
  }

  /** Processes all series of all organizations once. */
  async run(work: BackgroundWork): Promise<RemovalReport> {
    const { clock, positions } = this.options;
    const report = createEmptyReport();
    const now = clock.now();
    await positions.waitUntilAllClosed();
    const watermark = positions.advanceGlobalWatermark();
    for (let after = 0; ;) {
      const { items: series, isLast } = await work.readPage(
        async (limit) => await this.repository.listAging(after, limit),
      );
      await this.removeFromCache(series.filter(({ existingSensorId }) => existingSensorId === null));
      await this.runTasks(
        series.flatMap((item) => listTasks(item, now)),
        watermark,
        work,
        report,
      );
      // The gaps before, between and, on the last page, after the series of this page are searched.
      const seriesNumbers = [after, ...series.map(({ number }) => number), ...(isLast ? [AFTER_ALL_SERIES] : [])];
      await this.removeOrphanedRows(seriesNumbers, watermark, work, report);
      const last = series.at(-1);
      if (!last || isLast) return report;
      after = last.number;
    }
  }

  /**
   * Deletes all readings of an organization that is being removed, whose sensors must be deleted already. No watermark
   * is needed, because no more readings are stored in its series.
   */
  async removeAll(organizationId: string, work: BackgroundWork): Promise<void> {
    const unusedReport = createEmptyReport();
    for (let after = 0; ;) {
      const { items: series, isLast } = await work.readPage(
        async (limit) => await this.repository.listOfOrganization(organizationId, after, limit),
      );
      await this.removeFromCache(series);
      await this.runTasks(
        series.flatMap(({ number }) => listTasksOfDeletedSeries(number)),
        AFTER_ALL_POSITIONS,
        work,
        unusedReport,
      );
      const last = series.at(-1);
      if (!last || isLast) return;
      after = last.number;
    }
  }

  /**
   * Waits for uplinks in progress and removes the series of deleted sensors from the cache, so that no more readings
   * are stored in them.
   */
  private async removeFromCache(series: readonly Pick<AgingSeries, 'sensorId'>[]): Promise<void> {
    if (series.length === 0) return;
    await this.options.positions.waitUntilAllClosed();
    for (const { sensorId } of series) this.options.series.remove(sensorId);
  }

  /**
   * Deletes rows of series that no longer exist: rows whose series number is in a gap between existing numbers.
   * `seriesNumbers`: existing numbers in ascending order.
   */
  private async removeOrphanedRows(
    seriesNumbers: readonly number[],
    watermark: number,
    work: BackgroundWork,
    report: RemovalReport,
  ): Promise<void> {
    for (const [index, before] of seriesNumbers.entries()) {
      const after = seriesNumbers[index - 1];
      const hasGap = after !== undefined && before !== after + 1;
      if (!hasGap) continue;
      for (
        let orphanedSeries = await this.repository.findOrphanedSeries(after, before);
        orphanedSeries !== undefined;
        orphanedSeries = await this.repository.findOrphanedSeries(after, before)
      ) {
        await this.runTasks(listTasksOfDeletedSeries(orphanedSeries), watermark, work, report);
      }
      await work.pauseIfDue();
    }
  }

  /** Runs all tasks in small steps and adds what was deleted to the report. */
  private async runTasks(
    tasks: readonly RemovalTask[],
    watermark: number,
    work: BackgroundWork,
    report: RemovalReport,
  ): Promise<void> {
    let remaining = tasks;
    while (remaining.length > 0) {
      const step = await work.runStep(
        async (db, limit, isTimeUp) =>
          await runFirstTasks(new ReadingRemovalRepository(db), remaining, watermark, { limit, isTimeUp }),
      );
      remaining = step.remaining;
      for (const [kind, rows] of step.removed) report[REPORT_FIELDS[kind]] += rows;
      report.maxStep = Math.max(report.maxStep, step.rows);
    }
  }
}

function createEmptyReport(): RemovalReport {
  return { readings: 0, downsampled: 0, hours: 0, series: 0, maxStep: 0 };
}

/** The limits of one step. */
interface StepLimits {
  /** The maximum number of rows that it deletes. */
  readonly limit: number;
  /** Whether it must end after the current task. */
  readonly isTimeUp: () => boolean;
}

/** The result of one step. */
interface StepResult {
  readonly remaining: readonly RemovalTask[];
  /** The number of deleted rows of each task. */
  readonly removed: readonly (readonly [Kind, number])[];
  /** The number of deleted rows of all tasks. */
  readonly rows: number;
}

/** Runs the first tasks, as many as the limits allow, at least one. The last one may be done only in part. */
async function runFirstTasks(
  repository: ReadingRemovalRepository,
  tasks: readonly RemovalTask[],
  watermark: number,
  { limit, isTimeUp }: StepLimits,
): Promise<StepResult> {
  const removed: (readonly [Kind, number])[] = [];
  let rows = 0;
  for (const [index, task] of tasks.entries()) {
    const result = await runTask(repository, task, watermark, limit - rows);
    removed.push([task.kind, result.rows]);
    rows += result.rows;
    const laterTasks = tasks.slice(index + 1);
    if (result.next) return { remaining: [{ ...task, from: result.next }, ...laterTasks], removed, rows };
    // A task without rows to delete also takes time, so the number of tasks is limited too.
    const isLimitReached = rows >= limit || index + 1 >= limit;
    if (isLimitReached || isTimeUp()) return { remaining: laterTasks, removed, rows };
  }
  return { remaining: [], removed, rows };
}

/** Runs one task until it is done or `limit` rows are deleted. `watermark`: all readings up to it are on disk. */
function runTask(
  repository: ReadingRemovalRepository,
  { kind, series, before, from, maxPosition }: RemovalTask,
  watermark: number,
  limit: number,
): Promise<RemovalResult> {
  if (kind === 'readings') return repository.removeReadings(series, before, limit);
  if (kind === 'hours') return repository.removeHours(series, before, limit);
  const lastPosition = Math.min(watermark, maxPosition);
  if (kind === 'numbers') return repository.downsample(series, from, before, lastPosition, limit);
  if (kind === 'lateNumbers') return repository.downsampleLate(series, from.position, before, lastPosition, limit);
  return repository.removeSeries(series);
}

/**
 * Lists the tasks for a series by the age of its oldest rows; a task without rows to delete is omitted. Downsampling
 * deletes the numbers whose time is before `downsampledBefore`, but not yet those that were stored after
 * `downsampledBefore`: a stream may still be resumed at a position before them.
 */
function listTasks(series: AgingSeries, now: number): RemovalTask[] {
  const { number, summedUntil, downsampledUntil } = series;
  if (series.existingSensorId === null) return listTasksOfDeletedSeries(number);
  const { keptSince, downsampledBefore = 0 } = computeAgeLimits(series, now);
  const maxPosition = getFirstPosition(downsampledBefore);
  const tasks: RemovalTask[] = [];
  if (isBefore(series.oldestReading, keptSince))
    tasks.push({ kind: 'readings', series: number, before: keptSince, from: START, maxPosition });
  if (isBefore(series.oldestHour, keptSince))
    tasks.push({ kind: 'hours', series: number, before: keptSince, from: START, maxPosition });
  // Downsampling continues one hour before the end of the last run, because an interrupted run may have left numbers of
  // the last hour.
  const resumedAt = downsampledUntil - HOUR_MS;
  // Late numbers must come first, because the next task advances `downsampledUntil`, from which their search starts.
  if (isBefore(series.oldestLatePosition, maxPosition))
    tasks.push({
      kind: 'lateNumbers',
      series: number,
      before: downsampledUntil,
      from: { time: 0, position: getFirstPosition(resumedAt) }, // earlier runs have processed numbers with smaller positions
      maxPosition,
    });
  const downsampleUntil = Math.min(downsampledBefore, summedUntil);
  if (isBefore(series.oldestNotDownsampled, downsampleUntil))
    tasks.push({
      kind: 'numbers',
      series: number,
      before: downsampleUntil,
      from: { time: Math.max(0, resumedAt), position: BEFORE_ALL_POSITIONS },
      maxPosition,
    });
  return tasks;
}

/** Whether there is a row and the oldest one is before a time, or a position. */
function isBefore(oldest: number | null, end: number): boolean {
  return oldest !== null && oldest < end;
}

/** Lists the tasks that delete everything of a series. */
function listTasksOfDeletedSeries(series: number): RemovalTask[] {
  return (['readings', 'hours', 'series'] as const).map((kind) => ({
    kind,
    series,
    before: END_OF_TIME,
    from: START,
    maxPosition: AFTER_ALL_POSITIONS,
  }));
}

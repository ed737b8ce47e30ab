import { setTimeout as sleep } from 'node:timers/promises';
import type { Clock } from '../../kernel/clock';
import type { Logger } from '../../kernel/logger';
import { BackgroundWork } from './backgroundWork';
import { HourlyRollup, type RetentionOptions } from './hourlyRollup';
import { ReadingRemoval } from './readingRemoval';

/** Dependencies of ReadingMaintenance. */
interface ReadingMaintenanceOptions extends RetentionOptions {
  readonly log: Logger;
  /** The clock that decides which readings are deleted; default `clock`. */
  readonly expiryClock?: Clock;
  /** The pause between two runs, milliseconds; default one minute. */
  readonly intervalMs?: number;
}

const INTERVAL_MS = 60_000;
/** The minimum time between two removals of expired readings. */
const REMOVAL_INTERVAL_MS = 3_600_000;

/** Sums up readings by hour, and deletes expired ones, while the server runs. */
export class ReadingMaintenance {
  private readonly stopping = new AbortController();
  private readonly rollup: HourlyRollup;
  readonly removal: ReadingRemoval;
  private running: Promise<void> | undefined;
  /** The horizon of the last complete roll-up, Unix milliseconds. */
  private summedUntil = 0;
  /** When the last complete removal started, milliseconds of the monotonic clock. */
  private removedAt = -Infinity;

  constructor(private readonly options: ReadingMaintenanceOptions) {
    this.rollup = new HourlyRollup(options);
    this.removal = new ReadingRemoval({ ...options, clock: options.expiryClock ?? options.clock });
  }

  /** Starts the first run after the first interval. */
  start(): void {
    this.running ??= this.runPeriodically();
  }

  /** Stops at the next pause, within milliseconds. An interrupted run is continued after the next start. */
  async stop(): Promise<void> {
    this.stopping.abort();
    await this.running;
  }

  /**
   * Runs the due tasks; while the disk is nearly full, only the removal, which frees space. A failed task is logged,
   * does not affect the others, and is retried in the next run.
   */
  async runOnce(): Promise<void> {
    const { database, clock } = this.options;
    const work = new BackgroundWork({ database, clock, signal: this.stopping.signal });
    if (database.disk.getState() === 'ok') {
      await this.runTask('sum_up', async () => await this.sumUp(work));
      await this.runTask('redo', async () => void (await this.rollup.recomputeStale(work)));
    }
    await this.runTask('removal', async () => await this.remove(work));
  }

  /** Runs the tasks after each interval until the server stops. */
  private async runPeriodically(): Promise<void> {
    const { signal } = this.stopping;
    while (!signal.aborted) {
      // Rejects when stop() aborts the signal.
      await sleep(this.options.intervalMs ?? INTERVAL_MS, undefined, { signal, ref: false }).catch(() => {});
      if (!signal.aborted) await this.runOnce();
    }
  }

  /** Runs one task and logs its failure, unless the failure is caused by the stop. `part` is its name in the log. */
  private async runTask(part: string, task: () => Promise<void>): Promise<void> {
    const { signal } = this.stopping;
    if (signal.aborted) return;
    try {
      await task();
    } catch (error) {
      if (!signal.aborted) this.options.log.warn({ err: error, part }, 'readings.maintenance_failed');
    }
  }

  /** Sums up pending hours, at most once per hour. */
  private async sumUp(work: BackgroundWork): Promise<void> {
    const horizon = this.rollup.getHorizon();
    if (horizon <= this.summedUntil) return;
    const readingCount = await this.rollup.sumUp(work);
    this.summedUntil = horizon;
    this.options.log.debug({ readings: readingCount, until: horizon }, 'readings.downsampled');
  }

  /** Deletes expired readings, at most once per hour. */
  private async remove(work: BackgroundWork): Promise<void> {
    const { log, clock } = this.options;
    const startedAt = clock.monotonic();
    if (startedAt - this.removedAt < REMOVAL_INTERVAL_MS) return;
    const { readings, downsampled, hours, series, maxStep } = await this.removal.run(work);
    this.removedAt = startedAt;
    log.info({ readings, downsampled, hours, series, largest_step: maxStep }, 'readings.retention');
  }
}

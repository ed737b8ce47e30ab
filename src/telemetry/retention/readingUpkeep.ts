import { setTimeout as pause } from 'node:timers/promises';
import type { Logger } from '../../kernel/logger';
import { BackgroundWork } from './backgroundWork';
import { HourSummariser, type HourSummariserOptions } from './hourSummariser';
import { ReadingRemoval } from './readingRemoval';

/** What it needs. */
export interface ReadingUpkeepOptions extends HourSummariserOptions {
  readonly log: Logger;
  /** How long it rests between two turns, milliseconds; a minute where nothing is said. */
  readonly everyMs?: number;
}

const EVERY_MS = 60_000;
const REMOVAL_EVERY_MS = 3_600_000;

/** Keeps readings in shape while the server runs: sums them up by hours, and removes what is no longer kept. */
export class ReadingUpkeep {
  private readonly stopping = new AbortController();
  private readonly summariser: HourSummariser;
  private readonly removal: ReadingRemoval;
  private running: Promise<void> | undefined;
  private summedUntil = 0;
  private removedAt = -Infinity;

  constructor(private readonly options: ReadingUpkeepOptions) {
    this.summariser = new HourSummariser(options);
    this.removal = new ReadingRemoval(options);
  }

  /** Begins after the first rest. */
  start(): void {
    this.running ??= this.loop();
  }

  /** Ends at the next pause, within milliseconds; what was begun goes on at the next start. */
  async stop(): Promise<void> {
    this.stopping.abort();
    await this.running;
  }

  /** Does all that is due now. A failure is logged; the next turn tries again. */
  async turn(): Promise<void> {
    const { log, database, clock } = this.options;
    const { signal } = this.stopping;
    try {
      await this.perform(new BackgroundWork({ database, clock, signal }));
    } catch (error) {
      if (!signal.aborted) log.warn({ err: error }, 'readings.upkeep_failed');
    }
  }

  private async loop(): Promise<void> {
    const { signal } = this.stopping;
    while (!signal.aborted) {
      await pause(this.options.everyMs ?? EVERY_MS, undefined, { signal, ref: false }).catch(() => {}); // told to stop
      if (!signal.aborted) await this.turn();
    }
  }

  private async perform(work: BackgroundWork): Promise<void> {
    const { log, clock } = this.options;
    const horizon = this.summariser.horizon();
    if (horizon > this.summedUntil) {
      const readings = await this.summariser.sumUp(work);
      this.summedUntil = horizon;
      log.debug({ readings, until: horizon }, 'readings.summed_up');
    }
    await this.summariser.redo(work);
    if (clock.monotonic() - this.removedAt < REMOVAL_EVERY_MS) return;
    this.removedAt = clock.monotonic();
    const { readings, thinned, hours, series, largestStep } = await this.removal.run(work);
    log.info({ readings, thinned, hours, series, largest_step: largestStep }, 'readings.retention');
  }
}

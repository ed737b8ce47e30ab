import { setTimeout as pause } from 'node:timers/promises';
import type { Clock } from '../../kernel/clock';
import type { Logger } from '../../kernel/logger';
import { BackgroundWork } from './backgroundWork';
import { HourSummariser, type HourSummariserOptions } from './hourSummariser';
import { ReadingRemoval } from './readingRemoval';

/** What it needs. */
export interface ReadingUpkeepOptions extends HourSummariserOptions {
  readonly log: Logger;
  /** The time by which readings are removed; `clock` where nothing is said. */
  readonly forgetting?: Clock;
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
    this.removal = new ReadingRemoval({ ...options, clock: options.forgetting ?? options.clock });
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

  /** Does all that is due now. What fails is logged and holds up nothing else; the next turn tries it again. */
  async turn(): Promise<void> {
    const { database, clock } = this.options;
    const work = new BackgroundWork({ database, clock, signal: this.stopping.signal });
    if (database.disk.state() === 'ok') {
      await this.attempt('sum_up', async () => await this.sumUp(work));
      await this.attempt('redo', async () => void (await this.summariser.redo(work)));
    }
    await this.attempt('removal', async () => await this.remove(work));
  }

  /** Removes all readings of an organization that goes, whose sensors are gone. */
  async removeAllOf(organizationId: string, work: BackgroundWork): Promise<void> {
    await this.removal.removeAllOf(organizationId, work);
  }

  private async loop(): Promise<void> {
    const { signal } = this.stopping;
    while (!signal.aborted) {
      await pause(this.options.everyMs ?? EVERY_MS, undefined, { signal, ref: false }).catch(() => {}); // told to stop
      if (!signal.aborted) await this.turn();
    }
  }

  private async attempt(part: string, run: () => Promise<void>): Promise<void> {
    const { signal } = this.stopping;
    if (signal.aborted) return;
    try {
      await run();
    } catch (error) {
      if (!signal.aborted) this.options.log.warn({ err: error, part }, 'readings.upkeep_failed');
    }
  }

  private async sumUp(work: BackgroundWork): Promise<void> {
    const horizon = this.summariser.horizon();
    if (horizon <= this.summedUntil) return;
    const readings = await this.summariser.sumUp(work);
    this.summedUntil = horizon;
    this.options.log.debug({ readings, until: horizon }, 'readings.summed_up');
  }

  private async remove(work: BackgroundWork): Promise<void> {
    const { log, clock } = this.options;
    const began = clock.monotonic();
    if (began - this.removedAt < REMOVAL_EVERY_MS) return;
    const { readings, thinned, hours, series, largestStep } = await this.removal.run(work);
    this.removedAt = began;
    log.info({ readings, thinned, hours, series, largest_step: largestStep }, 'readings.retention');
  }
}

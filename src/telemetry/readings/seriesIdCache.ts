import { evictOldest } from '../../kernel/evictOldest';
import type { Series, SeriesRepository } from './seriesRepository';

const MAX_CACHED_SERIES = 200_000;

/**
 * Caches the series (the numbers under which readings are stored) of sensors that sent readings recently. A series also
 * says up to which time its hours are summed up (`summedUntil`): a new reading before it marks its hour as stale, so
 * that the hour is summed up again.
 */
export class SeriesIdCache {
  // Ordered by load: the series that was loaded first is evicted first.
  private readonly cache = new Map<string, Series>();
  /**
   * For the sensors with a roll-up in progress: the time up to which it sums up. The database contains it only when the
   * roll-up is stored, but readings that arrive before that must mark their hours as stale already.
   */
  private readonly announcedSummedUntilBySensor = new Map<string, number>();
  /**
   * Counts the calls of beginRollup, endRollup and remove: series that were read before such a call may be outdated.
   */
  private invalidationCount = 0;

  /** `maxSeries`: the maximum number of cached series. */
  constructor(private readonly maxSeries = MAX_CACHED_SERIES) {}

  /**
   * Returns the series of these sensors by sensor id, and creates missing ones. Must run in the transaction that stores
   * their readings, after a position was opened (ReadingSequence.open), so that no roll-up misses these readings.
   */
  async get(
    repository: SeriesRepository,
    organizationId: string,
    sensorIds: readonly string[],
  ): Promise<ReadonlyMap<string, Series>> {
    const seriesBySensor = new Map<string, Series>();
    const missing: string[] = [];
    for (const sensorId of sensorIds) {
      const cached = this.cache.get(sensorId);
      if (cached) seriesBySensor.set(sensorId, cached);
      else missing.push(sensorId);
    }
    if (missing.length > 0) await this.load(repository, organizationId, missing, seriesBySensor);
    return seriesBySensor;
  }

  /**
   * Announces a roll-up of the hours before `summedUntil`: from now on, readings in these hours mark them as stale. The
   * caller must then wait for ReadingSequence.waitUntilAllClosed before it reads, and must call `endRollup` at the end.
   */
  beginRollup(sensorId: string, summedUntil: number): void {
    this.invalidationCount += 1;
    const announced = this.announcedSummedUntilBySensor.get(sensorId) ?? 0;
    this.announcedSummedUntilBySensor.set(sensorId, Math.max(summedUntil, announced));
    const cached = this.cache.get(sensorId);
    if (cached) this.cache.set(sensorId, { ...cached, summedUntil: Math.max(cached.summedUntil, summedUntil) });
  }

  /** Ends the roll-up that `beginRollup` announced: it is on disk or failed. */
  endRollup(sensorId: string): void {
    this.invalidationCount += 1;
    this.announcedSummedUntilBySensor.delete(sensorId);
  }

  /** Removes the series of a deleted sensor. */
  remove(sensorId: string): void {
    this.invalidationCount += 1;
    this.cache.delete(sensorId);
  }

  /**
   * Loads or creates series, adds them to `seriesBySensor`, and caches them after the commit. A series whose roll-up is
   * in progress gets the time that the roll-up announced, which may be later than the stored one.
   */
  private async load(
    repository: SeriesRepository,
    organizationId: string,
    sensorIds: readonly string[],
    seriesBySensor: Map<string, Series>,
  ): Promise<void> {
    const invalidationCountBefore = this.invalidationCount;
    const rows = await repository.findOrCreate(organizationId, sensorIds);
    const loaded = rows.map((row) => ({
      ...row,
      summedUntil: Math.max(row.summedUntil, this.announcedSummedUntilBySensor.get(row.sensorId) ?? 0),
    }));
    for (const series of loaded) seriesBySensor.set(series.sensorId, series);
    repository.afterCommit(() => {
      const hasBeenInvalidated = this.invalidationCount !== invalidationCountBefore;
      if (hasBeenInvalidated) return;
      for (const series of loaded) {
        evictOldest(this.cache, this.maxSeries);
        this.cache.set(series.sensorId, series);
      }
    });
  }
}

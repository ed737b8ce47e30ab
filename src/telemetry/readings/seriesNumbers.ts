import type { Series, SeriesRepository } from './seriesRepository';

const MOST = 200_000;

/** The series of sensors that sent something not long ago. */
export class SeriesNumbers {
  // The one that was read first is the first.
  private readonly known = new Map<string, Series>();
  private readonly raised = new Map<string, number>();
  private changes = 0;

  /** Keeps `most` of them; the others are read again. */
  constructor(private readonly most = MOST) {}

  /**
   * The series of these sensors, by sensor; one that has none gets one. Inside the transaction that stores readings of them, which has a
   * position open (ReadingPositions), so that no summary misses them.
   */
  async of(series: SeriesRepository, organizationId: string, sensorIds: readonly string[]): Promise<ReadonlyMap<string, Series>> {
    const found = new Map<string, Series>();
    const missing: string[] = [];
    for (const sensorId of sensorIds) {
      const known = this.known.get(sensorId);
      if (known) found.set(sensorId, known);
      else missing.push(sensorId);
    }
    if (missing.length > 0) await this.load(series, organizationId, missing, found);
    return found;
  }

  /**
   * The hours before `summedUntil` are about to be summed up: from now on their readings make them stale. Whoever sums them waits until what
   * is being stored now has settled (ReadingPositions.settled) before reading, and calls `summed` at the end.
   */
  raise(sensorId: string, summedUntil: number): void {
    this.changes += 1;
    this.raised.set(sensorId, Math.max(summedUntil, this.raised.get(sensorId) ?? 0));
    const known = this.known.get(sensorId);
    if (known) this.known.set(sensorId, { ...known, summedUntil: Math.max(known.summedUntil, summedUntil) });
  }

  /** The summary that `raise` began is on disk, or has failed. */
  summed(sensorId: string): void {
    this.changes += 1;
    this.raised.delete(sensorId);
  }

  /** The series is about to be deleted, or was. */
  forget(sensorId: string): void {
    this.changes += 1;
    this.known.delete(sensorId);
  }

  private async load(series: SeriesRepository, organizationId: string, sensorIds: readonly string[], found: Map<string, Series>): Promise<void> {
    const { changes } = this;
    const rows = await series.findOrCreate(organizationId, sensorIds);
    const loaded = rows.map((row) => ({ ...row, summedUntil: Math.max(row.summedUntil, this.raised.get(row.sensorId) ?? 0) }));
    for (const one of loaded) found.set(one.sensorId, one);
    series.afterCommit(() => {
      // What was read before a change may be older than the change.
      if (this.changes === changes) for (const one of loaded) this.keep(one);
    });
  }

  private keep(series: Series): void {
    this.known.set(series.sensorId, series);
    if (this.known.size <= this.most) return;
    const [oldest] = this.known.keys();
    if (oldest !== undefined) this.known.delete(oldest);
  }
}

import fc from 'fast-check';
import type { Db } from '../../src/database';
import { toHour } from '../../src/telemetry/readings/hourSummary';
import { ReadingRepository } from '../../src/telemetry/readings/readingRepository';
import { SeriesRepository } from '../../src/telemetry/readings/seriesRepository';
import { addLateNumbers, summarize, type TimedNumber } from '../../src/telemetry/retention/lateArrivals';
import { ReadingMaintenance } from '../../src/telemetry';
import { engines } from '../support/engines';
import { DAY, ENDED, HOUR, startRetentionFixture, type RetentionFixture } from './retentionFixture';
import { HOUR_MS } from '../../src/kernel/timeUnits';

const SEED = 20_261_121;

describe.each(engines())('hour summaries of readings on $name', (engine) => {
  let fixture: RetentionFixture;
  let now: number;
  let hour: number;
  beforeEach(async () => {
    fixture = await startRetentionFixture(engine);
    now = fixture.devices.clock.now();
    hour = toHour(now);
  });
  afterEach(async () => await fixture.stop());

  it('are written more than ten minutes after the hour ended', async () => {
    const [a, b, c] = fixture.sensors;
    await fixture.uplink(hour - 2 * HOUR + 1000, { a: 5, c: 'text' });
    await fixture.uplink(hour - 2 * HOUR + 5000, { a: 7, b: 1.5 });
    await fixture.uplink(hour - HOUR, { a: -2 });
    await fixture.uplink(hour + 1000, { a: 9 });
    fixture.devices.clock.advance(hour + 10 * 60_000 - 1 - now); // The last hour ended just under ten minutes ago.
    await fixture.sumUp();
    const before = {
      hour: hour - 2 * HOUR,
      count: 2,
      sum: 12,
      min: 5,
      max: 7,
      firstTime: hour - 2 * HOUR + 1000,
      first: 5,
      lastTime: hour - 2 * HOUR + 5000,
      last: 7,
      area: 20_000,
    };
    expect(await fixture.hours(a)).toEqual([before]);
    expect(await fixture.hours(b)).toMatchObject([{ hour: hour - 2 * HOUR, count: 1, sum: 1.5, area: 0 }]);
    expect(await fixture.hours(c)).toEqual([]);
    fixture.devices.clock.advance(1);
    await fixture.sumUp();
    expect(await fixture.hours(a)).toEqual([
      before,
      {
        hour: hour - HOUR,
        count: 1,
        sum: -2,
        min: -2,
        max: -2,
        firstTime: hour - HOUR,
        first: -2,
        lastTime: hour - HOUR,
        last: -2,
        area: 0,
      },
    ]);
    fixture.devices.clock.advance(HOUR);
    await fixture.sumUp();
    expect(await fixture.hours(a)).toHaveLength(3);
    expect(await fixture.count('stale_hours')).toBe(0);
  });

  it('are written again when a reading arrives late', async () => {
    const [a] = fixture.sensors;
    for (const [at, value] of [
      [1, 10],
      [3, 30],
    ] as const)
      await fixture.uplink(hour - 5 * HOUR + at, { a: value });
    await fixture.sumUp();
    await fixture.uplink(hour - 5 * HOUR + 2, { a: 1000 });
    await fixture.uplink(hour - 7 * HOUR, { a: 1 });
    expect(await fixture.count('stale_hours')).toBe(2);
    await fixture.sumUp();
    expect(await fixture.hours(a)).toMatchObject([
      { hour: hour - 7 * HOUR, count: 1, sum: 1 },
      { hour: hour - 5 * HOUR, count: 3, sum: 1040, max: 1000, first: 10, last: 30, area: 1010 },
    ]);
    expect(await fixture.count('stale_hours')).toBe(0);
  });

  it('wait for every reading that was in progress before they started, and include every later one', async () => {
    const [a] = fixture.sensors;
    await fixture.uplink(hour - 3 * HOUR, { a: 1 });
    const { database } = fixture.devices.test;
    // An uplink is in progress: it has a position and its series, and no summary includes it yet.
    const position = fixture.positions.open('org-1');
    const series = await database.transaction(
      async (db: Db) => await fixture.series.get(new SeriesRepository(db), 'org-1', [a]),
    );
    const summing = fixture.sumUp();
    await database.transaction(async (db: Db) => {
      const reading = { sensorId: a, valueType: 'number', value: 2, time: hour - 3 * HOUR + 1, position } as const;
      await new ReadingRepository(db).store([
        { series: series.get(a) ?? { sensorId: a, number: 0, summedUntil: 0 }, reading },
      ]);
    });
    await fixture.uplink(hour - 3 * HOUR + 2, { a: 3 }); // This uplink starts after the summary did.
    expect(await fixture.hours(a)).toEqual([]);
    fixture.positions.close('org-1', position);
    await summing;
    await fixture.sumUp();
    expect(await fixture.hours(a)).toMatchObject([{ count: 3, sum: 6 }]);
  });

  it('of thousands of readings are written in batches and continue where they were aborted', async () => {
    const [a] = fixture.sensors;
    await fixture.uplink(hour - 2 * HOUR, { a: 0 });
    const { knex } = fixture.devices.test.database.db;
    const [row] = await knex('readings').select<{ series: number }[]>('series');
    const rows = Array.from({ length: 5000 }, (_, at) => ({
      series: row?.series,
      time: hour - 400 * HOUR + at * 240_000,
      position: at,
      kind: 1,
      num: at,
      txt: null,
    }));
    for (let at = 0; at < rows.length; at += 500) await knex('readings').insert(rows.slice(at, at + 500));
    // Each page and each step counts.
    await expect(fixture.summariser.sumUp(fixture.work(100, 4))).rejects.toThrow(ENDED);
    const part = await fixture.count('reading_hours');
    expect(part).toBeLessThan(335);
    await fixture.sumUp();
    const hours = await fixture.hours(a);
    expect(hours).toHaveLength(335);
    expect(hours.every((one, at) => at === 334 || at === 333 || one.count === 15)).toBe(true);
    expect(hours.reduce((sum, one) => sum + one.count, 0)).toBe(5001);
  });

  it(`match a naive count of readings that are late, parallel or repeated (seed ${SEED})`, async () => {
    const [a] = fixture.sensors;
    const samplesByTime = new Map<number, number>();
    const step = fc.record({
      uplinks: fc.array(
        fc.record({ ago: fc.integer({ min: 1, max: 40 * 60 }), value: fc.integer({ min: -50, max: 50 }) }),
        { maxLength: 12 },
      ),
      advance: fc.constantFrom(0, 60_000, HOUR / 2, HOUR, 3 * HOUR),
      during: fc.boolean(),
    });
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 1, maxLength: 6 }), async (steps) => {
        for (const { uplinks, advance, during } of steps) {
          fixture.devices.clock.advance(advance + 1);
          const sent = uplinks.map(async ({ ago, value }, at) => {
            const time = fixture.devices.clock.now() - ago * 60_000 - at;
            if (samplesByTime.has(time)) return;
            samplesByTime.set(time, value);
            await fixture.uplink(time, { a: value });
          });
          if (during) await fixture.maintenance.runOnce();
          await Promise.all(sent);
        }
        fixture.devices.clock.advance(HOUR);
        await fixture.maintenance.runOnce();
        const horizon = fixture.summariser.getHorizon();
        const all = [...samplesByTime]
          .map(([time, num]) => ({ time, num }))
          .toSorted((one, other) => one.time - other.time);
        const byHour = Map.groupBy(
          all.filter(({ time }) => time < horizon),
          ({ time }) => toHour(time),
        );
        expect(await fixture.hours(a)).toEqual(
          [...byHour].map(([of, numbers]) => ({ hour: of, ...summarize(numbers) })),
        );
        expect(await fixture.count('stale_hours')).toBe(0);
      }),
      { seed: SEED, numRuns: 12, endOnFailure: true },
    );
    expect(fixture.devices.log.of('readings.maintenance_failed')).toEqual([]);
  });

  it('are retried after a failure, and the failure is logged', async () => {
    await fixture.uplink(hour - 2 * HOUR, { a: 1 });
    const { knex } = fixture.devices.test.database.db;
    fixture.devices.clock.advance(DAY);
    await knex.schema.renameTable('stale_hours', 'elsewhere');
    await fixture.maintenance.runOnce();
    const failed = (): unknown[] => fixture.devices.log.of('readings.maintenance_failed').map(({ part }) => part);
    expect(failed()).toEqual(['redo', 'removal']);
    await knex.schema.renameTable('elsewhere', 'stale_hours');
    await fixture.maintenance.runOnce();
    expect(failed()).toHaveLength(2);
    expect(await fixture.hours(fixture.sensors[0])).toHaveLength(1);
  });

  it('end cleanly when the server stops', async () => {
    await fixture.uplink(hour - 2 * HOUR, { a: 1 });
    const { clock, log, test } = fixture.devices;
    const upkeep = new ReadingMaintenance({
      database: test.database,
      clock,
      log,
      positions: fixture.positions,
      series: fixture.series,
      intervalMs: 1,
    });
    upkeep.start();
    await log.until('readings.retention');
    await upkeep.stop();
    await upkeep.stop();
    expect(await fixture.hours(fixture.sensors[0])).toHaveLength(1);
    await fixture.uplink(hour - 3 * HOUR, { a: 1 });
    expect(await fixture.count('stale_hours')).toBe(1);
    fixture.maintenance.start(); // The maintenance waits a minute first.
    await fixture.maintenance.stop();
    expect(log.of('readings.maintenance_failed')).toEqual([]);
  });
});

describe(`late numbers of a downsampled hour (seed ${SEED})`, () => {
  const numbers = fc.array(fc.record({ time: fc.integer({ min: 0, max: 60 }), num: fc.integer({ min: -9, max: 9 }) }), {
    maxLength: 12,
  });

  it('count as if they had been stored from the start, except for the area between other readings', () => {
    fc.assert(
      fc.property(numbers, numbers, (early, late) => {
        const before = summarize(sorted(early));
        const merged = addLateNumbers(before, sorted(late));
        const whole = summarize(sorted([...early, ...late]));
        const isOutside = late.every(({ time }) => !before || time < before.firstTime || time >= before.lastTime);
        expect({ ...merged, area: isOutside ? merged?.area : undefined }).toEqual({
          ...whole,
          area: isOutside ? whole?.area : undefined,
        });
      }),
      { seed: SEED, numRuns: 500 },
    );
  });

  it('do not modify the summary that they are added to', () => {
    const summary = Object.freeze(summarize([{ time: HOUR_MS, num: 1 }]));
    expect(addLateNumbers(summary, [])).toEqual(summary);
    expect(addLateNumbers(undefined, [])).toBeUndefined();
  });
});

function sorted(list: readonly TimedNumber[]): TimedNumber[] {
  return list.toSorted((one, other) => one.time - other.time);
}

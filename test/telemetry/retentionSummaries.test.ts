import fc from 'fast-check';
import type { Db } from '../../src/database';
import { HOUR_MS, hourOf } from '../../src/telemetry/readings/hourSummary';
import { ReadingRepository } from '../../src/telemetry/readings/readingRepository';
import { SeriesRepository } from '../../src/telemetry/readings/seriesRepository';
import { withLate, summaryOfAll, type TimedNumber } from '../../src/telemetry/retention/lateReadings';
import { ReadingUpkeep } from '../../src/telemetry';
import { engines } from '../support/engines';
import { DAY, ENDED, HOUR, startRetentionRoom, type RetentionRoom } from './retentionRoom';

const SEED = 20_261_121;

describe.each(engines())('the hours of readings on $name', (engine) => {
  let room: RetentionRoom;
  let now: number;
  let hour: number;
  beforeEach(async () => {
    room = await startRetentionRoom(engine);
    now = room.devices.clock.now();
    hour = hourOf(now);
  });
  afterEach(async () => await room.stop());

  it('are summed up once they ended more than ten minutes ago', async () => {
    const [a, b, c] = room.sensors;
    await room.uplink(hour - 2 * HOUR + 1000, { a: 5, c: 'text' });
    await room.uplink(hour - 2 * HOUR + 5000, { a: 7, b: 1.5 });
    await room.uplink(hour - HOUR, { a: -2 });
    await room.uplink(hour + 1000, { a: 9 });
    room.devices.clock.advance(hour + 10 * 60_000 - 1 - now); // the last hour ended not quite ten minutes ago
    await room.sumUp();
    const before = { hour: hour - 2 * HOUR, count: 2, sum: 12, min: 5, max: 7, firstTime: hour - 2 * HOUR + 1000, first: 5, lastTime: hour - 2 * HOUR + 5000, last: 7, area: 20_000 };
    expect(await room.hours(a)).toEqual([before]);
    expect(await room.hours(b)).toMatchObject([{ hour: hour - 2 * HOUR, count: 1, sum: 1.5, area: 0 }]);
    expect(await room.hours(c)).toEqual([]);
    room.devices.clock.advance(1);
    await room.sumUp();
    expect(await room.hours(a)).toEqual([before, { hour: hour - HOUR, count: 1, sum: -2, min: -2, max: -2, firstTime: hour - HOUR, first: -2, lastTime: hour - HOUR, last: -2, area: 0 }]);
    room.devices.clock.advance(HOUR);
    await room.sumUp();
    expect(await room.hours(a)).toHaveLength(3);
    expect(await room.count('stale_hours')).toBe(0);
  });

  it('are summed up anew when a reading comes late', async () => {
    const [a] = room.sensors;
    for (const [at, value] of [[1, 10], [3, 30]] as const) await room.uplink(hour - 5 * HOUR + at, { a: value });
    await room.sumUp();
    await room.uplink(hour - 5 * HOUR + 2, { a: 1000 });
    await room.uplink(hour - 7 * HOUR, { a: 1 });
    expect(await room.count('stale_hours')).toBe(2);
    await room.sumUp();
    expect(await room.hours(a)).toMatchObject([{ hour: hour - 7 * HOUR, count: 1, sum: 1 }, { hour: hour - 5 * HOUR, count: 3, sum: 1040, max: 1000, first: 10, last: 30, area: 1010 }]);
    expect(await room.count('stale_hours')).toBe(0);
  });

  it('are not read before a reading is on disk whose way began before, and know of every later one', async () => {
    const [a] = room.sensors;
    await room.uplink(hour - 3 * HOUR, { a: 1 });
    const { database } = room.devices.test;
    // An uplink on its way: it has a position and its series, and no summary yet knows of it.
    const position = room.positions.open('org-1');
    const series = await database.transaction(async (db: Db) => await room.series.of(new SeriesRepository(db), 'org-1', [a]));
    const summing = room.sumUp();
    await database.transaction(async (db: Db) => {
      const reading = { sensorId: a, valueType: 'number', value: 2, time: hour - 3 * HOUR + 1, position } as const;
      await new ReadingRepository(db).store([{ series: series.get(a) ?? { sensorId: a, number: 0, summedUntil: 0 }, reading }]);
    });
    await room.uplink(hour - 3 * HOUR + 2, { a: 3 }); // begins after the summary did
    expect(await room.hours(a)).toEqual([]);
    room.positions.close('org-1', position);
    await summing;
    await room.sumUp();
    expect(await room.hours(a)).toMatchObject([{ count: 3, sum: 6 }]);
  });

  it('of thousands of readings are summed up in portions, and go on where they were ended', async () => {
    const [a] = room.sensors;
    await room.uplink(hour - 2 * HOUR, { a: 0 });
    const { knex } = room.devices.test.database.db;
    const [row] = await knex('readings').select<{ series: number }[]>('series');
    const rows = Array.from({ length: 5000 }, (_, at) => ({ series: row?.series, time: hour - 400 * HOUR + at * 240_000, position: at, kind: 1, num: at, txt: null }));
    for (let at = 0; at < rows.length; at += 500) await knex('readings').insert(rows.slice(at, at + 500));
    await expect(room.summariser.sumUp(room.work(100, 4))).rejects.toThrow(ENDED); // each page and each step counts
    const part = await room.count('reading_hours');
    expect(part).toBeLessThan(335);
    await room.sumUp();
    const hours = await room.hours(a);
    expect(hours).toHaveLength(335);
    expect(hours.every((one, at) => at === 334 || at === 333 || one.count === 15)).toBe(true);
    expect(hours.reduce((sum, one) => sum + one.count, 0)).toBe(5001);
  });

  it(`are what counting one by one says, whatever comes late, at once, or twice (seed ${SEED})`, async () => {
    const [a] = room.sensors;
    const taken = new Map<number, number>();
    const step = fc.record({
      uplinks: fc.array(fc.record({ ago: fc.integer({ min: 1, max: 40 * 60 }), value: fc.integer({ min: -50, max: 50 }) }), { maxLength: 12 }),
      advance: fc.constantFrom(0, 60_000, HOUR / 2, HOUR, 3 * HOUR),
      during: fc.boolean(),
    });
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 1, maxLength: 6 }), async (steps) => {
        for (const { uplinks, advance, during } of steps) {
          room.devices.clock.advance(advance + 1);
          const sent = uplinks.map(async ({ ago, value }, at) => {
            const time = room.devices.clock.now() - ago * 60_000 - at;
            if (taken.has(time)) return;
            taken.set(time, value);
            await room.uplink(time, { a: value });
          });
          if (during) await room.upkeep.turn();
          await Promise.all(sent);
        }
        room.devices.clock.advance(HOUR);
        await room.upkeep.turn();
        const horizon = room.summariser.horizon();
        const all = [...taken].map(([time, num]) => ({ time, num })).toSorted((one, other) => one.time - other.time);
        const byHour = Map.groupBy(all.filter(({ time }) => time < horizon), ({ time }) => hourOf(time));
        expect(await room.hours(a)).toEqual([...byHour].map(([of, numbers]) => ({ hour: of, ...summaryOfAll(numbers) })));
        expect(await room.count('stale_hours')).toBe(0);
      }),
      { seed: SEED, numRuns: 12, endOnFailure: true },
    );
    expect(room.devices.log.of('readings.upkeep_failed')).toEqual([]);
  });

  it('are tried again when it failed, and the failure is told', async () => {
    await room.uplink(hour - 2 * HOUR, { a: 1 });
    const { knex } = room.devices.test.database.db;
    room.devices.clock.advance(DAY);
    await knex.schema.renameTable('stale_hours', 'elsewhere');
    await room.upkeep.turn();
    const failed = (): unknown[] => room.devices.log.of('readings.upkeep_failed').map(({ part }) => part);
    expect(failed()).toEqual(['redo', 'removal']);
    await knex.schema.renameTable('elsewhere', 'stale_hours');
    await room.upkeep.turn();
    expect(failed()).toHaveLength(2);
    expect(await room.hours(room.sensors[0])).toHaveLength(1);
  });

  it('end in peace when the server stops', async () => {
    await room.uplink(hour - 2 * HOUR, { a: 1 });
    const { clock, log, test } = room.devices;
    const upkeep = new ReadingUpkeep({ database: test.database, clock, log, positions: room.positions, series: room.series, everyMs: 1 });
    upkeep.start();
    await log.until('readings.retention');
    await upkeep.stop();
    await upkeep.stop();
    expect(await room.hours(room.sensors[0])).toHaveLength(1);
    await room.uplink(hour - 3 * HOUR, { a: 1 });
    expect(await room.count('stale_hours')).toBe(1);
    room.upkeep.start(); // rests a minute first
    await room.upkeep.stop();
    expect(log.of('readings.upkeep_failed')).toEqual([]);
  });
});

describe(`late numbers of a thinned hour (seed ${SEED})`, () => {
  const numbers = fc.array(fc.record({ time: fc.integer({ min: 0, max: 60 }), num: fc.integer({ min: -9, max: 9 }) }), { maxLength: 12 });

  it('count as if they had been there from the start, but for the area between others', () => {
    fc.assert(
      fc.property(numbers, numbers, (early, late) => {
        const before = summaryOfAll(sorted(early));
        const merged = withLate(before, sorted(late));
        const whole = summaryOfAll(sorted([...early, ...late]));
        const isOutside = late.every(({ time }) => !before || time < before.firstTime || time >= before.lastTime);
        expect({ ...merged, area: isOutside ? merged?.area : undefined }).toEqual({ ...whole, area: isOutside ? whole?.area : undefined });
      }),
      { seed: SEED, numRuns: 500 },
    );
  });

  it('leave the summary that they are added to as it was', () => {
    const summary = Object.freeze(summaryOfAll([{ time: HOUR_MS, num: 1 }]));
    expect(withLate(summary, [])).toEqual(summary);
    expect(withLate(undefined, [])).toBeUndefined();
  });
});

function sorted(list: readonly TimedNumber[]): TimedNumber[] {
  return list.toSorted((one, other) => one.time - other.time);
}

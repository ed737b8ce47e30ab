import fc from 'fast-check';
import type { Database, HotStatement } from '../../src/database';
import { hourOf } from '../../src/telemetry/readings/hourSummary';
import { Cursors } from '../../src/kernel/pages';
import { ReadingUpkeep, RetentionTimes, SensorQueries } from '../../src/telemetry';
import { BackgroundWork } from '../../src/telemetry/retention/backgroundWork';
import { hourSummaryStatements } from '../../src/telemetry/retention/hourSummaryRepository';
import { summaryOfAll } from '../../src/telemetry/retention/lateReadings';
import { readingRemovalStatements } from '../../src/telemetry/retention/readingRemovalRepository';
import { engines } from '../support/engines';
import { DAY, ENDED, HOUR, startRetentionRoom, type RetentionRoom } from './retentionRoom';

const SEED = 20_261_122;

describe.each(engines())('the retention of readings on $name', (engine) => {
  let room: RetentionRoom;
  let hour: number;
  beforeEach(async () => {
    room = await startRetentionRoom(engine);
    hour = hourOf(room.devices.clock.now());
  });
  afterEach(async () => await room.stop());

  const times = async (sensorId: string): Promise<number[]> => (await room.readings(sensorId)).map(({ time }) => time);

  it('removes readings and hours that are older than the organization keeps them, in whole hours', async () => {
    const [a, b, c] = room.sensors;
    const edge = hour - 30 * DAY;
    for (const time of [edge - 90 * DAY, edge - HOUR, edge - 1, edge, edge + HOUR]) await room.uplink(time, { a: 1, c: 'text' });
    await room.uplink(edge + DAY, { b: 1 });
    await room.sumUp();
    expect(await room.removal.run(room.work())).toMatchObject({ readings: 0, thinned: 0, hours: 0, series: 0 }); // a year is kept
    await room.retain(30, null);
    expect(await room.removal.run(room.work())).toMatchObject({ readings: 6, thinned: 0, hours: 2, series: 0 });
    expect([await times(a), await times(b), await times(c)]).toEqual([[edge, edge + HOUR], [edge + DAY], [edge, edge + HOUR]]);
    expect((await room.hours(a)).map((one) => one.hour)).toEqual([edge, edge + HOUR]);
    room.devices.clock.advance(HOUR);
    expect(await room.removal.run(room.work())).toMatchObject({ readings: 2, hours: 1 });
    expect(await room.removal.run(room.work())).toMatchObject({ readings: 0, thinned: 0, hours: 0, series: 0, largestStep: 0 });
  });

  it('tells how far back readings go', async () => {
    const { database } = room.devices.test;
    const { clock } = room.devices;
    const of = new RetentionTimes({ database, clock });
    expect(await of.of('org-1')).toEqual({ keptSince: hour - 365 * DAY, thinnedBefore: undefined });
    await room.retain(30, 7);
    expect(await of.of('org-1')).toEqual({ keptSince: hour - 30 * DAY, thinnedBefore: hour - 7 * DAY });
    expect(await of.of('org-2')).toEqual({ keptSince: hour - 365 * DAY, thinnedBefore: undefined });
    expect((await of.of('nobody')).keptSince).toBe(hour);
  });

  it('removes no more rows in one step than it may, even where all have the same time', async () => {
    const { knex } = room.devices.test.database.db;
    await room.uplink(hour - 20 * DAY, { a: 1 });
    const [row] = await knex('readings').select<{ series: number }[]>('series');
    const rows = Array.from({ length: 400 }, (_, at) => ({ series: row?.series, time: hour - 20 * DAY, position: at + 1, kind: 1, num: at, txt: null }));
    await knex('readings').insert(rows);
    await room.retain(10, null);
    expect(await room.removal.run(room.work(25))).toMatchObject({ readings: 401, largestStep: 25 });
    expect(await room.count('readings')).toBe(0);
  });

  it('thins numbers to their hours, and leaves texts, hours that are not summed up, and stale ones', async () => {
    const [a, , c] = room.sensors;
    const old = hour - 10 * DAY;
    for (let at = 0; at < 50; at += 1) await room.uplink(old + at * (HOUR / 10), { a: at, c: `text ${at}` });
    await room.sumUp();
    const before = await room.hours(a);
    await room.retain(365, 7);
    await room.age(9);
    await room.uplink(old + 2 * HOUR + 1, { a: 500 }); // makes the third hour stale
    expect(await room.removal.run(room.work(7))).toMatchObject({ readings: 0, thinned: 20, hours: 0, largestStep: 7 });
    await room.sumUp();
    expect(await room.removal.run(room.work(7))).toMatchObject({ thinned: 30 });
    expect(await room.readings(a)).toMatchObject([{ num: 500 }]); // came just now
    expect(await room.readings(c)).toHaveLength(50);
    const after = await room.hours(a);
    expect(after.map((one) => one.count)).toEqual([10, 10, 11, 10, 10]);
    expect(after.filter((one) => one.count === 10)).toEqual(before.filter((_, at) => at !== 2));
    expect(after[2]).toMatchObject({ max: 500, count: 11 });
    await room.uplink(old - HOUR, { a: 3 }); // an hour that nobody has summed up
    expect(await room.removal.run(room.work())).toMatchObject({ thinned: 0 });
  });

  it('shows the same in buckets of whole hours before and after thinning, with what came late', async () => {
    const [a] = room.sensors;
    const { clock, test } = room.devices;
    const queries = new SensorQueries({ database: test.database, cursors: new Cursors(Buffer.alloc(32)), clock, positions: room.positions });
    const ask = async (unit: 'hour' | 'day') => {
      const query = { sensorIds: [a], from: hour - 12 * DAY, to: hour, bucket: { unit, count: 1 }, timeZone: 'Asia/Tokyo', functions: [], fill: 'none', pageToken: '' } as const;
      const page = await queries.aggregates.query('org-1', query, new AbortController().signal);
      return page.sensors.map(({ buckets }) => buckets);
    };
    for (let at = 0; at < 60; at += 1) await room.uplink(hour - 10 * DAY + at * (HOUR / 7), { a: at % 13 });
    await room.sumUp();
    const before = [await ask('hour'), await ask('day')];
    await room.retain(365, 7);
    await room.age(9);
    expect(await room.removal.run(room.work(5))).toMatchObject({ thinned: 60 });
    expect([await ask('hour'), await ask('day')]).toEqual(before);
    await room.uplink(hour - 10 * DAY - 1, { a: 100 });
    await room.sumUp();
    await room.removal.run(room.work());
    const { values } = (await ask('hour'))[0]?.find(({ start }) => start === hour - 10 * DAY - HOUR) ?? {};
    expect(values).toMatchObject({ count: 1, max: 100 });
  });

  it('adds what comes late to an hour that is thinned, of whatever number, and thins that as well', async () => {
    const [a] = room.sensors;
    const old = hour - 10 * DAY;
    for (const [at, value] of [[10, 4], [20, 6]] as const) await room.uplink(old + at, { a: value });
    await room.sumUp();
    await room.age(9);
    await room.retain(365, 7);
    expect(await room.removal.run(room.work())).toMatchObject({ thinned: 2 });
    for (let at = 0; at < 30; at += 1) await room.uplink(old + at, { a: at });
    await room.uplink(old + 20, { a: 99 }); // the last of two with one time
    await room.summariser.redo(room.work(8));
    expect(await room.hours(a)).toMatchObject([{ count: 33, sum: 10 + 435 + 99, min: 0, max: 99, firstTime: old, first: 0, lastTime: old + 29, last: 29 }]);
    expect(await room.count('stale_hours')).toBe(0);
    // Who resumes a stream finds them until they have been here for as long as others.
    expect(await room.removal.run(room.work())).toMatchObject({ thinned: 0 });
    expect(await room.readings(a)).toHaveLength(31);
    for (const days of [3, 3]) {
      room.devices.clock.advance(days * DAY);
      expect(await room.removal.run(room.work())).toMatchObject({ thinned: 0 });
    }
    room.devices.clock.advance(DAY + HOUR);
    expect(await room.removal.run(room.work(8))).toMatchObject({ thinned: 31, largestStep: 8 });
    expect(await room.readings(a)).toEqual([]);
    expect(await room.hours(a)).toMatchObject([{ count: 33, last: 29 }]);
    // An organization that no longer thins keeps what it has.
    await room.retain(365, null);
    await room.uplink(old + 40, { a: 1 });
    await room.sumUp();
    expect(await room.hours(a)).toMatchObject([{ count: 34, last: 1 }]);
  });

  it('takes away nothing by a clock of the machine that is not believed', async () => {
    const { clock, test, log } = room.devices;
    const forgetting = { now: () => hour, monotonic: () => clock.monotonic() };
    const upkeep = new ReadingUpkeep({ database: test.database, clock, forgetting, positions: room.positions, series: room.series, log });
    await room.retain(365, null);
    await room.uplink(hour - 10 * DAY, { a: 1 });
    clock.advance(3650 * DAY);
    await upkeep.turn();
    expect(await room.readings(room.sensors[0])).toHaveLength(1);
    await room.upkeep.turn();
    expect(await room.readings(room.sensors[0])).toEqual([]);
  });

  it('takes away nothing that came late before whoever resumes a stream has seen it', async () => {
    const { clock, test } = room.devices;
    const queries = new SensorQueries({ database: test.database, cursors: new Cursors(Buffer.alloc(32)), clock, positions: room.positions });
    const watch = (resumeToken: string) => queries.stream.watch('org-1', { sensorIds: [room.sensors[0]], deviceIds: [], resumeToken }, new AbortController().signal);
    const token = async (): Promise<string> => {
      for await (const item of watch('')) return item.resumeToken;
      return '';
    };
    const old = hour - 10 * DAY;
    await room.retain(365, 7);
    await room.uplink(old, { a: 1 });
    await room.upkeep.turn();
    clock.advance(DAY);
    const resumeToken = await token();
    clock.advance(1000);
    for (const [at, value] of [[1, 2], [3 * DAY - HOUR, 3], [4 * DAY + HOUR, 4]] as const) await room.uplink(old + at, { a: value }); // thinned, about to be, not yet
    for (let hours = 0; hours < 30; hours += 10) {
      clock.advance(10 * HOUR);
      await room.upkeep.turn();
    }
    const seen: unknown[] = [];
    for await (const { readings } of watch(resumeToken)) {
      seen.push(...readings.map(({ value }) => value));
      if (seen.length === 3) break;
    }
    expect(new Set(seen)).toEqual(new Set([2, 3, 4]));
  });

  it('loses nothing when it is ended at any step', async () => {
    const [a] = room.sensors;
    const old = hour - 10 * DAY;
    for (let at = 0; at < 40; at += 1) await room.uplink(old + at * (HOUR / 10), { a: at });
    await room.sumUp();
    await room.age(9);
    await room.retain(365, 7);
    let ended = 0;
    for (let steps = 1; steps < 20; steps += 1) {
      await room.removal.run(room.work(3, steps % 3 + 2)).catch((error: Error) => (ended += error.message === ENDED ? 1 : 0));
      await room.uplink(old + steps * (HOUR / 7) + 1, { a: 1000 });
      await room.summariser.redo(room.work(2));
      expect((await room.hours(a)).reduce((sum, one) => sum + one.count, 0)).toBe(40 + steps);
    }
    expect(ended).toBeGreaterThan(3);
    await room.age(9);
    await room.removal.run(room.work(3));
    expect(await room.readings(a)).toEqual([]);
  });

  it('removes what deleted sensors, devices and organizations leave, and nothing else', async () => {
    const { api, test } = room.devices;
    const { knex } = test.database.db;
    const [a, b, c] = room.sensors;
    for (let at = 1; at <= 30; at += 1) await room.uplink(hour - at * HOUR / 2, { a: at, b: at, c: 'text' });
    await room.sumUp();
    await room.uplink(hour - 10 * HOUR, { a: 1, b: 1 }); // stale
    await api.removeSensors({ id: room.deviceId, sensorIds: [a] });
    expect(await room.removal.run(room.work(4))).toMatchObject({ readings: 31, series: 1, thinned: 0, largestStep: 4 });
    expect(await room.readings(b)).toHaveLength(31);
    expect(await room.count('reading_series')).toBe(2);
    await room.uplink(hour - HOUR, { a: 5, b: 5 });
    expect(await room.readings(b)).toHaveLength(32);
    // What an organization leaves when it is deleted: its series are gone at once.
    const [texts] = await knex('reading_series').where('sensor_id', c).select<{ number: number }[]>('number');
    await knex('reading_series').where('sensor_id', c).delete();
    await knex('stale_hours').insert({ series: (texts?.number ?? 0) + 1000, hour });
    expect(await room.removal.run(room.work(4))).toMatchObject({ readings: 30 });
    expect(await room.readings(b)).toHaveLength(32);
    expect(await room.count('readings')).toBe(32);
    expect(await knex('stale_hours').distinct('series')).toHaveLength(1);
    await api.delete({ id: room.deviceId });
    await room.removal.run(room.work());
    for (const table of ['readings', 'reading_hours', 'stale_hours', 'reading_series']) expect([table, await room.count(table)]).toEqual([table, 0]);
  });

  it(`leaves the hours that counting one by one says (seed ${SEED})`, async () => {
    const [a, b] = room.sensors;
    const sensors = { a, b };
    const taken: { name: 'a' | 'b'; time: number; num: number }[] = [];
    const seen = new Set<number>();
    const step = fc.record({
      uplinks: fc.array(fc.record({ name: fc.constantFrom('a' as const, 'b' as const), ago: fc.integer({ min: 1, max: 40 * 60 }), value: fc.integer({ min: -50, max: 50 }) }), { maxLength: 10 }),
      advance: fc.constantFrom(0, 60_000, HOUR, 5 * HOUR),
      thin: fc.option(fc.constantFrom(1, 2)),
      rows: fc.constantFrom(1, 3, 2000),
      steps: fc.option(fc.integer({ min: 1, max: 12 })),
    });
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 1, maxLength: 5 }), async (steps) => {
        for (const { uplinks, advance, thin, rows, steps: most } of steps) {
          await room.retain(2, thin);
          room.devices.clock.advance(advance + 1);
          const sent = uplinks.map(async ({ name, ago, value }, at) => {
            const time = room.devices.clock.now() - ago * 60_000 - at;
            if (seen.has(time)) return;
            seen.add(time);
            taken.push({ name, time, num: value });
            await room.uplink(time, { [name]: value });
          });
          const work = room.work(rows, most ?? undefined);
          await room.summariser.sumUp(work).then(async () => await room.summariser.redo(work)).then(async () => await room.removal.run(work)).catch(endedOnly);
          await Promise.all(sent);
        }
        room.devices.clock.advance(HOUR);
        await room.sumUp();
        await room.removal.run(room.work());
        const horizon = room.summariser.horizon();
        const since = hourOf(room.devices.clock.now() - 2 * DAY);
        for (const name of ['a', 'b'] as const) {
          const kept = taken.filter((one) => one.name === name && one.time >= since && one.time < horizon).toSorted((one, other) => one.time - other.time);
          const naive = [...Map.groupBy(kept, ({ time }) => hourOf(time))].map(([of, numbers]) => ({ hour: of, ...summaryOfAll(numbers) }));
          // The area between late numbers and those that are gone is not known any more.
          expect((await room.hours(sensors[name])).map((one) => ({ ...one, area: 0 }))).toEqual(naive.map((one) => ({ ...one, area: 0 })));
        }
        expect(await room.count('stale_hours')).toBe(0);
      }),
      { seed: SEED, numRuns: 15, endOnFailure: true },
    );
  });

  it('ends a step where it takes too long, whatever is left to do, and reads smaller pages', async () => {
    const { clock, test } = room.devices;
    for (let at = 0; at < 4; at += 1) await room.uplink(hour - 20 * DAY + at * HOUR, { a: 1, b: 1, c: 'text' });
    await room.sumUp();
    await room.retain(10, null);
    let now = 0;
    let steps = 0;
    const database = { transaction: async (work) => ((steps += 1), await test.database.transaction(work)) } as Database;
    const slow = new BackgroundWork({ database, clock: { now: () => clock.now(), monotonic: () => (now += 6) }, signal: new AbortController().signal });
    expect(await room.removal.run(slow)).toMatchObject({ readings: 12, hours: 8, largestStep: 4 });
    expect(steps).toBe(5); // readings of three sensors, hours of two
    const limits: number[] = [];
    for (let page = 0; page < 6; page += 1) await slow.page(async (limit) => (limits.push(limit), await Promise.resolve([])));
    expect(limits.slice(-2)).toEqual([1, 1]);
    expect(limits[0]).toBeLessThan(20);
  });

  it('tries again in the next turn what failed, and does the rest meanwhile', async () => {
    const [a] = room.sensors;
    const failed = (): unknown[] => room.devices.log.of('readings.upkeep_failed').map(({ part }) => part);
    await room.uplink(hour - 20 * DAY, { a: 1 });
    await room.uplink(hour - 5 * DAY, { a: 1 });
    await room.retain(10, null);
    await refuse('insert', 'reading_hours');
    await refuse('delete', 'readings');
    await room.upkeep.turn();
    expect(failed()).toEqual(['sum_up', 'removal']);
    await allow('readings');
    await room.upkeep.turn();
    expect(failed()).toEqual(['sum_up', 'removal', 'sum_up']);
    expect(await times(a)).toEqual([hour - 5 * DAY]);
    await allow('reading_hours');
    await room.upkeep.turn();
    expect(failed()).toHaveLength(3);
    expect((await room.hours(a)).map((one) => one.hour)).toEqual([hour - 5 * DAY]);
    expect(room.devices.log.of('readings.retention')).toHaveLength(1);
  });

  /** Lets a table fail as a full disk does. */
  async function refuse(change: 'insert' | 'delete', table: string): Promise<void> {
    const { knex } = room.devices.test.database.db;
    if (engine.name === 'sqlite') return void (await knex.raw(`create trigger full_${table} before ${change} on ${table} begin select raise(abort, 'full'); end`));
    await knex.raw("create or replace function disk_full() returns trigger language plpgsql as $$ begin raise exception 'full'; end $$");
    await knex.raw(`create trigger full_${table} before ${change} on ${table} for each row execute function disk_full()`);
  }
  async function allow(table: string): Promise<void> {
    await room.devices.test.database.db.knex.raw(`drop trigger full_${table}${engine.name === 'sqlite' ? '' : ` on ${table}`}`);
  }

  it('runs every hour and writes one line about it', async () => {
    await room.upkeep.turn();
    room.devices.clock.advance(HOUR - 1000);
    await room.upkeep.turn();
    room.devices.clock.advance(1000);
    await room.upkeep.turn();
    expect(room.devices.log.of('readings.retention')).toEqual(Array.from({ length: 2 }, () => ({ readings: 0, thinned: 0, hours: 0, series: 0, largest_step: 0 })));
  });

  it('reads no table whole', async () => {
    const { database } = room.devices.test;
    const all: HotStatement[] = [...Object.values(hourSummaryStatements), ...Object.values(readingRemovalStatements)];
    for (const statement of all) {
      const sql = statement.sql(database.dialect);
      const values = Array.from(sql.matchAll(/\?/g), () => 1);
      const plan = await database.transaction(async (db) => {
        if (engine.name === 'postgres') await db.knex.raw('set local enable_seqscan = off');
        return JSON.stringify(await db.knex.raw(`${engine.name === 'sqlite' ? 'explain query plan' : 'explain'} ${engine.name === 'sqlite' ? sql.replaceAll('?', '+?') : sql}`, values));
      });
      expect([statement.name, plan]).toEqual([statement.name, expect.not.stringMatching(/SCAN (r|h|t|s|o|x|readings|reading_hours|stale_hours|reading_series|organizations|sensors)\b|Seq Scan/)]);
    }
  });
});

function endedOnly(error: Error): void {
  if (error.message !== ENDED) throw error;
}

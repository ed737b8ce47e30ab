import fc from 'fast-check';
import type { Database, PreparedStatement } from '../../src/database';
import { toHour } from '../../src/telemetry/readings/hourSummary';
import { Cursors } from '../../src/kernel/pages';
import { ReadingMaintenance, RetentionTimes, SensorQueries } from '../../src/telemetry';
import { BackgroundWork } from '../../src/telemetry/retention/backgroundWork';
import { hourSummaryStatements } from '../../src/telemetry/retention/hourSummaryRepository';
import { summarize } from '../../src/telemetry/retention/lateArrivals';
import { readingRemovalStatements } from '../../src/telemetry/retention/readingRemovalRepository';
import { engines } from '../support/engines';
import { DAY, ENDED, HOUR, startRetentionFixture, type RetentionFixture } from './retentionFixture';

const SEED = 20_261_122;

describe.each(engines())('the retention of readings on $name', (engine) => {
  let fixture: RetentionFixture;
  let hour: number;
  beforeEach(async () => {
    fixture = await startRetentionFixture(engine);
    hour = toHour(fixture.devices.clock.now());
  });
  afterEach(async () => await fixture.stop());

  const times = async (sensorId: string): Promise<number[]> =>
    (await fixture.readings(sensorId)).map(({ time }) => time);

  it('deletes readings and hours that are older than the retention of the organization, in complete hours', async () => {
    const [a, b, c] = fixture.sensors;
    const edge = hour - 30 * DAY;
    for (const time of [edge - 90 * DAY, edge - HOUR, edge - 1, edge, edge + HOUR])
      await fixture.uplink(time, { a: 1, c: 'text' });
    await fixture.uplink(edge + DAY, { b: 1 });
    await fixture.sumUp();
    expect(await fixture.removal.run(fixture.work())).toMatchObject({
      readings: 0,
      downsampled: 0,
      hours: 0,
      series: 0,
    }); // This retains a year.
    await fixture.retain(30, null);
    expect(await fixture.removal.run(fixture.work())).toMatchObject({
      readings: 6,
      downsampled: 0,
      hours: 2,
      series: 0,
    });
    expect([await times(a), await times(b), await times(c)]).toEqual([
      [edge, edge + HOUR],
      [edge + DAY],
      [edge, edge + HOUR],
    ]);
    expect((await fixture.hours(a)).map((one) => one.hour)).toEqual([edge, edge + HOUR]);
    fixture.devices.clock.advance(HOUR);
    expect(await fixture.removal.run(fixture.work())).toMatchObject({ readings: 2, hours: 1 });
    expect(await fixture.removal.run(fixture.work())).toMatchObject({
      readings: 0,
      downsampled: 0,
      hours: 0,
      series: 0,
      maxStep: 0,
    });
  });

  it('reports how far back readings go', async () => {
    const { database } = fixture.devices.test;
    const { clock } = fixture.devices;
    const of = new RetentionTimes({ database, clock });
    expect(await of.get('org-1')).toEqual({ keptSince: hour - 365 * DAY, downsampledBefore: undefined });
    await fixture.retain(30, 7);
    expect(await of.get('org-1')).toEqual({ keptSince: hour - 30 * DAY, downsampledBefore: hour - 7 * DAY });
    expect(await of.get('org-2')).toEqual({ keptSince: hour - 365 * DAY, downsampledBefore: undefined });
    expect((await of.get('nobody')).keptSince).toBe(hour);
  });

  it('deletes no more rows per step than allowed, even when all have the same time', async () => {
    const { knex } = fixture.devices.test.database.db;
    await fixture.uplink(hour - 20 * DAY, { a: 1 });
    const [row] = await knex('readings').select<{ series: number }[]>('series');
    const rows = Array.from({ length: 400 }, (_, at) => ({
      series: row?.series,
      time: hour - 20 * DAY,
      position: at + 1,
      kind: 1,
      num: at,
      txt: null,
    }));
    await knex('readings').insert(rows);
    await fixture.retain(10, null);
    expect(await fixture.removal.run(fixture.work(25))).toMatchObject({ readings: 401, maxStep: 25 });
    expect(await fixture.count('readings')).toBe(0);
  });

  it('downsamples numbers to their hours, and keeps strings, hours without a summary, and stale hours', async () => {
    const [a, , c] = fixture.sensors;
    const old = hour - 10 * DAY;
    for (let at = 0; at < 50; at += 1) await fixture.uplink(old + at * (HOUR / 10), { a: at, c: `text ${at}` });
    await fixture.sumUp();
    const before = await fixture.hours(a);
    await fixture.retain(365, 7);
    await fixture.age(9);
    await fixture.uplink(old + 2 * HOUR + 1, { a: 500 }); // This makes the third hour stale.
    expect(await fixture.removal.run(fixture.work(7))).toMatchObject({
      readings: 0,
      downsampled: 20,
      hours: 0,
      maxStep: 7,
    });
    await fixture.sumUp();
    expect(await fixture.removal.run(fixture.work(7))).toMatchObject({ downsampled: 30 });
    expect(await fixture.readings(a)).toMatchObject([{ num: 500 }]); // This reading just arrived.
    expect(await fixture.readings(c)).toHaveLength(50);
    const after = await fixture.hours(a);
    expect(after.map((one) => one.count)).toEqual([10, 10, 11, 10, 10]);
    expect(after.filter((one) => one.count === 10)).toEqual(before.filter((_, at) => at !== 2));
    expect(after[2]).toMatchObject({ max: 500, count: 11 });
    await fixture.uplink(old - HOUR, { a: 3 }); // This hour has no summary yet.
    expect(await fixture.removal.run(fixture.work())).toMatchObject({ downsampled: 0 });
  });

  it('gives the same results in buckets of complete hours before and after downsampling, including late readings', async () => {
    const [a] = fixture.sensors;
    const { clock, test } = fixture.devices;
    const queries = new SensorQueries({
      database: test.database,
      cursors: new Cursors(Buffer.alloc(32)),
      clock,
      positions: fixture.positions,
    });
    const queryBuckets = async (unit: 'hour' | 'day') => {
      const query = {
        sensorIds: [a],
        from: hour - 12 * DAY,
        to: hour,
        bucket: { unit, count: 1 },
        timeZone: 'Asia/Tokyo',
        functions: [],
        fill: 'none',
        pageToken: '',
      } as const;
      const page = await queries.aggregates.query('org-1', query, new AbortController().signal);
      return page.sensors.map(({ buckets }) => buckets);
    };
    for (let at = 0; at < 60; at += 1) await fixture.uplink(hour - 10 * DAY + at * (HOUR / 7), { a: at % 13 });
    await fixture.sumUp();
    const before = [await queryBuckets('hour'), await queryBuckets('day')];
    await fixture.retain(365, 7);
    await fixture.age(9);
    expect(await fixture.removal.run(fixture.work(5))).toMatchObject({ downsampled: 60 });
    expect([await queryBuckets('hour'), await queryBuckets('day')]).toEqual(before);
    await fixture.uplink(hour - 10 * DAY - 1, { a: 100 });
    await fixture.sumUp();
    await fixture.removal.run(fixture.work());
    const { values } = (await queryBuckets('hour'))[0]?.find(({ start }) => start === hour - 10 * DAY - HOUR) ?? {};
    expect(values).toMatchObject({ count: 1, max: 100 });
  });

  it('adds any late number to a downsampled hour, and downsamples that reading as well', async () => {
    const [a] = fixture.sensors;
    const old = hour - 10 * DAY;
    for (const [at, value] of [
      [10, 4],
      [20, 6],
    ] as const)
      await fixture.uplink(old + at, { a: value });
    await fixture.sumUp();
    await fixture.age(9);
    await fixture.retain(365, 7);
    expect(await fixture.removal.run(fixture.work())).toMatchObject({ downsampled: 2 });
    for (let at = 0; at < 30; at += 1) await fixture.uplink(old + at, { a: at });
    await fixture.uplink(old + 20, { a: 99 }); // This is the later of two readings with the same time.
    await fixture.summariser.recomputeStale(fixture.work(8));
    expect(await fixture.hours(a)).toMatchObject([
      { count: 33, sum: 10 + 435 + 99, min: 0, max: 99, firstTime: old, first: 0, lastTime: old + 29, last: 29 },
    ]);
    expect(await fixture.count('stale_hours')).toBe(0);
    // A resuming stream finds late readings until they have been stored as long as others.
    expect(await fixture.removal.run(fixture.work())).toMatchObject({ downsampled: 0 });
    expect(await fixture.readings(a)).toHaveLength(31);
    for (const days of [3, 3]) {
      fixture.devices.clock.advance(days * DAY);
      expect(await fixture.removal.run(fixture.work())).toMatchObject({ downsampled: 0 });
    }
    fixture.devices.clock.advance(DAY + HOUR);
    expect(await fixture.removal.run(fixture.work(8))).toMatchObject({ downsampled: 31, maxStep: 8 });
    expect(await fixture.readings(a)).toEqual([]);
    expect(await fixture.hours(a)).toMatchObject([{ count: 33, last: 29 }]);
    // An organization that no longer downsamples keeps the readings that it has.
    await fixture.retain(365, null);
    await fixture.uplink(old + 40, { a: 1 });
    await fixture.sumUp();
    expect(await fixture.hours(a)).toMatchObject([{ count: 34, last: 1 }]);
  });

  it('deletes nothing based on a system clock that is not trusted', async () => {
    const { clock, test, log } = fixture.devices;
    const expiryClock = { now: () => hour, monotonic: () => clock.monotonic() };
    const upkeep = new ReadingMaintenance({
      database: test.database,
      clock,
      expiryClock,
      positions: fixture.positions,
      series: fixture.series,
      log,
    });
    await fixture.retain(365, null);
    await fixture.uplink(hour - 10 * DAY, { a: 1 });
    clock.advance(3650 * DAY);
    await upkeep.runOnce();
    expect(await fixture.readings(fixture.sensors[0])).toHaveLength(1);
    await fixture.maintenance.runOnce();
    expect(await fixture.readings(fixture.sensors[0])).toEqual([]);
  });

  it('keeps late readings until a resuming stream has received them', async () => {
    const { clock, test } = fixture.devices;
    const queries = new SensorQueries({
      database: test.database,
      cursors: new Cursors(Buffer.alloc(32)),
      clock,
      positions: fixture.positions,
    });
    const watch = (resumeToken: string) =>
      queries.stream.watch(
        'org-1',
        { sensorIds: [fixture.sensors[0]], deviceIds: [], resumeToken },
        new AbortController().signal,
      );
    const token = async (): Promise<string> => {
      for await (const item of watch('')) return item.resumeToken;
      return '';
    };
    const old = hour - 10 * DAY;
    await fixture.retain(365, 7);
    await fixture.uplink(old, { a: 1 });
    await fixture.maintenance.runOnce();
    clock.advance(DAY);
    const resumeToken = await token();
    clock.advance(1000);
    for (const [at, value] of [
      [1, 2],
      [3 * DAY - HOUR, 3],
      [4 * DAY + HOUR, 4],
    ] as const)
      await fixture.uplink(old + at, { a: value }); // The hour is downsampled, due for downsampling, or not yet due.
    for (let hours = 0; hours < 30; hours += 10) {
      clock.advance(10 * HOUR);
      await fixture.maintenance.runOnce();
    }
    const seenValues: unknown[] = [];
    for await (const { readings } of watch(resumeToken)) {
      seenValues.push(...readings.map(({ value }) => value));
      if (seenValues.length === 3) break;
    }
    expect(new Set(seenValues)).toEqual(new Set([2, 3, 4]));
  });

  it('loses nothing when it is aborted at any step', async () => {
    const [a] = fixture.sensors;
    const old = hour - 10 * DAY;
    for (let at = 0; at < 40; at += 1) await fixture.uplink(old + at * (HOUR / 10), { a: at });
    await fixture.sumUp();
    await fixture.age(9);
    await fixture.retain(365, 7);
    let ended = 0;
    for (let steps = 1; steps < 20; steps += 1) {
      await fixture.removal
        .run(fixture.work(3, (steps % 3) + 2))
        .catch((error: Error) => (ended += error.message === ENDED ? 1 : 0));
      await fixture.uplink(old + steps * (HOUR / 7) + 1, { a: 1000 });
      await fixture.summariser.recomputeStale(fixture.work(2));
      expect((await fixture.hours(a)).reduce((sum, one) => sum + one.count, 0)).toBe(40 + steps);
    }
    expect(ended).toBeGreaterThan(3);
    await fixture.age(9);
    await fixture.removal.run(fixture.work(3));
    expect(await fixture.readings(a)).toEqual([]);
  });

  it('deletes leftovers of deleted sensors, devices and organizations, and nothing else', async () => {
    const { api, test } = fixture.devices;
    const { knex } = test.database.db;
    const [a, b, c] = fixture.sensors;
    for (let at = 1; at <= 30; at += 1) await fixture.uplink(hour - (at * HOUR) / 2, { a: at, b: at, c: 'text' });
    await fixture.sumUp();
    await fixture.uplink(hour - 10 * HOUR, { a: 1, b: 1 }); // This makes the hour stale.
    await api.removeSensors({ id: fixture.deviceId, sensorIds: [a] });
    expect(await fixture.removal.run(fixture.work(4))).toMatchObject({
      readings: 31,
      series: 1,
      downsampled: 0,
      maxStep: 4,
    });
    expect(await fixture.readings(b)).toHaveLength(31);
    expect(await fixture.count('reading_series')).toBe(2);
    await fixture.uplink(hour - HOUR, { a: 5, b: 5 });
    expect(await fixture.readings(b)).toHaveLength(32);
    // A deleted organization leaves readings behind, but its series are deleted immediately.
    const [texts] = await knex('reading_series').where('sensor_id', c).select<{ number: number }[]>('number');
    await knex('reading_series').where('sensor_id', c).delete();
    await knex('stale_hours').insert({ series: (texts?.number ?? 0) + 1000, hour });
    expect(await fixture.removal.run(fixture.work(4))).toMatchObject({ readings: 30 });
    expect(await fixture.readings(b)).toHaveLength(32);
    expect(await fixture.count('readings')).toBe(32);
    expect(await knex('stale_hours').distinct('series')).toHaveLength(1);
    await api.delete({ id: fixture.deviceId });
    await fixture.removal.run(fixture.work());
    for (const table of ['readings', 'reading_hours', 'stale_hours', 'reading_series'])
      expect([table, await fixture.count(table)]).toEqual([table, 0]);
  });

  it(`leaves the hours that a naive count gives (seed ${SEED})`, async () => {
    const [a, b] = fixture.sensors;
    const sensors = { a, b };
    const taken: { name: 'a' | 'b'; time: number; num: number }[] = [];
    const seenValues = new Set<number>();
    const step = fc.record({
      uplinks: fc.array(
        fc.record({
          name: fc.constantFrom('a' as const, 'b' as const),
          ago: fc.integer({ min: 1, max: 40 * 60 }),
          value: fc.integer({ min: -50, max: 50 }),
        }),
        { maxLength: 10 },
      ),
      advance: fc.constantFrom(0, 60_000, HOUR, 5 * HOUR),
      thin: fc.option(fc.constantFrom(1, 2)),
      rows: fc.constantFrom(1, 3, 2000),
      steps: fc.option(fc.integer({ min: 1, max: 12 })),
    });
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 1, maxLength: 5 }), async (steps) => {
        for (const { uplinks, advance, thin, rows, steps: max } of steps) {
          await fixture.retain(2, thin);
          fixture.devices.clock.advance(advance + 1);
          const sent = uplinks.map(async ({ name, ago, value }, at) => {
            const time = fixture.devices.clock.now() - ago * 60_000 - at;
            if (seenValues.has(time)) return;
            seenValues.add(time);
            taken.push({ name, time, num: value });
            await fixture.uplink(time, { [name]: value });
          });
          const work = fixture.work(rows, max ?? undefined);
          await fixture.summariser
            .sumUp(work)
            .then(async () => await fixture.summariser.recomputeStale(work))
            .then(async () => await fixture.removal.run(work))
            .catch(endedOnly);
          await Promise.all(sent);
        }
        fixture.devices.clock.advance(HOUR);
        await fixture.sumUp();
        await fixture.removal.run(fixture.work());
        const horizon = fixture.summariser.getHorizon();
        const since = toHour(fixture.devices.clock.now() - 2 * DAY);
        for (const name of ['a', 'b'] as const) {
          const kept = taken
            .filter((one) => one.name === name && one.time >= since && one.time < horizon)
            .toSorted((one, other) => one.time - other.time);
          const naive = [...Map.groupBy(kept, ({ time }) => toHour(time))].map(([of, numbers]) => ({
            hour: of,
            ...summarize(numbers),
          }));
          // The area between late numbers and deleted ones is no longer known.
          expect((await fixture.hours(sensors[name])).map((one) => ({ ...one, area: 0 }))).toEqual(
            naive.map((one) => ({ ...one, area: 0 })),
          );
        }
        expect(await fixture.count('stale_hours')).toBe(0);
      }),
      { seed: SEED, numRuns: 15, endOnFailure: true },
    );
  });

  it('ends a step that takes too long, even with work left, and reads smaller pages', async () => {
    const { clock, test } = fixture.devices;
    for (let at = 0; at < 4; at += 1) await fixture.uplink(hour - 20 * DAY + at * HOUR, { a: 1, b: 1, c: 'text' });
    await fixture.sumUp();
    await fixture.retain(10, null);
    let now = 0;
    let steps = 0;
    const database = { transaction: async (work) => ((steps += 1), await test.database.transaction(work)) } as Database;
    const slow = new BackgroundWork({
      database,
      clock: { now: () => clock.now(), monotonic: () => (now += 6) },
      signal: new AbortController().signal,
    });
    expect(await fixture.removal.run(slow)).toMatchObject({ readings: 12, hours: 8, maxStep: 4 });
    expect(steps).toBe(5); // There are readings of three sensors and hours of two.
    const limits: number[] = [];
    for (let page = 0; page < 6; page += 1)
      await slow.readPage(async (limit) => (limits.push(limit), await Promise.resolve([])));
    expect(limits.slice(-2)).toEqual([1, 1]);
    expect(limits[0]).toBeLessThan(20);
  });

  it('retries failed work in the next run and continues with the rest', async () => {
    const [a] = fixture.sensors;
    const failed = (): unknown[] => fixture.devices.log.of('readings.maintenance_failed').map(({ part }) => part);
    await fixture.uplink(hour - 20 * DAY, { a: 1 });
    await fixture.uplink(hour - 5 * DAY, { a: 1 });
    await fixture.retain(10, null);
    await failWrites('insert', 'reading_hours');
    await failWrites('delete', 'readings');
    await fixture.maintenance.runOnce();
    expect(failed()).toEqual(['sum_up', 'removal']);
    await allow('readings');
    await fixture.maintenance.runOnce();
    expect(failed()).toEqual(['sum_up', 'removal', 'sum_up']);
    expect(await times(a)).toEqual([hour - 5 * DAY]);
    await allow('reading_hours');
    await fixture.maintenance.runOnce();
    expect(failed()).toHaveLength(3);
    expect((await fixture.hours(a)).map((one) => one.hour)).toEqual([hour - 5 * DAY]);
    expect(fixture.devices.log.of('readings.retention')).toHaveLength(1);
  });

  /** Makes a table fail as it does when the disk is full. */
  async function failWrites(change: 'insert' | 'delete', table: string): Promise<void> {
    const { knex } = fixture.devices.test.database.db;
    if (engine.name === 'sqlite')
      return void (await knex.raw(
        `create trigger full_${table} before ${change} on ${table} begin select raise(abort, 'full'); end`,
      ));
    await knex.raw(
      "create or replace function disk_full() returns trigger language plpgsql as $$ begin raise exception 'full'; end $$",
    );
    await knex.raw(
      `create trigger full_${table} before ${change} on ${table} for each row execute function disk_full()`,
    );
  }
  async function allow(table: string): Promise<void> {
    await fixture.devices.test.database.db.knex.raw(
      `drop trigger full_${table}${engine.name === 'sqlite' ? '' : ` on ${table}`}`,
    );
  }

  it('runs every hour and writes one log line per run', async () => {
    await fixture.maintenance.runOnce();
    fixture.devices.clock.advance(HOUR - 1000);
    await fixture.maintenance.runOnce();
    fixture.devices.clock.advance(1000);
    await fixture.maintenance.runOnce();
    expect(fixture.devices.log.of('readings.retention')).toEqual(
      Array.from({ length: 2 }, () => ({ readings: 0, downsampled: 0, hours: 0, series: 0, largest_step: 0 })),
    );
  });

  it('never scans a complete table', async () => {
    const { database } = fixture.devices.test;
    const all: PreparedStatement[] = [
      ...Object.values(hourSummaryStatements),
      ...Object.values(readingRemovalStatements),
    ];
    for (const statement of all) {
      const sql = statement.sql(database.dialect);
      const values = Array.from(sql.matchAll(/\?/g), () => 1);
      const plan = await database.transaction(async (db) => {
        if (engine.name === 'postgres') await db.knex.raw('set local enable_seqscan = off');
        return JSON.stringify(
          await db.knex.raw(
            `${engine.name === 'sqlite' ? 'explain query plan' : 'explain'} ${engine.name === 'sqlite' ? sql.replaceAll('?', '+?') : sql}`,
            values,
          ),
        );
      });
      expect([statement.name, plan]).toEqual([
        statement.name,
        expect.not.stringMatching(
          /SCAN (r|h|t|s|o|x|readings|reading_hours|stale_hours|reading_series|organizations|sensors)\b|Seq Scan/,
        ),
      ]);
    }
  });
});

function endedOnly(error: Error): void {
  if (error.message !== ENDED) throw error;
}

import { AggregateFill, BucketUnit } from '../../src/gen/sensorquery/v1/sensor_query_service';
import type { QueryWidgetDataRequest, SeriesData } from '../../src/gen/widget/v2/widget_service';
import { newId } from '../../src/kernel/ids';
import { fromTimestamp } from '../../src/kernel/timestamps';
import { ReadingSequence, SeriesIdCache } from '../../src/telemetry';
import { roundAverage } from '../../src/telemetry/queries/widgetData';
import { BackgroundWork } from '../../src/telemetry/retention/backgroundWork';
import { HourlyRollup } from '../../src/telemetry/retention/hourlyRollup';
import { engines } from '../support/engines';
import { at, type QueryFixture, startQueryFixture, type TimedValue } from './queryFixture';

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const START = Date.UTC(2025, 0, 6); // a Monday

/** Returns readings from START on, one each `step` milliseconds. */
const every = (step: number, count: number, value: (index: number) => TimedValue[1]): TimedValue[] =>
  Array.from({ length: count }, (_, index) => [START + index * step, value(index)]);

describe.each(engines())('QueryWidgetData on $name', (engine) => {
  let fixture: QueryFixture;
  beforeAll(async () => {
    fixture = await startQueryFixture(engine);
  });
  afterAll(async () => await fixture.stop());

  const query = async (
    sensorIds: readonly string[],
    from: number,
    to: number,
    fields: Partial<QueryWidgetDataRequest> = {},
  ): Promise<SeriesData[]> =>
    (await fixture.widgetData({ sensorIds: [...sensorIds], from: at(from), to: at(to), ...fields })).series;
  const queryOne = async (
    ...[sensorId, ...rest]: Parameters<typeof query> extends [unknown, ...infer Rest] ? [string, ...Rest] : never
  ): Promise<SeriesData> => (await query([sensorId], ...rest))[0] as SeriesData;
  /** Writes the hourly summaries of everything that is stored. */
  const sumUp = async (): Promise<void> => {
    const { clock, test } = fixture.devices;
    const positions = new ReadingSequence(clock);
    positions.startAfter(Number.MAX_SAFE_INTEGER); // everything is on disk
    const options = { database: test.database, clock, positions, series: new SeriesIdCache() };
    const work = new BackgroundWork({ database: test.database, clock, signal: new AbortController().signal });
    await new HourlyRollup(options).sumUp(work);
    await new HourlyRollup(options).recomputeStale(work);
  };

  it('returns the readings exactly if they fit, otherwise buckets with the shortest length that fits', async () => {
    const sensorId = await fixture.sensor();
    await fixture.store(
      sensorId,
      'number',
      every(MINUTE, 20, (index) => 20 + index / 3),
    );
    const all = await queryOne(sensorId, START, START + 20 * MINUTE, { maxPoints: 20 });
    expect(all).toEqual({
      sensorId,
      times: every(MINUTE, 20, () => 0).map(([time]) => time),
      min: [],
      max: [],
      values: every(MINUTE, 20, (index) => 20 + index / 3).map(([, value]) => value),
      states: [],
      bucketMs: 0,
      downsampledBefore: undefined,
      error: '',
    });
    const buckets = await queryOne(sensorId, START, START + 20 * MINUTE, { maxPoints: 19 });
    expect(buckets).toMatchObject({
      times: every(2 * MINUTE, 10, () => 0).map(([time]) => time),
      min: every(MINUTE, 10, (index) => 20 + (2 * index) / 3).map(([, value]) => value),
      max: every(MINUTE, 10, (index) => 20 + (2 * index + 1) / 3).map(([, value]) => value),
      bucketMs: 2 * MINUTE,
    });
    expect(buckets.values.slice(0, 2)).toEqual([20.16667, 20.83333]);
  });

  it.each([
    [20 * 1000, 10, 2000],
    [HOUR, 60, MINUTE],
    [HOUR, 59, 2 * MINUTE],
    [7 * DAY, 500, 30 * MINUTE],
    [7 * DAY, 168, HOUR],
    [365 * DAY, 4000, 3 * HOUR],
    [365 * DAY, 365, DAY],
    [365 * DAY, 364, 7 * DAY],
    [365 * DAY, 40, 14 * DAY],
    [20 * 364 * DAY, 2, 1024 * 7 * DAY],
  ])('divides %d ms into at most %d buckets of %d ms', async (length, maxPoints, bucketMs) => {
    const sensorId = await fixture.sensor();
    const step = Math.floor(length / 4100);
    await fixture.store(
      sensorId,
      'number',
      every(step, maxPoints === 4000 ? 4100 : maxPoints + 1, (index) => index),
    );
    const series = await queryOne(sensorId, START, START + length, { maxPoints });
    expect(series.bucketMs).toBe(bucketMs);
    expect(series.times.length).toBeLessThanOrEqual(maxPoints);
    expect([series.min, series.max, series.values].map((column) => column.length)).toEqual(
      Array.from({ length: 3 }, () => series.times.length),
    );
  });

  it('has at most 20,000 points in a response', async () => {
    const { sensorIds } = await fixture.device(Array.from({ length: 200 }, () => 'number'));
    await fixture.store(
      sensorIds[0] ?? '',
      'number',
      every(MINUTE, 101, (index) => index),
    );
    const [first, second] = await query(sensorIds, START, START + 101 * MINUTE, { maxPoints: 4000 });
    expect(first).toMatchObject({ bucketMs: 2 * MINUTE, error: '' });
    expect(first?.times).toHaveLength(51);
    expect(second).toMatchObject({ times: [], values: [], bucketMs: 0, error: '' });
    expect(await queryOne(sensorIds[0] ?? '', START, START + 101 * MINUTE, { maxPoints: 4000 })).toMatchObject({
      bucketMs: 0,
    });
  });

  it('has the values of QueryAggregate for a year of ten sensors, and the single peak, before and after summarizing', async () => {
    const { sensorIds } = await fixture.device(Array.from({ length: 10 }, () => 'number'));
    const from = START + 1234;
    for (const [index, sensorId] of sensorIds.entries())
      await fixture.store(sensorId, 'number', [
        ...every(17 * HOUR + index * MINUTE, 515, (step) => ((step * 7919 + index * 31) % 1009) / 7),
        [START + 200 * DAY + 5 * HOUR + 7 * MINUTE, 1e6 + index],
      ]);
    const day = { bucket: { count: 1, unit: BucketUnit.BUCKET_UNIT_DAY }, fill: AggregateFill.AGGREGATE_FILL_NONE };
    const ask = async (timeZone: string): Promise<SeriesData[]> => {
      const range = { sensorIds: [...sensorIds], from: at(from), to: at(from + 365 * DAY), timeZone };
      const { series } = await fixture.widgetData({ ...range, maxPoints: 370 });
      const { sensors } = await fixture.aggregate({ ...range, ...day });
      expect(series.map(({ times, min, max, values }) => ({ times, min, max, values }))).toEqual(
        sensors.map(({ buckets }) => ({
          times: buckets.map(({ start }) => start && fromTimestamp(start)),
          min: buckets.map(({ min }) => min),
          max: buckets.map(({ max }) => max),
          values: buckets.map(({ timeWeightedAverage = 0, min = 0, max = 0 }) =>
            roundAverage(timeWeightedAverage, max - min),
          ),
        })),
      );
      return series;
    };
    const before = [await ask('UTC'), await ask('America/New_York')];
    expect(before[0]?.map(({ max }) => Math.max(...max))).toEqual(sensorIds.map((_, index) => 1e6 + index));
    await sumUp();
    expect(
      Number((await fixture.database.db.knex('reading_hours').count<{ n: number }[]>({ n: '*' }))[0]?.n),
    ).toBeGreaterThan(5000);
    expect([await ask('UTC'), await ask('America/New_York')]).toEqual(before);
    // A late arrival counts at once, and again when its hour was summed up again.
    await fixture.store(sensorIds[3] ?? '', 'number', [[START + 100 * DAY + 30 * MINUTE, 2e6]]);
    const series = await fixture.database.db
      .knex('reading_series')
      .where({ sensor_id: sensorIds[3] })
      .first<{ number: number }>('number');
    await fixture.database.db.knex('stale_hours').insert({ series: series.number, hour: START + 100 * DAY });
    const late = await ask('UTC');
    expect(late[3]?.max).toContain(2e6);
    await sumUp();
    expect(await ask('UTC')).toEqual(late);
  });

  it('follows the days and weeks of the time zone when clocks change', async () => {
    const sensorId = await fixture.sensor();
    const timeZone = 'Europe/Rome';
    // Clocks change on 30 March (23 h) and 26 October 2025 (25 h).
    const spring = [
      Date.parse('2025-03-29T23:00Z'),
      Date.parse('2025-03-30T22:00Z'),
      Date.parse('2025-03-31T22:00Z'),
    ] as const;
    const autumn = [
      Date.parse('2025-10-25T22:00Z'),
      Date.parse('2025-10-26T23:00Z'),
      Date.parse('2025-10-27T23:00Z'),
    ] as const;
    for (const edges of [spring, autumn])
      await fixture.store(sensorId, 'number', [
        [edges[0], 1],
        [edges[1] - 1, 2],
        [edges[1], 3],
        [edges[2] - 1, 4],
      ]);
    for (const edges of [spring, autumn])
      expect(await queryOne(sensorId, edges[0], edges[2], { maxPoints: 2, timeZone })).toMatchObject({
        times: edges.slice(0, 2),
        min: [1, 3],
        max: [2, 4],
        bucketMs: DAY,
      });
    const weeks = await queryOne(sensorId, Date.parse('2025-03-23T23:00Z'), Date.parse('2025-04-06T22:00Z'), {
      maxPoints: 2,
      timeZone,
    });
    expect(weeks).toMatchObject({
      times: [Date.parse('2025-03-23T23:00Z'), Date.parse('2025-03-30T22:00Z')],
      bucketMs: 7 * DAY,
      max: [2, 4],
    });
  });

  it('returns booleans as numbers and as states', async () => {
    const sensorId = await fixture.sensor('boolean');
    await fixture.store(sensorId, 'boolean', [
      [START, false],
      [START + 15 * MINUTE, true],
      [START + 30 * MINUTE, false],
      [START + 60 * MINUTE, true],
    ]);
    expect(await queryOne(sensorId, START, START + 2 * HOUR)).toMatchObject({
      values: [0, 1, 0, 1],
      states: [false, true, false, true],
      bucketMs: 0,
    });
    expect(await queryOne(sensorId, START, START + 2 * HOUR, { maxPoints: 2 })).toMatchObject({
      times: [START, START + HOUR],
      min: [0, 1],
      max: [1, 1],
      values: [0.25, 1],
      states: [false, true],
      bucketMs: HOUR,
    });
  });

  it('returns strings and JSON values, all or the last of each bucket', async () => {
    const { sensorIds } = await fixture.device(['string', 'json']);
    const [textId = '', jsonId = ''] = sensorIds;
    await fixture.store(
      textId,
      'string',
      every(10 * MINUTE, 12, (index) => `state ${index}`),
    );
    await fixture.store(
      jsonId,
      'json',
      every(10 * MINUTE, 12, (index) => (index === 11 ? null : { index })),
    );
    const all = await query(sensorIds, START, START + 2 * HOUR, { maxPoints: 12 });
    expect(all.map(({ bucketMs, states }) => [bucketMs, states.length])).toEqual([
      [0, 12],
      [0, 12],
    ]);
    const hours = { times: [START, START + HOUR], min: [], max: [], values: [], bucketMs: HOUR };
    expect(await query(sensorIds, START, START + 2 * HOUR, { maxPoints: 2 })).toMatchObject([
      { ...hours, states: ['state 5', 'state 11'] },
      { ...hours, states: [{ index: 5 }, null] },
    ]);
    // Buckets without readings are omitted, and the range excludes its end.
    const gap = [[START + 30 * DAY, 'later'] as const];
    await fixture.store(textId, 'string', gap);
    expect(await queryOne(textId, START, START + 30 * DAY + 1, { maxPoints: 12 })).toMatchObject({
      times: [START, START + 28 * DAY],
      states: ['state 11', 'later'],
      bucketMs: 7 * DAY,
    });
    expect(await queryOne(textId, START + DAY, START + 30 * DAY)).toMatchObject({ times: [], states: [] });
  });

  it('reports a sensor whose states do not fit, and returns the others', async () => {
    const { sensorIds } = await fixture.device(['string', 'string', 'number']);
    const [largeId = '', smallId = '', numberId = ''] = sensorIds;
    await fixture.store(
      largeId,
      'string',
      every(MINUTE, 20, () => 'x'.repeat(60_000)),
    );
    const small = 'y'.repeat(40_000); // more than what 17 of the large ones leave
    await fixture.store(smallId, 'string', [[START, small]]);
    await fixture.store(numberId, 'number', [[START, 1]]);
    expect(await query(sensorIds, START, START + HOUR)).toMatchObject([
      { times: [], states: [], error: 'states_too_large' },
      { states: [small], error: '' },
      { values: [1], error: '' },
    ]);
    expect((await queryOne(largeId, START, START + HOUR, { maxPoints: 2 })).states).toHaveLength(1);
  });

  it('uses buckets of at least an hour where single readings may be missing, and says until when', async () => {
    const sensorId = await fixture.sensor();
    const series = await fixture.store(sensorId, 'number', [
      [START + 1, 1],
      [START + 10 * MINUTE, 5],
      [START + HOUR + 1, 3],
    ]);
    await sumUp();
    const { knex } = fixture.database.db;
    await knex('readings')
      .where({ series })
      .where('time', '<', START + HOUR)
      .delete();
    await knex('reading_series')
      .where({ number: series })
      .update({ thinned_until: START + HOUR });
    const cut = await queryOne(sensorId, START, START + 2 * HOUR);
    expect(cut).toMatchObject({ times: [START, START + HOUR], min: [1, 3], max: [5, 3], bucketMs: HOUR });
    expect(cut.downsampledBefore && fromTimestamp(cut.downsampledBefore)).toBe(START + HOUR);
    const after = await queryOne(sensorId, START + HOUR, START + 2 * HOUR);
    expect(after).toMatchObject({ values: [3], bucketMs: 0, downsampledBefore: undefined });
  });

  it('counts the last value until now in a range that ends in the future', async () => {
    const sensorId = await fixture.sensor();
    const now = fixture.devices.clock.now();
    await fixture.store(sensorId, 'number', [
      [now - 3000, 0],
      [now - 2000, 1],
      [now - 1000, 0],
    ]);
    const [all, buckets] = [
      await queryOne(sensorId, now - 3000, now),
      await queryOne(sensorId, now - 3000, now + 3 * 365 * DAY, { maxPoints: 2 }),
    ];
    expect(all.values).toEqual([0, 1, 0]);
    expect(buckets.values).toEqual([0.3333333]);
  });

  it('finds no sensor that is deleted, unknown or of another organization, and returns the others', async () => {
    const [ownId, deletedId] = [await fixture.sensor(), await fixture.sensor()];
    const foreignId = await fixture.sensor('number', 'org-2');
    for (const [id, organization] of [
      [ownId, 'org-1'],
      [deletedId, 'org-1'],
      [foreignId, 'org-2'],
    ] as const)
      await fixture.store(id, 'number', [[START, 1]], organization);
    await fixture.database.db.knex('sensors').where({ id: deletedId }).delete();
    const unknownId = newId();
    const series = await query([foreignId, deletedId, ownId, unknownId], START, START + 1);
    const missing = { times: [], min: [], max: [], values: [], states: [], bucketMs: 0, downsampledBefore: undefined };
    expect(series).toEqual([
      { ...missing, sensorId: foreignId, error: 'sensor_not_found' },
      { ...missing, sensorId: deletedId, error: 'sensor_not_found' },
      { ...missing, sensorId: ownId, times: [START], values: [1], error: '' },
      { ...missing, sensorId: unknownId, error: 'sensor_not_found' },
    ]);
  });

  it('divides the longest range', async () => {
    const sensorId = await fixture.sensor();
    await fixture.store(
      sensorId,
      'number',
      every(DAY, 3, (index) => index),
    );
    const [from, to] = [Date.UTC(0, 0, 1) - 1800 * 365 * DAY, Date.UTC(9999, 0, 1)];
    expect(await queryOne(sensorId, from, to, { maxPoints: 2, timeZone: 'Europe/Rome' })).toMatchObject({
      min: [0],
      max: [2],
      error: '',
    });
  });

  it('rejects an invalid request with all its violations', async () => {
    const sensorId = newId();
    const range = { from: at(START), to: at(START + 1) };
    const fails = async (fields: Partial<QueryWidgetDataRequest>): Promise<readonly string[]> =>
      (await fixture.widgetData.fails({ sensorIds: [sensorId], ...range, ...fields })).fields;
    expect(await fails({ sensorIds: [] })).toEqual(['sensorIds']);
    expect(await fails({ sensorIds: Array.from({ length: 201 }, () => newId()) })).toEqual(['sensorIds']);
    expect(await fails({ sensorIds: [sensorId, sensorId] })).toEqual(['sensorIds[1]']);
    expect(await fails({ from: undefined, to: undefined })).toEqual(['from', 'to']);
    expect(await fails({ to: at(START) })).toEqual(['to']);
    expect(await fails({ to: at(START - 1) })).toEqual(['to']);
    expect(await fails({ timeZone: 'Mars/Olympus' })).toEqual(['timeZone']);
    expect(await fails({ maxPoints: 1 })).toEqual(['maxPoints']);
    expect(await fails({ maxPoints: 4001 })).toEqual(['maxPoints']);
    expect(await fails({ to: at(START), timeZone: 'x', maxPoints: 0 })).toEqual(['maxPoints', 'to', 'timeZone']);
  });
});

describe('an average', () => {
  it.each([
    [21.123_456_789, 0.5, 21.12346],
    [21.400_000_000_000_002, 0, 21.4],
    [123_456_789.25, 100, 123_456_789.25],
    [123_456_789.25, 1e6, 123_456_800],
    [-1.234_567_89e-7, 1e-8, -1.234568e-7],
    [0, 0, 0],
  ])('of %d with values that differ by %d is returned as %d', (average, spread, rounded) => {
    expect(roundAverage(average, spread)).toBe(rounded);
  });
});

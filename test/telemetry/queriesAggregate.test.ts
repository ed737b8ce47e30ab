import fc from 'fast-check';
import {
  type AggregateBucket,
  AggregateFill,
  AggregateFunction,
  BucketUnit,
} from '../../src/gen/sensorquery/v1/sensor_query_service';
import { fromTimestamp } from '../../src/kernel/timestamps';
import { HOUR_MS } from '../../src/kernel/timeUnits';
import { addSample, toHour, type NumberSummary, createSummary } from '../../src/telemetry/readings/hourSummary';
import { engines } from '../support/engines';
import { at, type QueryFixture, startQueryFixture } from './queryFixture';

const SEED = 20_261_121;
const MINUTE = 60_000;
const DAY = 24 * HOUR_MS;
const ZONES = [
  'UTC',
  'Europe/Rome',
  'Asia/Kolkata',
  'America/St_Johns',
  'Pacific/Apia',
  'Australia/Lord_Howe',
  'America/Havana',
  'America/Sao_Paulo',
];

interface ExpectedBucket {
  readonly start: number;
  readonly end: number;
  readonly samples: readonly (readonly [number, number])[];
}

const formats = new Map<string, Intl.DateTimeFormat>();

/** Returns the calendar day, month and time of day in a zone, computed by the JavaScript engine. */
function getLocalTime(zone: string, time: number): { day: number; second: number; month: number } {
  const format =
    formats.get(zone) ??
    new Intl.DateTimeFormat('en-US', {
      timeZone: zone,
      hourCycle: 'h23',
      year: 'numeric',
      month: 'numeric',
      day: 'numeric',
      hour: 'numeric',
      minute: 'numeric',
      second: 'numeric',
    });
  formats.set(zone, format);
  const part = Object.fromEntries(format.formatToParts(time).map(({ type, value }) => [type, Number(value)])) as Record<
    string,
    number
  >;
  const [year = 0, month = 1, day = 1] = [part['year'], part['month'], part['day']];
  return {
    day: Date.UTC(year, month - 1, day) / DAY,
    second: (part['hour'] ?? 0) * 3600 + (part['minute'] ?? 0) * 60 + (part['second'] ?? 0),
    month: (year - 1970) * 12 + month - 1,
  };
}

const days = new Map<string, { day: number; start: number }[]>();

/** Returns the offset of a zone from UTC at this time. */
function getUtcOffset(zone: string, time: number): number {
  const { day, second } = getLocalTime(zone, time);
  return day * DAY + second * 1000 - time;
}

/**
 * Returns the calendar days that occur within an hour. When the offset is the same at both ends, it applies to the full
 * hour. Otherwise every minute is checked.
 */
function findDaysInHour(zone: string, hour: number): number[] {
  const minutes = Array.from({ length: 60 }, (_, minute) => hour + minute * MINUTE);
  const ahead = getUtcOffset(zone, hour);
  if (ahead !== getUtcOffset(zone, hour + HOUR_MS)) return minutes.map((minute) => getLocalTime(zone, minute).day);
  return minutes.map((minute) => Math.floor((minute + ahead) / DAY));
}

/** Returns the start of each calendar day around a time, to the minute. */
function findDayStarts(zone: string, time: number): { day: number; start: number }[] {
  const key = `${zone} ${time}`;
  const known = days.get(key);
  if (known) return known;
  const found: { day: number; start: number }[] = [];
  let last = getLocalTime(zone, time - 5 * DAY).day;
  for (let hour = time - 5 * DAY; hour < time + 6 * DAY; hour += HOUR_MS) {
    for (const [minute, day] of findDaysInHour(zone, hour).entries()) {
      if (day <= last) continue;
      found.push({ day, start: hour + minute * MINUTE });
      last = day;
    }
  }
  days.set(key, found);
  return found;
}

/** Returns when the clock of a zone first shows each step of a day, or a later time. */
function findLocalSteps(
  zone: string,
  { day, start }: { day: number; start: number },
  end: number,
  size: number,
): number[] {
  const shown = Array.from({ length: (end - start) / MINUTE }, (_, minute) =>
    getLocalTime(zone, start + minute * MINUTE),
  );
  return Array.from({ length: Math.ceil(DAY / size) }, (_, step) => {
    const at = shown.findIndex((each) => each.day > day || (each.day === day && each.second * 1000 >= step * size));
    return at === -1 ? end : start + at * MINUTE;
  });
}

function naiveEdges(
  zone: string,
  known: readonly { day: number; start: number }[],
  from: number,
  to: number,
  count: number,
  unit: BucketUnit,
): number[] {
  const getStep = (day: number): number => {
    if (unit === BucketUnit.BUCKET_UNIT_DAY) return Math.floor(day / count);
    if (unit === BucketUnit.BUCKET_UNIT_WEEK) return Math.floor(Math.floor((day + 3) / 7) / count);
    const date = new Date(day * DAY);
    return Math.floor(((date.getUTCFullYear() - 1970) * 12 + date.getUTCMonth()) / count);
  };
  const size = { [BucketUnit.BUCKET_UNIT_MINUTE]: MINUTE, [BucketUnit.BUCKET_UNIT_HOUR]: HOUR_MS }[unit as number];
  const edges =
    size === undefined
      ? known
          .filter(({ day }, i) => i > 0 && getStep(day) !== getStep(known[i - 1]?.day ?? 0))
          .map(({ start }) => start)
      : known.flatMap(({ day, start }, i) => {
          const end = known[i + 1]?.start ?? to;
          if (size * count > HOUR_MS && known[i + 1] && end - start !== DAY)
            return findLocalSteps(zone, { day, start }, end, size * count);
          return Array.from(
            { length: Math.ceil((end - start) / (size * count)) },
            (_, step) => start + step * size * count,
          );
        });
  return [from, ...edges.filter((edge) => edge > from && edge < to), to];
}

function naive(edges: readonly number[], samples: readonly (readonly [number, number])[]): ExpectedBucket[] {
  return edges.slice(1).map((end, i) => {
    const start = edges[i] as number;
    return { start, end, samples: samples.filter(([time]) => time >= start && time < end) };
  });
}

/** Computes the time-weighted average span by span. */
function computeAverage({ start, end, samples }: ExpectedBucket, held: number | undefined, now: number): number {
  const until = Math.max(Math.min(end, now), samples.at(-1)?.[0] ?? 0);
  const marks: (readonly [number, number])[] = held === undefined ? [...samples] : [[start, held], ...samples];
  let [area, span] = [0, 0];
  for (const [i, [time, value]] of marks.entries()) {
    const length = (marks[i + 1]?.[0] ?? until) - time;
    area += value * length;
    span += length;
  }
  return span === 0 ? (samples.at(-1)?.[1] ?? Number.NaN) : area / span;
}

function close(actual: number | undefined, expected: number): void {
  expect(Math.abs((actual ?? Number.NaN) - expected)).toBeLessThanOrEqual(1e-9 * Math.max(1, Math.abs(expected)));
}

function expectBucket(
  actual: AggregateBucket | undefined,
  bucket: ExpectedBucket,
  held: number | undefined,
  now: number,
): void {
  const values = bucket.samples.map(([, value]) => value);
  expect(actual?.count).toBe(values.length);
  if (values.length === 0) {
    expect(actual).toMatchObject({
      min: undefined,
      max: undefined,
      avg: undefined,
      sum: undefined,
      first: undefined,
      last: undefined,
      timeWeightedAverage: undefined,
    });
    return;
  }
  const sum = values.reduce((one, other) => one + other, 0);
  expect(actual).toMatchObject({
    sum,
    min: Math.min(...values),
    max: Math.max(...values),
    first: values[0],
    last: values.at(-1),
  });
  close(actual?.avg, sum / values.length);
  close(actual?.timeWeightedAverage, computeAverage(bucket, held, now));
}

function getTime(time: { seconds: number; nanos: number } | undefined): number {
  return time ? fromTimestamp(time) : Number.NaN;
}

describe.each(engines())('aggregates on $name', (engine) => {
  let fixture: QueryFixture;
  beforeAll(async () => {
    fixture = await startQueryFixture(engine);
  });
  afterAll(async () => await fixture.stop());

  /** Writes the hour summaries of stored readings before `until`, as the server does. Stale hours get wrong values. */
  async function sumUp(
    series: number,
    samples: readonly (readonly [number, number])[],
    until: number,
    stale: ReadonlySet<number>,
  ): Promise<void> {
    const hours = new Map<number, NumberSummary>();
    for (const [time, value] of samples.filter(([when]) => when < until)) {
      const known = hours.get(toHour(time));
      if (known) addSample(known, time, value);
      else hours.set(toHour(time), createSummary(time, value));
    }
    const rows = [...hours].map(([hour, { count, sum, min, max, firstTime, first, lastTime, last, area }]) => ({
      series,
      hour,
      count,
      sum: stale.has(hour) ? 12_345 : sum,
      min,
      max,
      first_time: firstTime,
      first,
      last_time: lastTime,
      last,
      area,
    }));
    const { knex } = fixture.database.db;
    for (let i = 0; i < rows.length; i += 50) await knex('reading_hours').insert(rows.slice(i, i + 50));
    const marks = [...stale].filter((hour) => hours.has(hour)).map((hour) => ({ series, hour }));
    if (marks.length > 0) await knex('stale_hours').insert(marks);
    await knex('reading_series').where({ number: series }).update({ summed_until: until });
  }

  const lengths = fc.constantFrom<[number, BucketUnit]>(
    [15, BucketUnit.BUCKET_UNIT_MINUTE],
    [1, BucketUnit.BUCKET_UNIT_HOUR],
    [6, BucketUnit.BUCKET_UNIT_HOUR],
    [1, BucketUnit.BUCKET_UNIT_DAY],
    [3, BucketUnit.BUCKET_UNIT_DAY],
    [1, BucketUnit.BUCKET_UNIT_WEEK],
    [1, BucketUnit.BUCKET_UNIT_MONTH],
  );
  // Start times around clock changes, the date line, and midnights that occur twice or never.
  const starts = fc.constantFrom(
    Date.UTC(2025, 2, 29),
    Date.UTC(2025, 9, 25),
    Date.UTC(2011, 11, 28),
    Date.UTC(2010, 10, 5),
    Date.UTC(2017, 9, 13),
    Date.UTC(2018, 1, 16),
    Date.UTC(2025, 3, 4),
    Date.UTC(2025, 10, 1),
  );

  it(`match a naive computation (seed ${SEED})`, async () => {
    const cases = fc.record({
      zone: fc.constantFrom(...ZONES),
      length: lengths,
      start: starts,
      before: fc.integer({ min: 0, max: 3 * 24 * 60 }),
      span: fc.integer({ min: 1, max: 5 * 24 * 60 }),
      samples: fc.array(
        fc.tuple(fc.integer({ min: -3 * 24 * 60, max: 6 * 24 * 60 }), fc.integer({ min: -50, max: 50 })),
        { maxLength: 120 },
      ),
      summed: fc.integer({ min: -80, max: 160 }),
      stale: fc.array(fc.integer({ min: -80, max: 160 }), { maxLength: 10 }),
    });
    await fc.assert(
      fc.asyncProperty(cases, async ({ zone, length: [count, unit], start, before, span, samples, summed, stale }) => {
        const from = start - before * MINUTE;
        const to = from + span * MINUTE;
        const readings = samples
          .map(([minute, value]) => [start + minute * MINUTE + Math.abs(value) * 7, value] as const)
          .toSorted(([one], [other]) => one - other);
        const sensorId = await fixture.sensor();
        const series = await fixture.store(sensorId, 'number', readings);
        await sumUp(series, readings, start + summed * HOUR_MS, new Set(stale.map((hour) => start + hour * HOUR_MS)));
        const { sensors } = await fixture.aggregate({
          sensorIds: [sensorId],
          from: at(from),
          to: at(to),
          bucket: { count, unit },
          timeZone: zone,
          fill: AggregateFill.AGGREGATE_FILL_NULL,
        });
        const actual = sensors[0]?.buckets ?? [];
        const expected = naive(naiveEdges(zone, findDayStarts(zone, start), from, to, count, unit), readings);
        expect(actual.map(({ start: one, end }) => [getTime(one), getTime(end)])).toEqual(
          expected.map(({ start: one, end }) => [one, end]),
        );
        let held = readings.findLast(([time]) => time < from)?.[1];
        for (const [i, bucket] of expected.entries()) {
          expectBucket(actual[i], bucket, held, fixture.devices.clock.now());
          held = bucket.samples.at(-1)?.[1] ?? held;
        }
      }),
      { seed: SEED, numRuns: 100 },
    );
  });

  const START = Date.UTC(2025, 5, 2);
  const hours = { count: 1, unit: BucketUnit.BUCKET_UNIT_HOUR };

  async function filled(fill: AggregateFill, functions: AggregateFunction[] = []): Promise<AggregateBucket[]> {
    const sensorId = await fixture.sensor();
    await fixture.store(sensorId, 'number', [
      [START - DAY, 4],
      [START + HOUR_MS, 10],
      [START + 1.5 * HOUR_MS, 20],
      [START + 4 * HOUR_MS, 50],
    ]);
    const { sensors } = await fixture.aggregate({
      sensorIds: [sensorId],
      from: at(START),
      to: at(START + 6 * HOUR_MS),
      bucket: hours,
      fill,
      functions,
    });
    return sensors[0]?.buckets ?? [];
  }

  it('omit buckets without readings, or fill them', async () => {
    const only = [AggregateFunction.AGGREGATE_FUNCTION_AVG, AggregateFunction.AGGREGATE_FUNCTION_COUNT];
    const shown = async (fill: AggregateFill) => (await filled(fill, only)).map(({ avg, count }) => [avg, count]);
    expect(await shown(AggregateFill.AGGREGATE_FILL_NONE)).toEqual([
      [15, 2],
      [50, 1],
    ]);
    expect(await shown(AggregateFill.AGGREGATE_FILL_NULL)).toEqual([
      [undefined, 0],
      [15, 2],
      [undefined, 0],
      [undefined, 0],
      [50, 1],
      [undefined, 0],
    ]);
    expect(await shown(AggregateFill.AGGREGATE_FILL_PREVIOUS)).toEqual([
      [4, 0],
      [15, 2],
      [15, 0],
      [15, 0],
      [50, 1],
      [50, 0],
    ]);
    const linear = await shown(AggregateFill.AGGREGATE_FILL_LINEAR);
    expect(linear.map(([, count]) => count)).toEqual([0, 2, 0, 0, 1, 0]);
    for (const [i, expected] of [15, 26 + 2 / 3, 38 + 1 / 3, 50].entries())
      close(linear[i + 1]?.[0] ?? undefined, expected);
    expect([linear[0]?.[0], linear[5]?.[0]]).toEqual([undefined, undefined]);
    for (const fill of [AggregateFill.AGGREGATE_FILL_LINEAR, AggregateFill.AGGREGATE_FILL_PREVIOUS])
      expect((await filled(fill)).map(({ sum }) => sum)).toEqual([undefined, 30, undefined, undefined, 50, undefined]);
  });

  it('of several hours start by the local clock even on days when it changes, in any spelling of the zone', async () => {
    const sensorIds = [await fixture.sensor()];
    const edges = async (day: number, timeZone: string) => {
      const { sensors } = await fixture.aggregate({
        sensorIds,
        from: at(day),
        to: at(day + DAY),
        bucket: { count: 6, unit: BucketUnit.BUCKET_UNIT_HOUR },
        timeZone,
        fill: AggregateFill.AGGREGATE_FILL_NULL,
      });
      return (sensors[0]?.buckets ?? [])
        .slice(1)
        .map(({ start }) => new Date(getTime(start)).toISOString().slice(8, 13));
    };
    expect(await edges(Date.UTC(2026, 2, 28, 23), 'Europe/Rome')).toEqual(['29T04', '29T10', '29T16', '29T22']);
    expect(await edges(Date.UTC(2026, 9, 24, 22), 'europe/ROME')).toEqual(['25T05', '25T11', '25T17']);
  });

  it('use the held value as the time-weighted average of a filled bucket', async () => {
    const buckets = await filled(AggregateFill.AGGREGATE_FILL_PREVIOUS);
    expect(buckets.map(({ timeWeightedAverage }) => timeWeightedAverage)).toEqual([4, 15, 20, 20, 50, 50]);
    expect(buckets[0]).toMatchObject({ min: 4, max: 4, first: 4, last: 4, sum: undefined });
  });

  it('end the time-weighted average of the current bucket now', async () => {
    const now = fixture.devices.clock.now();
    const sensorId = await fixture.sensor();
    await fixture.store(sensorId, 'number', [
      [now - 3 * MINUTE, 0],
      [now - MINUTE, 30],
    ]);
    const { sensors } = await fixture.aggregate({
      sensorIds: [sensorId],
      from: at(now - 3 * MINUTE),
      to: at(now + DAY),
      bucket: { count: 1, unit: BucketUnit.BUCKET_UNIT_MONTH },
    });
    close(sensors[0]?.buckets[0]?.timeWeightedAverage, 10);
  });

  it('include only meaningful fields for strings and JSON, and count a boolean as 0 or 1', async () => {
    const {
      sensorIds: [text = '', json = '', flag = ''],
    } = await fixture.device(['string', 'json', 'boolean']);
    await fixture.store(text, 'string', [
      [START, 'off'],
      [START + MINUTE, 'on'],
      [START + 2 * MINUTE, '=1'],
    ]);
    await fixture.store(json, 'json', [
      [START, { a: [1, null] }],
      [START + 3 * HOUR_MS, null],
    ]);
    await fixture.store(flag, 'boolean', [
      [START, true],
      [START + 30 * MINUTE, false],
    ]);
    const { sensors } = await fixture.aggregate({
      sensorIds: [text, json, flag],
      from: at(START),
      to: at(START + 4 * HOUR_MS),
      bucket: { count: 4, unit: BucketUnit.BUCKET_UNIT_HOUR },
    });
    const [texts, jsons, flags] = sensors.map(({ buckets }) => buckets[0]);
    expect(texts).toMatchObject({
      count: 3,
      firstValue: 'off',
      lastValue: '=1',
      min: undefined,
      avg: undefined,
      first: undefined,
    });
    expect(jsons).toMatchObject({ count: 2, firstValue: { a: [1, null] }, lastValue: null });
    expect(flags).toMatchObject({
      count: 2,
      first: 1,
      last: 0,
      sum: 1,
      avg: 0.5,
      min: 0,
      max: 1,
      timeWeightedAverage: 0.125,
      firstValue: undefined,
    });
  });

  it('use complete hours of downsampled readings', async () => {
    const sensorId = await fixture.sensor();
    const readings = [
      [START + 10 * MINUTE, 1],
      [START + 50 * MINUTE, 3],
      [START + 70 * MINUTE, 5],
    ] as const;
    const series = await fixture.store(sensorId, 'number', readings);
    await sumUp(series, readings, START + DAY, new Set([START + HOUR_MS]));
    await fixture.database.db.knex('readings').where({ series }).delete();
    await fixture.database.db
      .knex('reading_series')
      .where({ number: series })
      .update({ thinned_until: START + 2 * HOUR_MS });
    const query = {
      sensorIds: [sensorId],
      from: at(START + 5 * MINUTE),
      to: at(START + DAY),
      bucket: { count: 1, unit: BucketUnit.BUCKET_UNIT_DAY },
      timeZone: 'Asia/Kolkata',
    };
    const { sensors, downsampledBefore } = await fixture.aggregate(query);
    expect(sensors[0]?.buckets).toEqual([expect.objectContaining({ count: 3, min: 1, max: 5, first: 1, last: 5 })]);
    expect(getTime(downsampledBefore)).toBe(START + 2 * HOUR_MS);
    for (const bucket of [
      { count: 1, unit: BucketUnit.BUCKET_UNIT_HOUR },
      { count: 60, unit: BucketUnit.BUCKET_UNIT_MINUTE },
      { count: 3600, unit: BucketUnit.BUCKET_UNIT_SECOND },
    ]) {
      const actual = await fixture.aggregate({ ...query, timeZone: '', from: at(START), bucket });
      expect(actual.sensors[0]?.buckets.map(({ count, last }) => [count, last])).toEqual([
        [2, 3],
        [1, 5],
      ]);
    }
    const later = await fixture.aggregate({
      ...query,
      from: at(START + 2 * HOUR_MS),
      fill: AggregateFill.AGGREGATE_FILL_PREVIOUS,
    });
    expect([later.downsampledBefore, later.sensors[0]?.buckets[0]?.last]).toEqual([undefined, 5]);
  });

  it('are paged by complete sensors', async () => {
    const { sensorIds } = await fixture.device(['number', 'number', 'number']);
    for (const sensorId of sensorIds) await fixture.store(sensorId, 'number', [[START, 1]]);
    const query = {
      sensorIds: [...sensorIds],
      from: at(START),
      to: at(START + 5000 * MINUTE),
      bucket: { count: 1, unit: BucketUnit.BUCKET_UNIT_MINUTE },
    };
    const first = await fixture.aggregate(query);
    const second = await fixture.aggregate({ ...query, pageToken: first.nextPageToken });
    expect([first, second].map(({ sensors }) => sensors.map(({ sensorId }) => sensorId))).toEqual([
      sensorIds.slice(0, 2),
      sensorIds.slice(2),
    ]);
    expect(second.nextPageToken).toBe('');
    expect(
      await fixture.aggregate.fails({ ...query, timeZone: 'Europe/Rome', pageToken: first.nextPageToken }),
    ).toMatchObject({ reason: 'validation_failed', fields: ['pageToken'] });
  });

  it('are rejected with all violations', async () => {
    const query = { sensorIds: [await fixture.sensor()], from: at(START), to: at(START + DAY), bucket: hours };
    const wrong = await fixture.aggregate.fails({
      ...query,
      to: at(START),
      bucket: { count: 7, unit: BucketUnit.BUCKET_UNIT_HOUR },
      timeZone: 'Mars/Olympus',
      functions: [0],
    });
    expect(wrong.fields.toSorted()).toEqual(['bucket', 'functions[0]', 'timeZone', 'to']);
    const many = await fixture.aggregate.fails({ ...query, bucket: { count: 1, unit: BucketUnit.BUCKET_UNIT_SECOND } });
    expect(many).toMatchObject({ reason: 'validation_failed', fields: ['bucket'] });
    expect(many.message).toContain('more than 10500 buckets');
    expect(
      await fixture.aggregate.fails({ ...query, bucket: { count: 1001, unit: BucketUnit.BUCKET_UNIT_DAY } }),
    ).toMatchObject({ fields: ['bucket'] });
    expect(await fixture.aggregate.fails(query, 'org-2')).toMatchObject({ reason: 'sensor_not_found' });
  });

  it('are empty for a sensor without readings', async () => {
    const { sensors } = await fixture.aggregate({
      sensorIds: [await fixture.sensor()],
      from: at(START),
      to: at(START + DAY),
      bucket: hours,
      fill: AggregateFill.AGGREGATE_FILL_LINEAR,
    });
    expect(sensors[0]?.buckets).toHaveLength(24);
    expect(sensors[0]?.buckets.every(({ count, avg }) => count === 0 && avg === undefined)).toBe(true);
  });
});

import { fromTimestamp } from '../../src/kernel/timestamps';
import type { Reading } from '../../src/gen/sensorquery/v1/sensor_query_service';
import { hourQueryStatements } from '../../src/telemetry/readings/hourQueryRepository';
import { readingQueryStatements } from '../../src/telemetry/readings/readingQueryRepository';
import { engines } from '../support/engines';
import { at, type QueryFixture, type TimedValue, startQueryFixture, getValue } from './queryFixture';

const START = Date.UTC(2025, 5, 2);
const END = START + 3_600_000;
const span = { from: at(START), to: at(END) };

function shown(readings: readonly Reading[]): [number, unknown][] {
  return readings.map((reading) => [
    reading.time ? fromTimestamp(reading.time) - START : Number.NaN,
    getValue(reading),
  ]);
}

describe.each(engines())('reading ranges on $name', (engine) => {
  let fixture: QueryFixture;
  beforeAll(async () => {
    fixture = await startQueryFixture(engine);
  });
  afterAll(async () => await fixture.stop());

  /** Reads all pages of a request. */
  async function pages(fields: Parameters<QueryFixture['range']>[0]): Promise<Reading[][]> {
    const all: Reading[][] = [];
    for (let pageToken = ''; ;) {
      const { readings, nextPageToken } = await fixture.range({ ...fields, pageToken });
      all.push(readings);
      if (nextPageToken === '') return all;
      pageToken = nextPageToken;
    }
  }

  it('shows each value type unchanged', async () => {
    const { sensorIds } = await fixture.device(['number', 'integer', 'boolean', 'string', 'json']);
    const [number = '', integer = '', boolean = '', text = '', json = ''] = sensorIds;
    await fixture.store(number, 'number', [[START, 21.5]]);
    await fixture.store(integer, 'integer', [[START, -9_007_199_254_740_991]]);
    await fixture.store(boolean, 'boolean', [[START, false]]);
    await fixture.store(text, 'string', [
      [START, '=1+1'],
      [START + 1, 'half \ud800'],
    ]);
    await fixture.store(json, 'json', [
      [START, { list: [1, null, 'x'] }],
      [START + 1, null],
    ]);
    const { readings, nextPageToken, downsampledBefore } = await fixture.range({ sensorIds: [...sensorIds], ...span });
    expect(readings.map(({ value }) => value)).toEqual([
      { $case: 'number', value: 21.5 },
      { $case: 'integer', value: -9_007_199_254_740_991 },
      { $case: 'boolean', value: false },
      { $case: 'text', value: '=1+1' },
      { $case: 'text', value: 'half \ufffd' },
      { $case: 'json', value: { list: [1, null, 'x'] } },
      { $case: 'json', value: null },
    ]);
    expect([nextPageToken, downsampledBefore]).toEqual(['', undefined]);
  });

  it('iterates over sensors, times and positions in order, without gaps or duplicates between pages', async () => {
    const sensorIds = [await fixture.sensor(), await fixture.sensor(), await fixture.sensor()] as const;
    const readings: TimedValue[] = [
      [START - 1, -1],
      [START, 0],
      [START + 5, 1],
      [START + 5, 2],
      [START + 5, 3],
      [START + 9, 4],
      [END - 1, 5],
      [END, 6],
    ];
    await fixture.store(sensorIds[0], 'number', readings);
    await fixture.store(sensorIds[2], 'number', [
      [START + 7, 10],
      [START + 3, 11],
    ]);
    const expected = [
      [0, 0],
      [5, 1],
      [5, 2],
      [5, 3],
      [9, 4],
      [3_599_999, 5],
      [3, 11],
      [7, 10],
    ];
    const descending = [
      [3_599_999, 5],
      [9, 4],
      [5, 3],
      [5, 2],
      [5, 1],
      [0, 0],
      [7, 10],
      [3, 11],
    ];
    for (const pageSize of [1, 2, 3, 6, 7, 8, 100]) {
      const up = await pages({ sensorIds: [...sensorIds], ...span, pageSize });
      expect(shown(up.flat())).toEqual(expected);
      expect(up.every((page) => page.length > 0 && page.length <= pageSize)).toBe(true);
      expect(shown((await pages({ sensorIds: [...sensorIds], ...span, pageSize, order: 2 })).flat())).toEqual(
        descending,
      );
    }
  });

  it('returns at most 5,000 readings per page, and fewer when they are large', async () => {
    const [many, long] = [await fixture.sensor(), await fixture.sensor('string')];
    await fixture.store(
      many,
      'number',
      Array.from({ length: 10_001 }, (_, i) => [START + i, i]),
    );
    await fixture.store(
      long,
      'string',
      Array.from({ length: 40 }, (_, i) => [START + i, 'x'.repeat(60_000)]),
    );
    expect((await pages({ sensorIds: [many], ...span, pageSize: 1_000_000 })).map((page) => page.length)).toEqual([
      5000, 5000, 1,
    ]);
    for (const size of [{}, { pageSize: 0 }])
      expect((await pages({ sensorIds: [many], ...span, ...size })).map((page) => page.length)).toEqual([
        ...Array.from({ length: 10 }, () => 1000),
        1,
      ]);
    const texts = await pages({ sensorIds: [long], ...span });
    expect(texts.map((page) => page.length)).toEqual([18, 18, 4]);
  });

  it('rejects tokens that it did not issue and invalid times', async () => {
    const sensorIds = [await fixture.sensor()];
    await fixture.store(sensorIds[0] ?? '', 'number', [
      [START, 1],
      [START + 1, 2],
    ]);
    const { nextPageToken: pageToken } = await fixture.range({ sensorIds, ...span, pageSize: 1 });
    for (const other of [{ order: 2 }, { to: at(END + 1) }, { sensorIds: [await fixture.sensor()] }]) {
      expect(await fixture.range.fails({ sensorIds, ...span, pageToken, ...other })).toMatchObject({
        reason: 'validation_failed',
        fields: ['pageToken'],
      });
    }
    expect(await fixture.range.fails({ sensorIds, from: at(END), to: at(END) })).toMatchObject({
      reason: 'validation_failed',
      fields: ['to'],
    });
    expect((await fixture.range.fails({ sensorIds: [] })).fields).toEqual(['sensorIds', 'from', 'to']);
    expect(
      (await fixture.range.fails({ sensorIds: [sensorIds[0] ?? '', sensorIds[0] ?? ''], ...span })).fields,
    ).toEqual(['sensorIds[1]']);
  });

  it('does not find a sensor that was deleted, even with leftover readings, or that belongs to another organization', async () => {
    const sensorId = await fixture.sensor();
    await fixture.store(sensorId, 'number', [[START, 1]]);
    await fixture.database.db.knex('sensors').where({ id: sensorId }).delete();
    const foreignSensorId = await fixture.sensor('number', 'org-2');
    for (const id of [sensorId, foreignSensorId]) {
      expect(await fixture.range.fails({ sensorIds: [id], ...span })).toMatchObject({
        code: 5,
        reason: 'sensor_not_found',
        metadata: { sensor_id: id },
      });
      expect(await fixture.latest.fails({ sensorIds: [id] })).toMatchObject({ code: 5, reason: 'sensor_not_found' });
    }
  });

  it('reports since when readings are complete', async () => {
    const sensorId = await fixture.sensor();
    const series = await fixture.store(sensorId, 'number', [[START, 1]]);
    await fixture.database.db
      .knex('reading_series')
      .where({ number: series })
      .update({ thinned_until: START + 1000 });
    const { downsampledBefore } = await fixture.range({ sensorIds: [sensorId], ...span });
    expect(downsampledBefore && fromTimestamp(downsampledBefore)).toBe(START + 1000);
    expect(
      (await fixture.range({ sensorIds: [sensorId], from: at(START + 1000), to: at(END) })).downsampledBefore,
    ).toBeUndefined();
  });

  it.each(
    [...Object.values(readingQueryStatements), ...Object.values(hourQueryStatements)].map(
      (statement) => [statement.name, statement] as const,
    ),
  )('%s reads its part of one series through an index', async (_, statement) => {
    const { db } = fixture.database;
    const series = await fixture.store(
      await fixture.sensor(),
      'number',
      Array.from({ length: 2000 }, (__, i) => [START + i, i]),
    );
    const rows = Array.from({ length: 2000 }, (__, hour) => ({
      series,
      hour: hour * 3_600_000,
      count: 1,
      sum: 1,
      min: 1,
      max: 1,
      first_time: hour,
      first: 1,
      last_time: hour,
      last: 1,
      area: 0,
    }));
    for (let i = 0; i < rows.length; i += 50) {
      await db.knex('reading_hours').insert(rows.slice(i, i + 50));
      await db.knex('stale_hours').insert(rows.slice(i, i + 50).map(({ hour }) => ({ series, hour })));
    }
    const sql = statement.sql();
    const prefix = engine.name === 'sqlite' ? 'explain query plan' : 'explain';
    if (engine.name === 'postgres')
      for (const table of ['readings', 'reading_hours', 'stale_hours']) await db.knex.raw(`analyze ${table}`);
    let next = 0;
    const isOfMany = ['readings.stored', 'readings.withTexts'].includes(statement.name);
    const values = isOfMany ? [series] : [series, START, START + 5, 7, 100];
    const filled = sql.replaceAll('?', () => String(values[Math.min((next += 1) - 1, values.length - 1)]));
    const plan = JSON.stringify(await db.all({ name: `plan ${statement.name}`, sql: () => `${prefix} ${filled}` }, []));
    // The stored rows are sorted again because the part is only approximately ordered by time.
    expect(plan).not.toMatch(isOfMany ? /Seq Scan|SCAN (?!wanted|w|r\b|\d)/ : /Seq Scan|SCAN |TEMP B-TREE|Sort/);
    expect(plan).toMatch(
      engine.name === 'sqlite'
        ? /SEARCH \w+ USING (PRIMARY KEY|INDEX|COVERING INDEX) .*\(series=\? AND /
        : /Index (Only )?Scan/,
    );
    await db.knex('reading_hours').where({ series }).delete();
    await db.knex('stale_hours').where({ series }).delete();
  });
});

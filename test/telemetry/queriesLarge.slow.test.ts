import {
  AggregateFill,
  AggregateFunction,
  BucketUnit,
  QueryRangeResponse,
  StreamReadingsResponse,
} from '../../src/gen/sensorquery/v1/sensor_query_service';
import { estimateReadingSize } from '../../src/telemetry/queries/readingSize';
import { listAnswers } from '../support/edge';
import { engines } from '../support/engines';
import { at, type QueryFixture, startQueryFixture } from './queryFixture';
import { SendingDevice } from './sendingDevice';

const START = Date.UTC(2025, 5, 2);
const MINUTE = 60_000;
const LONG = 'x'.repeat(60_000);
const LIST = Array.from({ length: 30_000 }, () => 1); // This is 60 KB as JSON and 330 KB on the wire.
const minutes = { count: 1, unit: BucketUnit.BUCKET_UNIT_MINUTE };

const every = (count: number, value: string | number[]): [number, string | number[]][] =>
  Array.from({ length: count }, (_, i) => [START + i * MINUTE, value]);
const over = (sensorIds: readonly string[], count: number) => ({
  sensorIds: [...sensorIds],
  from: at(START),
  to: at(START + count * MINUTE),
  bucket: minutes,
});
const listKeys = (items: readonly StreamReadingsResponse[]) =>
  new Set(items.flatMap(({ readings }) => readings.map(({ sensorId, sequence }) => `${sensorId}/${sequence}`)));

// The clients accept 4 MiB, which is the gRPC default.
describe.each(engines())('large values on $name', (engine) => {
  let fixture: QueryFixture;
  beforeAll(async () => {
    fixture = await startQueryFixture(engine);
  });
  afterAll(async () => await fixture.stop());

  it('are not repeated in filled buckets without a limit', async () => {
    const sensorId = await fixture.sensor('string');
    await fixture.store(sensorId, 'string', [
      [START, LONG],
      [START + 100 * MINUTE, 'short'],
    ]);
    const query = { ...over([sensorId], 10_000), fill: AggregateFill.AGGREGATE_FILL_PREVIOUS };
    const refused = await fixture.aggregate.fails(query);
    expect(refused).toMatchObject({ reason: 'validation_failed', fields: ['bucket'] });
    expect(refused.message).toContain('2 MiB');
    const { sensors } = await fixture.aggregate({ ...query, from: at(START + MINUTE * 100) });
    expect(sensors[0]?.buckets.every(({ lastValue }) => lastValue === 'short')).toBe(true);
    const few = await fixture.aggregate({ ...query, to: at(START + 10 * MINUTE) });
    expect(few.sensors[0]?.buckets.map(({ lastValue }) => String(lastValue).length)).toEqual(
      Array.from({ length: 10 }, () => LONG.length),
    );
  });

  it('do not affect aggregates that do not show them; only shown values count', async () => {
    const sensorId = await fixture.sensor('string');
    await fixture.store(sensorId, 'string', every(40, LONG));
    expect(await fixture.aggregate.fails(over([sensorId], 40))).toMatchObject({ fields: ['bucket'] });
    const count = await fixture.aggregate({
      ...over([sensorId], 40),
      functions: [AggregateFunction.AGGREGATE_FUNCTION_COUNT],
    });
    expect(count.sensors[0]?.buckets).toMatchObject(
      Array.from({ length: 40 }, () => ({ count: 1, firstValue: undefined })),
    );
    const last = await fixture.aggregate({
      ...over([sensorId], 30),
      functions: [AggregateFunction.AGGREGATE_FUNCTION_LAST],
    });
    expect(last.sensors[0]?.buckets.map(({ firstValue, lastValue }) => [firstValue, lastValue])).toEqual(
      Array.from({ length: 30 }, () => [undefined, LONG]),
    );
  });

  it('make pages of aggregates smaller', async () => {
    const { sensorIds } = await fixture.device(['string', 'string', 'string', 'string']);
    for (const sensorId of sensorIds) await fixture.store(sensorId, 'string', every(3, LONG));
    const shown: number[] = [];
    for (let pageToken = ''; ;) {
      const page = await fixture.aggregate({ ...over(sensorIds, 3), pageToken });
      shown.push(page.sensors.length);
      pageToken = page.nextPageToken;
      if (pageToken === '') break;
    }
    expect(shown).toEqual([2, 2]);
  });

  it('are measured by their size on the wire, in ranges and latest readings', async () => {
    const { sensorIds } = await fixture.device(Array.from({ length: 8 }, () => 'json' as const));
    await fixture.store(sensorIds[0] ?? '', 'json', every(9, LIST));
    const pages: number[] = [];
    for (let pageToken = ''; ;) {
      const page = await fixture.range({ ...over(sensorIds.slice(0, 1), 9), pageToken });
      const bytes = QueryRangeResponse.encode(page).finish().length;
      expect(bytes).toBeLessThan(1.5 * 1024 * 1024);
      expect(
        page.readings.reduce(
          (sum, { value }) =>
            sum + (value?.$case === 'json' ? estimateReadingSize({ valueType: 'json', value: value.value }) : 0),
          0,
        ),
      ).toBeGreaterThanOrEqual(bytes - 1000);
      pages.push(page.readings.length);
      pageToken = page.nextPageToken;
      if (pageToken === '') break;
    }
    expect(pages).toEqual([4, 4, 1]);
    for (const sensor_id of sensorIds) {
      await fixture.database.db.knex('latest_readings').insert({
        sensor_id,
        organization_id: 'org-1',
        physical_device_id: 'p',
        source_path: 'a',
        value: JSON.stringify(LIST),
        received_at: START,
        buffered: 0,
      });
    }
    expect(await fixture.latest.fails({ sensorIds: [...sensorIds] })).toMatchObject({
      reason: 'validation_failed',
      fields: ['sensorIds'],
    });
    expect((await fixture.latest({ sensorIds: sensorIds.slice(0, 5) })).sensors).toHaveLength(5);
  });

  it('are streamed in responses of a bounded size, live, after falling behind, and after resuming', async () => {
    const device = await SendingDevice.create(fixture, ['t'], 'string');
    const read = async (
      fields: Parameters<QueryFixture['stream']>[0],
      onFirst: () => Promise<void>,
    ): Promise<StreamReadingsResponse[]> => {
      const items: StreamReadingsResponse[] = [];
      for await (const item of listAnswers(fixture.stream(fields))) {
        items.push(item);
        if (items.length === 1) await onFirst();
        if (items.reduce((sum, { readings }) => sum + readings.length, 0) >= 120 && items.at(-1)?.resumeToken !== '')
          break;
      }
      return items;
    };
    const live = await read({ deviceIds: [device.deviceId] }, async () => {
      for (let n = 0; n < 120; n += 1) await device.send({ t: `${LONG}${n}` });
    });
    const resumed = await read(
      { deviceIds: [device.deviceId], resumeToken: live[0]?.resumeToken ?? '' },
      async () => {},
    );
    for (const items of [live, resumed]) {
      expect(Math.max(...items.map((item) => StreamReadingsResponse.encode(item).finish().length))).toBeLessThan(
        350_000,
      );
      expect(
        new Set(
          items.flatMap(({ readings }) =>
            readings.map(({ value }) => (value?.$case === 'text' ? value.value.slice(LONG.length) : '')),
          ),
        ),
      ).toEqual(new Set(Array.from({ length: 120 }, (_, n) => String(n))));
    }
    expect(listKeys(live)).toEqual(listKeys(resumed));
    expect(listKeys(live).size).toBe(120);
  });
});

import {
  type SeriesColumns,
  WidgetData,
  type WidgetDataQuery,
  type WidgetSeries,
} from '../../src/telemetry/queries/widgetData';
import { engines } from '../support/engines';
import { DAY, HOUR, type RetentionFixture, startRetentionFixture } from './retentionFixture';

/** Returns the points of a sensor. Fails if it has an error. */
const getColumns = (series: WidgetSeries | undefined): SeriesColumns => {
  if (!series || typeof series.result === 'string') throw new Error('no points');
  return series.result;
};

describe.each(engines())('widget data of stored uplinks on $name', (engine) => {
  let fixture: RetentionFixture;
  let widgetData: WidgetData;
  beforeAll(async () => {
    fixture = await startRetentionFixture(engine);
    const { clock, test } = fixture.devices;
    widgetData = new WidgetData({ database: test.database, clock });
  });
  afterAll(async () => await fixture.stop());

  const query = async (
    fields: Pick<WidgetDataQuery, 'from' | 'to'> & Partial<WidgetDataQuery>,
    signal = new AbortController().signal,
  ): Promise<WidgetSeries[]> =>
    await widgetData.query(
      'org-1',
      { sensorIds: fixture.sensors, timeZone: 'UTC', maxPoints: 500, keyScope: undefined, ...fields },
      signal,
    );

  it('are the same before and after downsampling, with late readings, except for single numbers', async () => {
    const { clock } = fixture.devices;
    const start = clock.now() - (clock.now() % DAY);
    const range = { from: start, to: start + 2 * DAY };
    clock.advance(3 * DAY);
    for (let i = 0; i < 60; i += 1)
      await fixture.uplink(start + ((i * 7919) % ((2 * DAY) / 1000)) * 1000, { a: i - 30, c: `text ${i}` });
    const [numbers, empty, texts] = await query(range);
    expect([numbers, texts].map((series) => getColumns(series).times.length)).toEqual([60, 60]);
    expect(numbers?.result).toMatchObject({ bucketMs: 0, downsampledBefore: undefined });
    expect(empty?.result).toEqual({ times: [], bucketMs: 0 });

    const hours = await query({ ...range, maxPoints: 48 });
    expect(hours[0]?.result).toMatchObject({ bucketMs: HOUR });
    await fixture.summariser.sumUp(fixture.work());
    expect(await query({ ...range, maxPoints: 48 })).toEqual(hours);
    await fixture.uplink(start + 5 * HOUR + 1, { a: 1000 });
    const late = await query({ ...range, maxPoints: 48 });
    expect(getColumns(late[0]).max).toContain(1000);
    await fixture.summariser.recomputeStale(fixture.work());

    await fixture.retain(365, 1);
    clock.advance(3 * DAY);
    await fixture.sumUp();
    await fixture.removal.run(fixture.work());
    expect((await fixture.readings(fixture.sensors[0])).filter(({ num }) => num !== null)).toEqual([]);
    const [downsampled, , allTexts] = await query(range);
    const { downsampledBefore, ...columns } = getColumns(downsampled);
    expect(downsampledBefore).toBeGreaterThanOrEqual(range.to);
    expect({ ...columns, downsampledBefore: undefined }).toEqual(late[0]?.result);
    expect(allTexts).toEqual(texts);
  });

  it('are not read further when the call ends', async () => {
    const controller = new AbortController();
    const now = fixture.devices.clock.now();
    const range = { from: now - DAY, to: now };
    const pending = query(range, controller.signal);
    controller.abort();
    await expect(pending).rejects.toThrow('aborted');
  });
});

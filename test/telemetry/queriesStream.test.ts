import type { ClientReadableStream } from '@grpc/grpc-js';
import type { StreamReadingsResponse } from '../../src/gen/sensorquery/v1/sensor_query_service';
import { Cursors } from '../../src/kernel/pages';
import { ReadingStreams } from '../../src/telemetry/queries/readingStreams';
import { ReadingSequence } from '../../src/telemetry/readings/readingSequence';
import { SeriesRepository } from '../../src/telemetry/readings/seriesRepository';
import { toColumns } from '../../src/telemetry/readings/storedReading';
import { listAnswers } from '../support/edge';
import { engines } from '../support/engines';
import { type QueryFixture, startQueryFixture, getValue } from './queryFixture';
import { SendingDevice } from './sendingDevice';

const DAY = 24 * 3_600_000;

/** Reads until it has this number of readings and the token after them, then disconnects. */
async function read(
  stream: ClientReadableStream<StreamReadingsResponse>,
  count: number,
  onFirst?: () => Promise<void>,
): Promise<StreamReadingsResponse[]> {
  const items: StreamReadingsResponse[] = [];
  let readings = 0;
  for await (const item of listAnswers(stream)) {
    items.push(item);
    readings += item.readings.length;
    if (items.length === 1) await onFirst?.();
    if (readings >= count && item.resumeToken !== '') break;
  }
  return items;
}

const values = (items: readonly StreamReadingsResponse[]): unknown[] =>
  items.flatMap(({ readings }) => readings.map((reading) => getValue(reading)));
const range = (from: number, to: number): number[] => Array.from({ length: to - from }, (_, i) => from + i);

describe.each(engines())('the reading stream on $name', (engine) => {
  let fixture: QueryFixture;
  let one: SendingDevice;
  let two: SendingDevice;
  beforeAll(async () => {
    fixture = await startQueryFixture(engine);
    one = await SendingDevice.create(fixture, ['a', 'b']);
    two = await SendingDevice.create(fixture, ['a']);
  });
  beforeEach(() => fixture.devices.clock.advance(1000));
  afterAll(async () => await fixture.stop());

  const token = async (fields: Parameters<QueryFixture['stream']>[0] = {}): Promise<string> =>
    (await read(fixture.stream(fields), 0))[0]?.resumeToken ?? '';

  it('starts with a token, then shows stored readings of the complete organization', async () => {
    const items = await read(fixture.stream(), 3, async () => {
      await one.send({ a: 1, b: 2 });
      await two.send({ a: 3 });
    });
    expect(items[0]?.readings).toEqual([]);
    expect(items[0]?.resumeToken).not.toBe('');
    expect(values(items)).toEqual([1, 2, 3]);
    expect(items[1]?.readings[0]).toMatchObject({ sensorId: one.sensorIds[0] });
  });

  it('filters by sensors and devices, including sensors that are attached to a device later', async () => {
    const only = fixture.stream({ sensorIds: [one.sensorIds[1] ?? ''], deviceIds: [two.deviceId] });
    const items = await read(only, 4, async () => {
      await one.send({ a: 1, b: 2 });
      await two.send({ a: 3 });
      const { sensors } = await fixture.devices.api.addSensors({
        id: two.deviceId,
        sensorTemplateIds: [fixture.devices.templates[1]],
      });
      const mappings = [
        [0, 'a'],
        [1, 'new'],
      ] as const;
      await fixture.devices.api.setMappings({
        id: two.deviceId,
        mappings: mappings.map(([i, sourcePath]) => ({ sensorId: sensors[i]?.id ?? '', sourcePath })),
      });
      await two.send({ a: 4, new: 5 });
    });
    expect(values(items)).toEqual([2, 3, 4, 5]);
  });

  it('resumes after any token without losing readings, live and from the database', async () => {
    const stream = fixture.stream({ deviceIds: [one.deviceId] });
    const items = await read(stream, 20, async () => {
      for (const n of range(0, 20)) {
        fixture.devices.clock.advance(n * 20_000);
        await one.send({ a: n });
      }
    });
    expect(values(items)).toEqual(range(0, 20));
    let readCount = 0;
    for (const { readings, resumeToken } of items) {
      readCount += readings.length;
      const more = fixture.stream({ deviceIds: [one.deviceId], resumeToken });
      const rest = await read(more, 20 - readCount);
      expect(values(rest)).toEqual(range(readCount, 20));
    }
  });

  it('catches up with thousands of readings of several series, then continues live during parallel writes', async () => {
    const resumeToken = await token();
    const bulk = range(0, 700);
    for (const n of bulk) await one.send({ a: n, b: n });
    const writing = fixture.stream({ resumeToken });
    const items = await read(writing, 1500, async () => {
      await Promise.all(range(700, 800).map(async (n) => await two.send({ a: n })));
    });
    const shown = values(items) as number[];
    expect(new Set(shown)).toEqual(new Set(range(0, 800)));
    expect(shown.filter((n) => n < 700)).toHaveLength(1400);
    expect(items.every(({ readings }) => readings.length <= 500)).toBe(true);
  });

  it('lets a stalled reader continue, and another one read the same from the database', async () => {
    const stream = fixture.stream({ deviceIds: [one.deviceId] });
    const many = range(0, 3000);
    const items = await read(stream, 6001, async () => {
      stream.pause();
      await one.send({ a: 0 }); // This makes pages of the database end between readings of one position.
      for (const n of many) await one.send({ a: n, b: n });
    });
    expect(new Set(values(items))).toEqual(new Set(many));
    const again = await read(
      fixture.stream({ deviceIds: [one.deviceId], resumeToken: items[0]?.resumeToken ?? '' }),
      6001,
    );
    const keys = again.flatMap(({ readings }) => readings.map(({ sensorId, sequence }) => `${sensorId}/${sequence}`));
    expect([keys.length, new Set(keys).size]).toEqual([6001, 6001]);
    await one.send({ a: 1 });
    const more = fixture.stream({ deviceIds: [one.deviceId], resumeToken: items.at(-1)?.resumeToken ?? '' });
    expect(values(await read(more, 1))).toEqual([1]);
  });

  it('rejects tokens that it did not issue, that lie in the future, or whose readings were deleted', async () => {
    const resumeToken = await token();
    expect(await fixture.streamFails({ resumeToken: 'invented' })).toMatchObject({
      reason: 'validation_failed',
      fields: ['resumeToken'],
    });
    expect(await fixture.streamFails({ resumeToken, deviceIds: [one.deviceId] })).toMatchObject({
      reason: 'validation_failed',
      fields: ['resumeToken'],
    });
    const restored = await startQueryFixture(engine);
    restored.devices.clock.advance(-DAY);
    expect(await restored.streamFails({ resumeToken })).toMatchObject({
      reason: 'validation_failed',
      fields: ['resumeToken'],
    });
    await restored.stop();
    await one.send({ a: 1 });
    fixture.devices.clock.advance(364 * DAY);
    expect(values(await read(fixture.stream({ resumeToken }), 1))).toEqual([1]);
    fixture.devices.clock.advance(2 * DAY);
    expect(await fixture.streamFails({ resumeToken })).toMatchObject({ code: 11, reason: 'resume_token_expired' });
  });

  it('resumes after the last stored position, even after a long pause and a clock that was set back before a restart', async () => {
    const {
      database,
      devices: { clock },
    } = fixture;
    await one.send({ a: 1 });
    clock.advance(DAY);
    const resumeToken = await token({ deviceIds: [one.deviceId] });
    clock.advance(-DAY / 2);
    const restarted = new ReadingSequence(clock);
    restarted.startAfter(await new SeriesRepository(database.db).findLastPosition());
    const position = restarted.open('org-1');
    const { number: series } = await database.db
      .knex('reading_series')
      .where({ sensor_id: one.sensorIds[0] })
      .first<{ number: number }>('number');
    await database.db.knex('readings').insert({ series, time: clock.now(), position, ...toColumns('number', 2) });
    restarted.close('org-1', position);
    const end = new AbortController();
    const streams = new ReadingStreams({
      database,
      clock,
      positions: restarted,
      cursors: new Cursors(Buffer.alloc(32)),
    });
    const shown = [];
    for await (const { readings } of streams.watch(
      'org-1',
      { sensorIds: [], deviceIds: [one.deviceId], resumeToken },
      end.signal,
    )) {
      shown.push(...readings.map(({ value }) => value));
      if (shown.length > 0) break;
    }
    expect(shown).toEqual([2]);
  });

  it('rejects unknown sensors and devices', async () => {
    const foreignDevice = await fixture.device(['number'], 'org-2');
    expect(await fixture.streamFails({ sensorIds: [...foreignDevice.sensorIds] })).toMatchObject({
      reason: 'sensor_not_found',
    });
    expect(await fixture.streamFails({ deviceIds: [foreignDevice.deviceId] })).toMatchObject({
      reason: 'device_not_found',
    });
  });
});

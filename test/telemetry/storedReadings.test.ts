import fc from 'fast-check';
import type { UplinkMessage } from '../../src/connections';
import type { JsonValue } from '../../src/kernel/jsonValue';
import { ReadingSequence, SeriesIdCache, type StoredReading, UplinkPipeline } from '../../src/telemetry';
import { ReadingQueryRepository } from '../../src/telemetry/readings/readingQueryRepository';
import { ReadingRepository } from '../../src/telemetry/readings/readingRepository';
import { RefusedValueRepository } from '../../src/telemetry/readings/refusedValueRepository';
import { SeriesRepository } from '../../src/telemetry/readings/seriesRepository';
import {
  toColumns,
  LATE_POSITIONS,
  POSITIONS_PER_MS,
  getReceivedAt,
  getValue,
} from '../../src/telemetry/readings/storedReading';
import type { ValueType } from '../../src/sensorTemplates';
import { startDeviceFixture, type DeviceFixture } from '../support/deviceFixture';
import { engines } from '../support/engines';

const SEED = Number(process.env['SEED'] ?? 20261121);
const HOUR = 3_600_000;
let next = 0;

describe('a value in its columns', () => {
  const values: Readonly<Record<ValueType, fc.Arbitrary<JsonValue>>> = {
    number: fc.double({ noNaN: true, noDefaultInfinity: true }).map((value) => value + 0),
    integer: fc.maxSafeInteger(),
    boolean: fc.boolean(),
    string: fc.string({ unit: 'binary' }),
    json: fc.jsonValue().map((value) => JSON.parse(JSON.stringify(value)) as JsonValue),
  };

  it.each(Object.entries(values) as [ValueType, fc.Arbitrary<JsonValue>][])(
    'is read back unchanged: %s',
    (valueType, value) => {
      fc.assert(
        fc.property(value, (one) => expect(getValue(toColumns(valueType, one))).toEqual({ valueType, value: one })),
        { seed: SEED },
      );
    },
  );

  it('contains nothing that an engine cannot store', () => {
    for (const text of ['\0', 'half \uD800', '\uDC00']) {
      const { txt } = toColumns('string', text);
      expect(txt).not.toMatch(/[\0\p{Cs}]/u);
      expect(getValue(toColumns('string', text)).value).toBe(text);
    }
    expect(() => getValue({ kind: 99, num: 1, txt: null })).toThrow(RangeError);
  });
});

describe.each(engines())('stored readings on $name', (engine) => {
  let fixture: DeviceFixture;

  beforeAll(async () => {
    fixture = await startDeviceFixture(engine);
  });
  beforeEach(() => fixture.clock.advance(1000));
  afterAll(async () => await fixture.stop());

  /** Creates a bound device with two number sensors on the paths `a` and `b`. */
  async function createSensingDevice(): Promise<{
    deviceId: string;
    clientDeviceId: string;
    sensors: [string, string];
  }> {
    const clientDeviceId = `stored-${(next += 1)}`;
    const { id } = await fixture.api.create({
      name: 'Sensing',
      physicalDevice: { clientDeviceId, connectionId: fixture.connections[0] },
    });
    const { sensors } = await fixture.api.addSensors({ id, sensorTemplateIds: [...fixture.templates] });
    const [a, b] = sensors.map((sensor) => sensor.id) as [string, string];
    await fixture.api.setMappings({
      id,
      mappings: [
        { sensorId: a, sourcePath: 'a' },
        { sensorId: b, sourcePath: 'b' },
      ],
    });
    return { deviceId: id, clientDeviceId, sensors: [a, b] };
  }
  function uplink(
    clientDeviceId: string,
    value: Record<string, unknown>,
    overrides: Partial<UplinkMessage> = {},
  ): UplinkMessage {
    return {
      organizationId: 'org-1',
      connectionId: fixture.connections[0],
      identity: { kind: 'none' },
      clientDeviceId,
      receivedAt: fixture.clock.now(),
      time: undefined,
      clock: undefined,
      payload: { kind: 'json', value },
      fPort: undefined,
      ...overrides,
    };
  }
  async function listRows(sensorId: string): Promise<{ time: number; position: number; num: number }[]> {
    return await fixture.test.database.db
      .knex('readings as r')
      .join('reading_series as s', 's.number', 'r.series')
      .where('s.sensor_id', sensorId)
      .orderBy(['r.time', 'r.position'])
      .select('r.time', 'r.position', 'r.num');
  }
  async function kept(sensorId: string): Promise<[number, number][]> {
    return (await listRows(sensorId)).map(({ time, num }) => [time, num]);
  }
  function pipelineWith(overrides: Partial<ConstructorParameters<typeof UplinkPipeline>[0]>): UplinkPipeline {
    return new UplinkPipeline({
      database: fixture.test.database,
      log: fixture.log,
      positions: fixture.positions,
      series: new SeriesIdCache(),
      evaluateExecutions: async () => {},
      ...overrides,
    });
  }

  it('use the device time, unless it is invalid', async () => {
    const { clientDeviceId, sensors } = await createSensingDevice();
    const now = fixture.clock.now();
    for (const [value, time] of [
      [1, undefined],
      [2, now - 5000.5],
      [3, now + 1],
      [4, Date.UTC(1999, 11, 31)],
      [5, Date.UTC(2000, 0, 1)],
      [6, Number.NaN],
    ] as const) {
      await fixture.pipeline.handle(uplink(clientDeviceId, { a: value }, { time }));
    }
    expect(await kept(sensors[0])).toEqual([
      [Date.UTC(2000, 0, 1), 5],
      [now - 5001, 2],
      [now, 1],
      [now, 3],
      [now, 4],
      [now, 6],
    ]);
    expect(await kept(sensors[1])).toEqual([]);
  });

  it('are published to listeners after they are stored, in the order of their positions', async () => {
    const { clientDeviceId, sensors } = await createSensingDevice();
    const notifications: { from: string; readings: readonly StoredReading[]; watermark: number }[] = [];
    const stop = fixture.positions.onStored((from, readings) =>
      notifications.push({ from, readings, watermark: fixture.positions.advanceGlobalWatermark() }),
    );
    await fixture.pipeline.handle(uplink(clientDeviceId, { a: 1, b: 2 }));
    await fixture.pipeline.handle(uplink(clientDeviceId, { other: 1 }));
    await fixture.pipeline.handle(uplink(clientDeviceId, { a: 3 }));
    stop();
    await fixture.pipeline.handle(uplink(clientDeviceId, { a: 4 }));
    expect(
      notifications.map(({ from, readings }) => [from, readings.map(({ sensorId, value }) => [sensorId, value])]),
    ).toEqual([
      [
        'org-1',
        [
          [sensors[0], 1],
          [sensors[1], 2],
        ],
      ],
      ['org-1', [[sensors[0], 3]]],
    ]);
    for (const { readings, watermark } of notifications)
      expect(watermark).toBeGreaterThanOrEqual(readings[0]!.position);
    expect(getReceivedAt(notifications[0]!.readings[0]!.position)).toBe(fixture.clock.now());
    expect((await listRows(sensors[0])).map(({ position }) => position)).toEqual(
      expect.arrayContaining(notifications.map(({ readings }) => readings[0]!.position)),
    );
  });

  it('continue after the last stored position, even when the clock was set back, and whether or not the last reading was late', async () => {
    const { clientDeviceId, sensors } = await createSensingDevice();
    for (const time of [undefined, fixture.clock.now() - 30_000, fixture.clock.now() - 10 * HOUR]) {
      fixture.clock.advance(1);
      await fixture.pipeline.handle(uplink(clientDeviceId, { a: 1 }, { time }));
      const last = Math.max(...(await listRows(sensors[0])).map(({ position }) => position));
      const positions = new ReadingSequence({ now: () => fixture.clock.now() - HOUR, monotonic: () => 0 });
      await pipelineWith({ positions }).start();
      expect(positions.open('org-1')).toBe(last + 1);
    }
  });

  it('are found by their storage time, including late ones', async () => {
    const { clientDeviceId, sensors } = await createSensingDevice();
    const repository = new ReadingQueryRepository(fixture.test.database.db);
    const lateness = fc.array(fc.integer({ min: 0, max: (3 * LATE_POSITIONS) / POSITIONS_PER_MS }), {
      minLength: 1,
      maxLength: 12,
    });
    const rule = async (late: readonly number[], from: number, to: number): Promise<void> => {
      for (const ms of late) {
        fixture.clock.advance(7000);
        await fixture.pipeline.handle(uplink(clientDeviceId, { a: ms }, { time: fixture.clock.now() - ms }));
      }
      const [series] = await repository.getSensors('org-1', [sensors[0]]);
      const all = (await listRows(sensors[0])).map(({ position }) => position).toSorted((one, other) => one - other);
      const [after, until] = [all[Math.floor(from * (all.length - 1))]!, all[Math.floor(to * (all.length - 1))]!];
      const stored = await repository.listStored(
        [series!.series!],
        { position: after, series: Number.MAX_SAFE_INTEGER },
        until,
        1000,
      );
      expect(stored.map(({ position }) => position)).toEqual(
        all.filter((position) => position > after && position <= until),
      );
    };
    await fc.assert(
      fc.asyncProperty(
        lateness,
        fc.double({ min: 0, max: 1, noNaN: true }),
        fc.double({ min: 0, max: 1, noNaN: true }),
        rule,
      ),
      { seed: SEED, numRuns: 15 },
    );
  });

  it('make existing summaries of their hours stale, and those that are being written', async () => {
    const { clientDeviceId, sensors } = await createSensingDevice();
    const series = new SeriesIdCache();
    const pipeline = pipelineWith({ series });
    const hour = Math.floor(fixture.clock.now() / HOUR) * HOUR;
    const { knex } = fixture.test.database.db;
    const stale = async (): Promise<number[]> =>
      (
        await knex('stale_hours as h')
          .join('reading_series as s', 's.number', 'h.series')
          .where('s.sensor_id', sensors[0])
          .orderBy('h.hour')
          .select('h.hour')
      ).map((row: { hour: number }) => row.hour);
    await pipeline.handle(uplink(clientDeviceId, { a: 1 }, { time: hour - 1 }));
    expect(await stale()).toEqual([]);
    series.beginRollup(sensors[0], hour);
    for (const time of [hour - 1, hour - HOUR, hour - HOUR - 1, hour])
      await pipeline.handle(uplink(clientDeviceId, { a: 2 }, { time, receivedAt: hour + HOUR }));
    expect(await stale()).toEqual([hour - 2 * HOUR, hour - HOUR]);
    series.endRollup(sensors[0]);
    await knex('stale_hours').delete();
    await knex('reading_series').where('sensor_id', sensors[0]).update({ summed_until: hour });
    await pipelineWith({}).handle(uplink(clientDeviceId, { a: 3 }, { time: hour - 1, receivedAt: hour + HOUR }));
    expect(await stale()).toEqual([hour - HOUR]);
  });

  it('with the same series, time and position are stored once, and the later one wins', async () => {
    const { sensors } = await createSensingDevice();
    const { database } = fixture.test;
    await database.transaction(async (db) => {
      const series = (await new SeriesIdCache().get(new SeriesRepository(db), 'org-1', [sensors[0]])).get(sensors[0])!;
      const reading = { sensorId: sensors[0], valueType: 'number', time: 5, position: 7 } as const;
      for (const value of [1, 2]) await new ReadingRepository(db).store([{ series, reading: { ...reading, value } }]);
    });
    expect(await kept(sensors[0])).toEqual([[5, 2]]);
  });

  it('keep the series number of their sensor during parallel uplinks and after a cache eviction', async () => {
    const { clientDeviceId, sensors } = await createSensingDevice();
    const pipeline = pipelineWith({ series: new SeriesIdCache(1) });
    const outcomes = await Promise.all(
      Array.from({ length: 20 }, async (_, at) => await pipeline.handle(uplink(clientDeviceId, { a: at, b: at }))),
    );
    expect(new Set(outcomes.map(({ outcome }) => outcome))).toEqual(new Set(['stored']));
    expect((await kept(sensors[0])).map(([, value]) => value).toSorted((one, other) => one - other)).toEqual(
      Array.from({ length: 20 }, (_, at) => at),
    );
    expect(await fixture.test.database.db.knex('reading_series').whereIn('sensor_id', sensors)).toHaveLength(2);
  });

  it('of a failing uplink do not affect those of other uplinks', async () => {
    const { clientDeviceId, sensors } = await createSensingDevice();
    const pipeline = pipelineWith({
      evaluateExecutions: async (_db, { readings: [reading] }) =>
        reading?.value === 13 ? await Promise.reject(new Error('unlucky')) : undefined,
    });
    const outcomes = await Promise.allSettled(
      Array.from({ length: 200 }, async (_, at) => await pipeline.handle(uplink(clientDeviceId, { a: at }))),
    );
    expect(outcomes.flatMap(({ status }, at) => (status === 'rejected' ? at : []))).toEqual([13]);
    expect(await kept(sensors[0])).toHaveLength(199);
    const before = fixture.positions.advanceGlobalWatermark();
    expect(fixture.positions.open('org-1')).toBeGreaterThan(before); // No position was left open.
    fixture.positions.close('org-1', fixture.positions.advanceGlobalWatermark() + 1);
  });

  it('are counted with the latest value when they have the wrong type for their sensor', async () => {
    const { clientDeviceId, sensors } = await createSensingDevice();
    for (const value of ['warm', [1], '\u{1F525}'.repeat(300)]) {
      fixture.clock.advance(10);
      await fixture.pipeline.handle(uplink(clientDeviceId, { a: value, b: 1 }));
    }
    const repository = new RefusedValueRepository(fixture.test.database.db);
    const [refused, ...others] = await repository.find('org-1', sensors);
    expect(others).toEqual([]);
    expect(refused).toEqual({
      sensorId: sensors[0],
      count: 3,
      lastAt: fixture.clock.now(),
      lastValue: `"${'\u{1F525}'.repeat(99)}`,
      sourcePath: 'a',
    });
    expect(await repository.find('org-2', sensors)).toEqual([]);
    expect(await kept(sensors[1])).toHaveLength(3);
  });

  it('distinguish a repeated delivery from a new message in the same slot', async () => {
    const { clientDeviceId, sensors } = await createSensingDevice();
    const send = async (digest: string, isRepetition: boolean, value: number): Promise<string> =>
      (
        await fixture.pipeline.handle(
          uplink(clientDeviceId, { a: value }, { identity: { kind: 'delivery', slot: '7', digest, isRepetition } }),
        )
      ).outcome;
    expect([
      await send('x', false, 1),
      await send('x', true, 2),
      await send('x', false, 3),
      await send('y', true, 4),
      await send('y', true, 5),
      await send('x', true, 6),
    ]).toEqual(['stored', 'duplicate', 'stored', 'stored', 'duplicate', 'stored']);
    expect((await kept(sensors[0])).map(([, value]) => value)).toEqual([1, 3, 4, 6]);
    await expect(
      fixture.pipeline.handle(uplink(clientDeviceId, { a: 1 }, { connectionId: fixture.connections[1] })),
    ).rejects.toMatchObject({ reason: 'connection_not_found' });
  });

  it('do not treat a message as a repetition of one that was acknowledged long ago, because its first copy never arrived', async () => {
    const { clientDeviceId, sensors } = await createSensingDevice();
    const send = async (acknowledgedBefore: number, isRepetition: boolean): Promise<string> =>
      (
        await fixture.pipeline.handle(
          uplink(
            clientDeviceId,
            { a: 1 },
            {
              receivedAt: fixture.clock.now(),
              identity: { kind: 'delivery', slot: '1', digest: 'x', isRepetition, acknowledgedBefore },
            },
          ),
        )
      ).outcome;
    const first = fixture.clock.now();
    expect(await send(0, false)).toBe('stored');
    fixture.clock.advance(1000);
    expect([await send(first, true), await send(first + 1, true), await send(first + 1, true)]).toEqual([
      'duplicate',
      'stored',
      'duplicate',
    ]);
    expect(await kept(sensors[0])).toHaveLength(2);
  });

  it('of a message that waited at a broker are stored and update lastSeen, but do not count for the sending interval', async () => {
    const { deviceId, clientDeviceId, sensors } = await createSensingDevice();
    fixture.judged.splice(0);
    await fixture.pipeline.handle(uplink(clientDeviceId, { a: 1 }, { fCnt: 41 }));
    fixture.clock.advance(60_000);
    await fixture.pipeline.handle(uplink(clientDeviceId, { a: 2 }, { isBuffered: true, fCnt: 42, deviceClass: 'C' }));
    const device = await fixture.devices.cache.get('org-1', deviceId);
    expect(device.lastSeenAt).toBe(fixture.clock.now());
    expect(device.physicalDevice?.uplinkGaps).toEqual([]);
    expect(fixture.judged).toMatchObject([
      { fCnt: 41, readings: [{ fCnt: 41 }] },
      { isBuffered: true, fCnt: 42, readings: [{ isBuffered: true, fCnt: 42 }] },
    ]);
    expect(fixture.judged[0]).not.toHaveProperty('isBuffered');
    const { knex } = fixture.test.database.db;
    expect(await knex('latest_readings').where('sensor_id', sensors[0]).select('value', 'buffered', 'f_cnt')).toEqual([
      { value: '2', buffered: 1, f_cnt: 42 },
    ]);
    const reported = async (): Promise<unknown> =>
      (await knex('physical_devices').where('device_id', deviceId).first<{ reported_class: unknown }>('reported_class'))
        .reported_class;
    expect(await reported()).toBe('C');
    await fixture.pipeline.handle(uplink(clientDeviceId, { a: 3 }));
    expect(await reported()).toBe('C');
    await fixture.pipeline.handle(uplink(clientDeviceId, { a: 3 }, { deviceClass: 'A' }));
    expect(await reported()).toBe('A');
    expect((await fixture.devices.cache.get('org-1', deviceId)).revision).toBe(device.revision);
  });
});

describe('reading positions', () => {
  const clock = { now: () => 1000, monotonic: () => 0 };

  it('only increase, and report up to which position everything is stored', async () => {
    const positions = new ReadingSequence(clock);
    const [one, two, three] = [positions.open('org-1'), positions.open('org-1'), positions.open('org-1')];
    expect([one, two, three]).toEqual([
      1000 * POSITIONS_PER_MS,
      1000 * POSITIONS_PER_MS + 1,
      1000 * POSITIONS_PER_MS + 2,
    ]);
    expect(positions.advanceGlobalWatermark()).toBe(one - 1);
    positions.close('org-1', two);
    expect(positions.advanceGlobalWatermark()).toBe(one - 1);
    const order: string[] = [];
    const settled = positions.waitUntilAllClosed().then(() => order.push('settled'));
    const late = positions.open('org-1');
    positions.close('org-1', one);
    expect(positions.advanceGlobalWatermark()).toBe(two);
    await Promise.resolve();
    order.push('three is open');
    positions.close('org-1', three);
    await settled;
    expect(order).toEqual(['three is open', 'settled']);
    expect(positions.advanceGlobalWatermark()).toBe(three);
    positions.close('org-1', late);
    expect(positions.advanceGlobalWatermark()).toBe(late);
    await positions.waitUntilAllClosed();
  });

  it('reveal nothing to an organization about writes of others', async () => {
    const positions = new ReadingSequence(clock);
    for (let others = 0; others < 5; others++) positions.close('org-2', positions.open('org-2'));
    const slow = positions.open('org-2');
    expect(positions.open('org-1')).toBe(1000 * POSITIONS_PER_MS);
    positions.close('org-1', 1000 * POSITIONS_PER_MS);
    expect(positions.getWatermark('org-1')).toBe(1000 * POSITIONS_PER_MS);
    await positions.waitUntilClosed('org-1');
    // This watermark is global: nothing is stored with a lower position from here on.
    expect(positions.advanceGlobalWatermark()).toBe(slow - 1);
    expect(positions.open('org-1')).toBe(slow);
  });

  it('are settled when the last open position is closed', () => {
    fc.assert(fc.property(fc.array(fc.boolean()), checkWatermark), { seed: SEED });
  });
});

/** Checks the watermark after each step, which opens a position or closes the first open one. */
function checkWatermark(steps: readonly boolean[]): void {
  const positions = new ReadingSequence({ now: () => 1000, monotonic: () => 0 });
  const open = new Set<number>();
  let last = 0;
  for (const opens of steps) {
    const [first] = open;
    if (opens || first === undefined) open.add((last = positions.open('org-1')));
    else if (open.delete(first)) positions.close('org-1', first);
    expect(positions.advanceGlobalWatermark()).toBe(open.size === 0 ? last : Math.min(...open) - 1);
  }
}

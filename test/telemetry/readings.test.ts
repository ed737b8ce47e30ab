import fc from 'fast-check';
import type { Reading, SampleTimes } from '../../src/executions';
import { replaces } from '../../src/executions/evidence/sensorComparison';
import { LatestReadingRepository } from '../../src/telemetry/readings/latestReadingRepository';
import { getReadings } from '../../src/telemetry/readings/readings';
import type { UplinkMessage } from '../../src/connections';
import { InexactNumber } from '../../src/kernel/inexactNumber';
import { SeriesIdCache, UplinkPipeline } from '../../src/telemetry';
import { startDeviceFixture, type DeviceFixture } from '../support/deviceFixture';
import { engines } from '../support/engines';

const SEED = 20261121;

describe('readings of a payload', () => {
  const payload = JSON.parse(
    '{"t": "21.5", "r": [true, {"x": null}], "o": {"a": [1]}, "__proto__": {"p": 1}, "length": 3}',
  ) as Record<string, unknown>;
  it.each([
    ['t', 'number', 21.5],
    ['r[0]', 'boolean', true],
    ['r[1].x', 'json', null],
    ['r[1].x', 'number', undefined],
    ['o', 'json', { a: [1] }],
    ['o.a[0]', 'integer', 1],
    ['o.a[1]', 'integer', undefined],
    ['o[0]', 'json', undefined],
    ['r.length', 'json', undefined],
    ['__proto__.p', 'number', 1],
    ['constructor', 'json', undefined],
    ['missing.deep', 'json', undefined],
  ] as const)('reads %s as %s', (sourcePath, valueType, value) => {
    const { accepted, refused } = getReadings(payload, [{ sensorId: 's', sourcePath, valueType }]);
    expect(accepted).toEqual(value === undefined ? [] : [{ sensorId: 's', sourcePath, valueType, value }]);
    expect(refused).toEqual([]);
  });

  it('rejects a value of another type', () => {
    const sensor = { sensorId: 's', sourcePath: 't', valueType: 'boolean' } as const;
    expect(getReadings(payload, [sensor])).toEqual({ accepted: [], refused: [{ ...sensor, value: payload.t }] });
  });
});

describe.each(engines())('sensors of a device on $name', (engine) => {
  let fixture: DeviceFixture;
  let next = 0;
  beforeAll(async () => {
    fixture = await startDeviceFixture(engine);
  });
  beforeEach(() => fixture.clock.advance(1000));
  afterAll(async () => await fixture.stop());

  /** Creates a bound device with two number sensors on the paths `a` and `b.c`. */
  async function createSensingDevice(): Promise<{
    deviceId: string;
    clientDeviceId: string;
    sensors: [string, string];
  }> {
    const clientDeviceId = `sensing-${(next += 1)}`;
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
        { sensorId: b, sourcePath: 'b.c' },
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
      identity: { kind: 'id', uplinkId: `s-${(next += 1)}` },
      clientDeviceId,
      receivedAt: fixture.clock.now(),
      time: undefined,
      clock: 'gw-1',
      payload: { kind: 'json', value },
      fPort: undefined,
      ...overrides,
    };
  }
  /** Returns the physical device that the device of these sensors is bound to. */
  async function findPhysicalDevice(sensorIds: readonly string[]): Promise<string> {
    const row = (await fixture.test.database.db
      .knex('sensors as s')
      .join('physical_devices as p', 'p.device_id', 's.device_id')
      .where('s.id', sensorIds[0])
      .first('p.id as id')) as { id: string };
    return row.id;
  }
  const latest = async (sensorIds: string[]): Promise<Map<string, Reading>> =>
    await new LatestReadingRepository(fixture.test.database.db).find(
      'org-1',
      await findPhysicalDevice(sensorIds),
      sensorIds,
    );

  it('keep their latest reading and pass it to the executions with the previous one', async () => {
    const { deviceId, clientDeviceId, sensors } = await createSensingDevice();
    await fixture.pipeline.handle(uplink(clientDeviceId, { a: 1, b: { c: '2.5' } }, { time: 77.5 }));
    const receivedAt = fixture.clock.now();
    const first = { sensorId: sensors[0], sourcePath: 'a', value: 1, deviceTime: 77, clock: 'gw-1', receivedAt };
    expect([...(await latest(sensors)).values()]).toEqual([
      first,
      { sensorId: sensors[1], sourcePath: 'b.c', value: 2.5, deviceTime: 77, clock: 'gw-1', receivedAt },
    ]);
    fixture.clock.advance(10);
    fixture.judged.splice(0);
    const evaluations: unknown[] = [];
    const pipeline = new UplinkPipeline({
      database: fixture.test.database,
      log: fixture.log,
      positions: fixture.positions,
      series: new SeriesIdCache(),
      evaluateExecutions: async (_db, judged) =>
        void evaluations.push(judged, await judged.findLatest(sensors.slice(0, 1))),
    });
    await pipeline.handle(uplink(clientDeviceId, { a: 3 }));
    expect(evaluations).toMatchObject([
      {
        organizationId: 'org-1',
        deviceId,
        receivedAt: receivedAt + 10,
        deviceTime: undefined,
        readings: [{ sensorId: sensors[0], value: 3 }],
      },
      new Map([[sensors[0], first]]),
    ]);
    expect((await latest(sensors)).get(sensors[0])).toMatchObject({ value: 3 });
  });

  it('pass on whether the uplink could be read, which JSON without fields is not', async () => {
    const { clientDeviceId } = await createSensingDevice();
    const isRead = async (message: Partial<UplinkMessage>): Promise<unknown> => {
      await fixture.pipeline.handle(uplink(clientDeviceId, {}, message));
      return fixture.judged.at(-1)?.isReadable;
    };
    const encoded = Uint8Array.of(1);
    for (const value of ['ERR', '{"a":1}', [21], null, new InexactNumber('nan', Number.NaN)])
      expect(await isRead({ payload: { kind: 'json', value: { value } }, encoded })).toBe(false);
    const large = new InexactNumber('9007199254740993', 9_007_199_254_740_992);
    expect(await isRead({ payload: { kind: 'json', value: { a: large } } })).toBe(true);
    const infinite = new InexactNumber('1e400', Infinity);
    expect(await isRead({ payload: { kind: 'json', value: { a: infinite } } })).toBe(false);
  });

  it('are passed on as buffered if the time of the uplink could not be read', async () => {
    const { clientDeviceId } = await createSensingDevice();
    const timeProblem = { reason: 'time_offset_missing: x', example: '"x"' };
    await fixture.pipeline.handle(uplink(clientDeviceId, { a: 1 }, { timeProblem }));
    expect(fixture.judged.at(-1)).toMatchObject({ isBuffered: true, readings: [{ isBuffered: true }] });
    await fixture.pipeline.handle(uplink(clientDeviceId, { a: 1 }));
    expect(fixture.judged.at(-1)?.isBuffered).toBeUndefined();
  });

  it('are evaluated once for a repeated uplink, and not for a rejected one or one of an unbound device', async () => {
    const { clientDeviceId } = await createSensingDevice();
    fixture.judged.splice(0);
    const message = uplink(clientDeviceId, { a: 1 });
    await fixture.pipeline.handle(message);
    await fixture.pipeline.handle(message);
    await fixture.pipeline.handle(uplink(clientDeviceId, { a: Number.NaN }));
    await fixture.pipeline.handle(uplink('nobody', { a: 1 }));
    expect(fixture.judged).toHaveLength(1);
  });

  it('reject and report values of the wrong type; the rest is stored', async () => {
    const { clientDeviceId, sensors } = await createSensingDevice();
    expect(await fixture.pipeline.handle(uplink(clientDeviceId, { a: 'warm', b: { c: 2 } }))).toEqual({
      outcome: 'stored',
    });
    expect([...(await latest(sensors)).keys()]).toEqual([sensors[1]]);
    expect(fixture.log.of('telemetry.values_rejected').at(-1)).toMatchObject({
      refused_values: 1,
      first_sensor_id: sensors[0],
      first_path: 'a',
      first_value_type: 'number',
      client_device_id: clientDeviceId,
    });
  });

  it('keep the newer reading, by the same rule in the database as in the program', async () => {
    const { sensors } = await createSensingDevice();
    const bound = await findPhysicalDevice(sensors);
    const repository = new LatestReadingRepository(fixture.test.database.db);
    const time = fc.record({
      deviceTime: fc.option(fc.integer({ min: 0, max: 6 }), { nil: undefined }),
      clock: fc.constantFrom('gw-1', 'gw-2', undefined),
      receivedAt: fc.integer({ min: 0, max: 48 }).map((eighths) => eighths / 8),
    });
    const rule = async (times: readonly SampleTimes[]): Promise<void> => {
      await fixture.test.database.db.knex('latest_readings').where('sensor_id', sensors[0]).delete();
      let kept: Reading | undefined;
      for (const [value, one] of times.entries()) {
        const reading = { sensorId: sensors[0], sourcePath: 'a', value, ...one };
        await repository.store('org-1', bound, one, [reading]);
        if (replaces(reading, kept)) kept = reading;
      }
      expect((await latest([sensors[0]])).get(sensors[0])).toEqual(kept);
    };
    await fc.assert(fc.asyncProperty(fc.array(time, { minLength: 1, maxLength: 6 }), rule), {
      seed: SEED,
      numRuns: 60,
    });
  });

  it('lose their latest reading when another path or another physical device is mapped to them', async () => {
    const { deviceId, clientDeviceId, sensors } = await createSensingDevice();
    const [a, b] = sensors;
    await fixture.pipeline.handle(uplink(clientDeviceId, { a: 1, b: { c: 2 } }));
    await fixture.api.setMappings({
      id: deviceId,
      mappings: [
        { sensorId: a, sourcePath: 'other' },
        { sensorId: b, sourcePath: 'b.c' },
      ],
    });
    expect([...(await latest(sensors)).keys()]).toEqual([b]);
    await fixture.devices.update(
      'org-1',
      deviceId,
      {
        name: undefined,
        physicalDevice: { connectionId: undefined, configuration: undefined, clientDeviceId: `${clientDeviceId}-new` },
        dataSendingInterval: undefined,
      },
      undefined,
    );
    expect(await latest(sensors)).toEqual(new Map());
    await fixture.pipeline.handle(uplink(`${clientDeviceId}-new`, { b: { c: 3 } }, { receivedAt: 1 }));
    expect((await latest(sensors)).get(b)).toMatchObject({ value: 3 });
  });

  it('belong to their organization', async () => {
    const { sensors } = await createSensingDevice();
    const repository = new LatestReadingRepository(fixture.test.database.db);
    const bound = await findPhysicalDevice(sensors);
    await repository.store('org-2', bound, { deviceTime: undefined, clock: undefined, receivedAt: 1 }, [
      { sensorId: sensors[0], sourcePath: 'a', value: 1 },
    ]);
    expect(await latest(sensors)).toEqual(new Map());
    await repository.store('org-1', bound, { deviceTime: undefined, clock: undefined, receivedAt: 1 }, [
      { sensorId: sensors[0], sourcePath: 'a', value: 1 },
    ]);
    expect(await repository.find('org-2', bound, sensors)).toEqual(new Map());
  });

  it('report how often their device sends: the gaps between its last uplinks, without repeated ones', async () => {
    const { deviceId, clientDeviceId } = await createSensingDevice();
    const times = Array.from({ length: 13 }, (_, at) => fixture.clock.now() + at * 60_000);
    for (const receivedAt of times) {
      const message = uplink(clientDeviceId, { a: 1 }, { receivedAt, time: 5 });
      await fixture.pipeline.handle(message);
      await fixture.pipeline.handle({ ...message, receivedAt: receivedAt + 1 });
    }
    const device = await fixture.devices.cache.get('org-1', deviceId);
    expect(device.physicalDevice?.uplinkGaps).toEqual(Array.from({ length: 10 }, () => 60_000));
  });
});

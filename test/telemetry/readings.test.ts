import fc from 'fast-check';
import type { Reading, SampleTimes } from '../../src/executions';
import { replaces } from '../../src/executions/evidence/sensorComparison';
import { LatestReadingRepository } from '../../src/telemetry/readings/latestReadingRepository';
import { readingsOf } from '../../src/telemetry/readings/readings';
import type { UplinkMessage } from '../../src/connections';
import { SeriesNumbers, UplinkPipeline } from '../../src/telemetry';
import { startDeviceRoom, type DeviceRoom } from '../support/deviceRoom';
import { engines } from '../support/engines';

const SEED = 20261121;

describe('readings of a payload', () => {
  const payload = JSON.parse('{"t": "21.5", "r": [true, {"x": null}], "o": {"a": [1]}, "__proto__": {"p": 1}, "length": 3}') as Record<string, unknown>;
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
  ] as const)('takes %s as %s', (sourcePath, valueType, value) => {
    const { taken, refused } = readingsOf(payload, [{ sensorId: 's', sourcePath, valueType }]);
    expect(taken).toEqual(value === undefined ? [] : [{ sensorId: 's', sourcePath, valueType, value }]);
    expect(refused).toEqual([]);
  });

  it('takes nothing as something else', () => {
    const sensor = { sensorId: 's', sourcePath: 't', valueType: 'boolean' } as const;
    expect(readingsOf(payload, [sensor])).toEqual({ taken: [], refused: [{ ...sensor, value: payload.t }] });
  });
});

describe.each(engines())('sensors of a device on $name', (engine) => {
  let room: DeviceRoom;
  let next = 0;
  beforeAll(async () => {
    room = await startDeviceRoom(engine);
  });
  beforeEach(() => room.clock.advance(1000));
  afterAll(async () => await room.stop());

  /** A bound device with two number sensors, fed by `a` and `b.c`. */
  async function sensing(): Promise<{ deviceId: string; clientDeviceId: string; sensors: [string, string] }> {
    const clientDeviceId = `sensing-${(next += 1)}`;
    const { id } = await room.api.create({ name: 'Sensing', physicalDevice: { clientDeviceId, connectionId: room.connections[0] } });
    const { sensors } = await room.api.addSensors({ id, sensorTemplateIds: [...room.templates] });
    const [a, b] = sensors.map((sensor) => sensor.id) as [string, string];
    await room.api.setMappings({ id, mappings: [{ sensorId: a, sourcePath: 'a' }, { sensorId: b, sourcePath: 'b.c' }] });
    return { deviceId: id, clientDeviceId, sensors: [a, b] };
  }

  function uplink(clientDeviceId: string, value: Record<string, unknown>, overrides: Partial<UplinkMessage> = {}): UplinkMessage {
    return { organizationId: 'org-1', connectionId: room.connections[0], identity: { kind: 'id', uplinkId: `s-${(next += 1)}` }, clientDeviceId, receivedAt: room.clock.now(), time: undefined, clock: 'gw-1', payload: { kind: 'json', value }, fPort: undefined, ...overrides };
  }
  /** Of the physical device that the device of these sensors is bound to. */
  async function boundTo(sensorIds: readonly string[]): Promise<string> {
    const row = (await room.test.database.db.knex('sensors as s').join('physical_devices as p', 'p.device_id', 's.device_id').where('s.id', sensorIds[0]).first('p.id as id')) as { id: string };
    return row.id;
  }
  const latest = async (sensorIds: string[]): Promise<Map<string, Reading>> => await new LatestReadingRepository(room.test.database.db).find('org-1', await boundTo(sensorIds), sensorIds);

  it('are kept as they were last shown, and handed to the executions with what they showed before', async () => {
    const { deviceId, clientDeviceId, sensors } = await sensing();
    await room.pipeline.handle(uplink(clientDeviceId, { a: 1, b: { c: '2.5' } }, { time: 77.5 }));
    const receivedAt = room.clock.now();
    const first = { sensorId: sensors[0], sourcePath: 'a', value: 1, ownTime: 77, clock: 'gw-1', receivedAt };
    expect([...(await latest(sensors)).values()]).toEqual([first, { sensorId: sensors[1], sourcePath: 'b.c', value: 2.5, ownTime: 77, clock: 'gw-1', receivedAt }]);
    room.clock.advance(10);
    room.judged.splice(0);
    const seen: unknown[] = [];
    const pipeline = new UplinkPipeline({ database: room.test.database, log: room.log, positions: room.positions, series: new SeriesNumbers(), judge: async (_db, judged) => void seen.push(judged, await judged.latestOf(sensors.slice(0, 1))) });
    await pipeline.handle(uplink(clientDeviceId, { a: 3 }));
    expect(seen).toMatchObject([{ organizationId: 'org-1', deviceId, receivedAt: receivedAt + 10, ownTime: undefined, readings: [{ sensorId: sensors[0], value: 3 }] }, new Map([[sensors[0], first]])]);
    expect((await latest(sensors)).get(sensors[0])).toMatchObject({ value: 3 });
  });

  it('are judged once for a repeated uplink, not for a rejected one, nor for one of a device that is bound to none', async () => {
    const { clientDeviceId } = await sensing();
    room.judged.splice(0);
    const message = uplink(clientDeviceId, { a: 1 });
    await room.pipeline.handle(message);
    await room.pipeline.handle(message);
    await room.pipeline.handle(uplink(clientDeviceId, { a: Number.NaN }));
    await room.pipeline.handle(uplink('nobody', { a: 1 }));
    expect(room.judged).toHaveLength(1);
  });

  it('refuse what is not of their type, and say so; the rest is stored', async () => {
    const { clientDeviceId, sensors } = await sensing();
    expect(await room.pipeline.handle(uplink(clientDeviceId, { a: 'warm', b: { c: 2 } }))).toEqual({ outcome: 'stored' });
    expect([...(await latest(sensors)).keys()]).toEqual([sensors[1]]);
    expect(room.log.of('telemetry.values_refused').at(-1)).toMatchObject({ refused_values: 1, first_sensor_id: sensors[0], first_path: 'a', first_value_type: 'number', client_device_id: clientDeviceId });
  });

  it('keep what is newer, by the same rule in the database as in the program', async () => {
    const { sensors } = await sensing();
    const bound = await boundTo(sensors);
    const repository = new LatestReadingRepository(room.test.database.db);
    const time = fc.record({ ownTime: fc.option(fc.integer({ min: 0, max: 6 }), { nil: undefined }), clock: fc.constantFrom('gw-1', 'gw-2', undefined), receivedAt: fc.integer({ min: 0, max: 48 }).map((eighths) => eighths / 8) });
    const rule = async (times: readonly SampleTimes[]): Promise<void> => {
      await room.test.database.db.knex('latest_readings').where('sensor_id', sensors[0]).delete();
      let kept: Reading | undefined;
      for (const [value, one] of times.entries()) {
        const reading = { sensorId: sensors[0], sourcePath: 'a', value, ...one };
        await repository.store('org-1', bound, one, [reading]);
        if (replaces(reading, kept)) kept = reading;
      }
      expect((await latest([sensors[0]])).get(sensors[0])).toEqual(kept);
    };
    await fc.assert(fc.asyncProperty(fc.array(time, { minLength: 1, maxLength: 6 }), rule), { seed: SEED, numRuns: 60 });
  });

  it('count no longer once another path or another device in the field stands for the sensor', async () => {
    const { deviceId, clientDeviceId, sensors } = await sensing();
    const [a, b] = sensors;
    await room.pipeline.handle(uplink(clientDeviceId, { a: 1, b: { c: 2 } }));
    await room.api.setMappings({ id: deviceId, mappings: [{ sensorId: a, sourcePath: 'other' }, { sensorId: b, sourcePath: 'b.c' }] });
    expect([...(await latest(sensors)).keys()]).toEqual([b]);
    await room.devices.update('org-1', deviceId, { name: undefined, physicalDevice: { connectionId: undefined, configuration: undefined, clientDeviceId: `${clientDeviceId}-new` }, dataSendingInterval: undefined }, undefined);
    expect(await latest(sensors)).toEqual(new Map());
    await room.pipeline.handle(uplink(`${clientDeviceId}-new`, { b: { c: 3 } }, { receivedAt: 1 }));
    expect((await latest(sensors)).get(b)).toMatchObject({ value: 3 });
  });

  it('belong to their organization', async () => {
    const { sensors } = await sensing();
    const repository = new LatestReadingRepository(room.test.database.db);
    const bound = await boundTo(sensors);
    await repository.store('org-2', bound, { ownTime: undefined, clock: undefined, receivedAt: 1 }, [{ sensorId: sensors[0], sourcePath: 'a', value: 1 }]);
    expect(await latest(sensors)).toEqual(new Map());
    await repository.store('org-1', bound, { ownTime: undefined, clock: undefined, receivedAt: 1 }, [{ sensorId: sensors[0], sourcePath: 'a', value: 1 }]);
    expect(await repository.find('org-2', bound, sensors)).toEqual(new Map());
  });

  it('tell how often their device sends: how far apart its last uplinks are, repeated ones left out', async () => {
    const { deviceId, clientDeviceId } = await sensing();
    const times = Array.from({ length: 13 }, (_, at) => room.clock.now() + at * 60_000);
    for (const receivedAt of times) {
      const message = uplink(clientDeviceId, { a: 1 }, { receivedAt, time: 5 });
      await room.pipeline.handle(message);
      await room.pipeline.handle({ ...message, receivedAt: receivedAt + 1 });
    }
    const device = await room.devices.get('org-1', deviceId);
    expect(device.physicalDevice?.uplinkGaps).toEqual(Array.from({ length: 10 }, () => 60_000));
  });
});

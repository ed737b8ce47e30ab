import { fromTimestamp } from '../../src/kernel/timestamps';
import { LatestQueryRepository } from '../../src/telemetry/readings/latestQueryRepository';
import { engines } from '../support/engines';
import { getPlan } from '../support/queryPlan';
import { type QueryFixture, startQueryFixture, getValue } from './queryFixture';
import { SendingDevice } from './sendingDevice';

describe.each(engines())('the latest readings on $name', (engine) => {
  let fixture: QueryFixture;
  let sender: SendingDevice;
  beforeAll(async () => {
    fixture = await startQueryFixture(engine);
    sender = await SendingDevice.create(fixture, ['temperature', 'humidity']);
  });
  afterAll(async () => await fixture.stop());

  it('are the most recently received ones, with the device time where it is valid', async () => {
    const { clock } = fixture.devices;
    clock.advance(60_000);
    const now = clock.now();
    await sender.send({ temperature: 20 }, { time: now - 5000 });
    await sender.send({ humidity: 50 }, { time: now + 5000 });
    const [temperature = '', humidity = ''] = sender.sensorIds;
    const { sensors } = await fixture.latest({ sensorIds: [humidity, temperature] });
    expect(
      sensors.map(({ sensorId, deviceId, reading, refused }) => [sensorId, deviceId, getValue(reading), refused]),
    ).toEqual([
      [humidity, sender.deviceId, 50, undefined],
      [temperature, sender.deviceId, 20, undefined],
    ]);
    expect(
      sensors.map(({ reading }) => [reading?.time, reading?.receivedAt].map((time) => time && fromTimestamp(time))),
    ).toEqual([
      [now, now],
      [now - 5000, now],
    ]);
  });

  it('report values that were rejected for a sensor', async () => {
    const other = await SendingDevice.create(fixture, ['level']);
    await other.send({ level: 'overflow' });
    await other.send({ level: { cm: 4 } });
    const { sensors } = await fixture.latest({ deviceIds: [other.deviceId] });
    expect(sensors).toEqual([
      {
        sensorId: other.sensorIds[0],
        deviceId: other.deviceId,
        reading: undefined,
        refused: { count: 2, lastTime: expect.anything() as unknown, lastValue: '{"cm":4}', sourcePath: 'level' },
      },
    ]);
  });

  it('say that the last uplink had no value, also if the one before came in the same millisecond', async () => {
    const other = await SendingDevice.create(fixture, ['level', 'other']);
    const receivedAt = fixture.devices.clock.now();
    const unreadable = { payload: { kind: 'bytes', bytes: Uint8Array.of(1) } } as const;
    await other.send({ level: 1 }, { receivedAt: receivedAt + 0.25 });
    await other.send({}, { ...unreadable, receivedAt: receivedAt + 0.5 });
    const getReasons = async (): Promise<unknown[]> =>
      (await fixture.latest({ deviceIds: [other.deviceId] })).sensors.map(({ noValue }) => noValue?.reason);
    const notJson = expect.stringMatching(/^not_json: /) as unknown;
    expect(await getReasons()).toEqual([notJson, notJson]);
    await other.send({}, { receivedAt: receivedAt + 0.75 }); // has no values either
    expect(await getReasons()).toEqual([notJson, notJson]);
    await other.send({ other: 2 }, { receivedAt: receivedAt + 0.875 });
    expect(await getReasons()).toEqual([undefined, undefined]);
  });

  it('include all sensors of the devices, in their order, each once', async () => {
    const many = await fixture.device(Array.from({ length: 5 }, () => 'number' as const));
    const { sensors } = await fixture.latest({
      sensorIds: [many.sensorIds[3] ?? ''],
      deviceIds: [sender.deviceId, many.deviceId],
    });
    expect(sensors.map(({ sensorId }) => sensorId)).toEqual([
      many.sensorIds[3],
      ...sender.sensorIds,
      ...many.sensorIds.filter((_, i) => i !== 3),
    ]);
  });

  it('find the mapping and the failure of the physical device by index', async () => {
    const [sensorId = ''] = sender.sensorIds;
    const plan = await getPlan(fixture.database, async (db) => {
      await new LatestQueryRepository(db).listBySensors('org-1', [sensorId]);
    });
    expect(plan).toMatch(/sensor_mappings_(sensor|by_sensor)/);
    expect(plan).toMatch(/physical_devices_device/);
  });

  it('are limited to the organization and to the maximum number', async () => {
    const foreignDevice = await fixture.device(['number'], 'org-2');
    expect(await fixture.latest.fails({ deviceIds: [sender.deviceId, foreignDevice.deviceId] })).toMatchObject({
      code: 5,
      reason: 'device_not_found',
      metadata: { device_id: foreignDevice.deviceId },
    });
    expect(await fixture.latest.fails({ sensorIds: [...foreignDevice.sensorIds] })).toMatchObject({
      code: 5,
      reason: 'sensor_not_found',
    });
    expect(await fixture.latest.fails({})).toMatchObject({ reason: 'validation_failed', fields: ['sensorIds'] });
    const large = [
      await fixture.device(Array.from({ length: 1001 }, () => 'number' as const)),
      await fixture.device(Array.from({ length: 1000 }, () => 'number' as const)),
    ];
    expect(await fixture.latest.fails({ deviceIds: large.map(({ deviceId }) => deviceId) })).toMatchObject({
      reason: 'validation_failed',
      fields: ['deviceIds'],
    });
    expect((await fixture.latest({ deviceIds: [large[0]?.deviceId ?? ''] })).sensors).toHaveLength(1001);
  });
});

import { fromTimestamp } from '../../src/kernel/timestamps';
import { engines } from '../support/engines';
import { type QueryRoom, startQueryRoom, valueOf } from './queryRoom';
import { SendingDevice } from './sendingDevice';

describe.each(engines())('the last readings on $name', (engine) => {
  let room: QueryRoom;
  let sender: SendingDevice;
  beforeAll(async () => {
    room = await startQueryRoom(engine);
    sender = await SendingDevice.create(room, ['temperature', 'humidity']);
  });
  afterAll(async () => await room.stop());

  it('are those that came last, with their own time where it can be one', async () => {
    const { clock } = room.devices;
    clock.advance(60_000);
    const now = clock.now();
    await sender.send({ temperature: 20 }, { time: now - 5000 });
    await sender.send({ humidity: 50 }, { time: now + 5000 });
    const [temperature = '', humidity = ''] = sender.sensorIds;
    const { sensors } = await room.latest({ sensorIds: [humidity, temperature] });
    expect(sensors.map(({ sensorId, deviceId, reading, refused }) => [sensorId, deviceId, valueOf(reading), refused])).toEqual([
      [humidity, sender.deviceId, 50, undefined],
      [temperature, sender.deviceId, 20, undefined],
    ]);
    expect(sensors.map(({ reading }) => [reading?.time, reading?.receivedAt].map((time) => time && fromTimestamp(time)))).toEqual([[now, now], [now - 5000, now]]);
  });

  it('tell what could not be taken for a sensor', async () => {
    const other = await SendingDevice.create(room, ['level']);
    await other.send({ level: 'overflow' });
    await other.send({ level: { cm: 4 } });
    const { sensors } = await room.latest({ deviceIds: [other.deviceId] });
    expect(sensors).toEqual([{ sensorId: other.sensorIds[0], deviceId: other.deviceId, reading: undefined, refused: { count: 2, lastTime: expect.anything() as unknown, lastValue: '{"cm":4}', sourcePath: 'level' } }]);
  });

  it('are those of all sensors of devices, in their order, each once', async () => {
    const many = await room.device(Array.from({ length: 5 }, () => 'number' as const));
    const { sensors } = await room.latest({ sensorIds: [many.sensorIds[3] ?? ''], deviceIds: [sender.deviceId, many.deviceId] });
    expect(sensors.map(({ sensorId }) => sensorId)).toEqual([many.sensorIds[3], ...sender.sensorIds, ...many.sensorIds.filter((_, i) => i !== 3)]);
  });

  it('are not those of others, and not too many', async () => {
    const theirs = await room.device(['number'], 'org-2');
    expect(await room.latest.fails({ deviceIds: [sender.deviceId, theirs.deviceId] })).toMatchObject({ code: 5, reason: 'device_not_found', metadata: { device_id: theirs.deviceId } });
    expect(await room.latest.fails({ sensorIds: [...theirs.sensorIds] })).toMatchObject({ code: 5, reason: 'sensor_not_found' });
    expect(await room.latest.fails({})).toMatchObject({ reason: 'validation_failed', fields: ['sensorIds'] });
    const large = [await room.device(Array.from({ length: 1001 }, () => 'number' as const)), await room.device(Array.from({ length: 1000 }, () => 'number' as const))];
    expect(await room.latest.fails({ deviceIds: large.map(({ deviceId }) => deviceId) })).toMatchObject({ reason: 'validation_failed', fields: ['deviceIds'] });
    expect((await room.latest({ deviceIds: [large[0]?.deviceId ?? ''] })).sensors).toHaveLength(1001);
  });
});

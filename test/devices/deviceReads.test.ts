import { newId } from '../../src/kernel/ids';
import { DataSendingIntervalUnit, type DigitalDevice } from '../../src/gen/digitaldevice/v2/digital_device_service';
import { startDeviceRoom, type DeviceRoom } from '../support/deviceRoom';
import { engines } from '../support/engines';

/** One device in the middle of a story, which was read just before. */
interface Step {
  readonly id: string;
  readonly sensorIds: readonly string[];
}

describe.each(engines())('a device that was read before, on $name', (engine) => {
  let room: DeviceRoom;
  let media: string;
  beforeAll(async () => {
    room = await startDeviceRoom(engine);
    media = newId();
    await room.test.database.db.knex('media').insert({
      id: media, organization_id: 'org-1', sha256: 'a', filename: 'a.png', content_type: 'image/png', size_bytes: 1, thumbnail_bytes: 1, width: 1, height: 1, created_at: 0, unused_since: 0,
    });
  });
  afterAll(async () => await room.stop());

  const CHANGES: readonly [string, (device: Step) => Promise<DigitalDevice>][] = [
    ['its name', async ({ id }) => await room.api.update({ id, name: 'Other' })],
    ['its interval', async ({ id }) => await room.api.update({ id, dataSendingInterval: { unit: DataSendingIntervalUnit.DATA_SENDING_INTERVAL_UNIT_HOUR, value: 2 } })],
    ['no interval', async ({ id }) => await room.api.update({ id, clearDataSendingInterval: true })],
    ['its binding', async ({ id }) => await room.api.update({ id, physicalDevice: { clientDeviceId: 'valve', connectionId: room.connections[0] } })],
    ['the configuration of its binding', async ({ id }) => await room.api.update({ id, physicalDevice: { configuration: { room: 17 } } })],
    ['its sensors', async ({ id }) => await room.api.addSensors({ id, sensorTemplateIds: [room.templates[0], room.templates[0]] })],
    ['the template of a sensor', async ({ id, sensorIds }) => await room.api.updateSensor({ id, sensorId: sensorIds[0], sensorTemplateId: room.templates[1] })],
    ['its mappings', async ({ id, sensorIds }) => await room.api.setMappings({ id, mappings: [{ sensorId: sensorIds[0], sourcePath: 'a' }] })],
    ['fewer sensors', async ({ id, sensorIds }) => await room.api.removeSensors({ id, sensorIds: sensorIds.slice(1) })],
    ['its pictures', async ({ id }) => await room.api.update({ id, images: [{ mediaId: media }] })],
    ['no pictures', async ({ id }) => await room.api.update({ id, clearImages: true })],
    ['no binding', async ({ id }) => await room.api.update({ id, unbindPhysicalDevice: true })],
  ];

  it('shows each change at once, and stays the same otherwise', async () => {
    let device = await room.api.create({ name: 'Valve' });
    for (const [what, change] of CHANGES) {
      expect([what, await room.api.get({ id: device.id })]).toEqual([what, device]);
      room.clock.advance(1000);
      const changed = await change({ id: device.id, sensorIds: device.sensors.map(({ id }) => id) });
      expect(changed.etag).not.toBe(device.etag);
      expect([what, await room.api.get({ id: device.id })]).toEqual([what, changed]);
      device = changed;
    }
  });

  it('shows when it was last seen, which is no change of it', async () => {
    const { id, etag } = await room.api.create({ name: 'Pump', physicalDevice: { clientDeviceId: 'pump', connectionId: room.connections[0] } });
    expect((await room.api.get({ id })).lastSeen).toBeUndefined();
    await room.test.database.db.knex('digital_devices').where({ id }).update({ last_seen_at: 5000 });
    expect(await room.api.get({ id })).toMatchObject({ lastSeen: { seconds: 5, nanos: 0 }, etag });
  });

  it('has links to its pictures that are renewed with time', async () => {
    const { id } = await room.api.create({ name: 'Tank', images: [{ mediaId: media }] });
    const [before] = (await room.api.get({ id })).images;
    room.clock.advance(3_600_000);
    const [after] = (await room.api.get({ id })).images;
    expect(after?.url).not.toBe(before?.url);
  });

  it('is not there for another organization, nor once it is deleted', async () => {
    const { id } = await room.api.create({ name: 'Boiler' });
    await room.api.get({ id });
    expect((await room.api.get.fails({ id }, 'org-2')).reason).toBe('device_not_found');
    await room.api.delete({ id });
    expect((await room.api.get.fails({ id })).reason).toBe('device_not_found');
  });
});

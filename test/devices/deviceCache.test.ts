import { newId } from '../../src/kernel/ids';
import { DataSendingIntervalUnit, type DigitalDevice } from '../../src/gen/digitaldevice/v2/digital_device_service';
import { startDeviceFixture, type DeviceFixture } from '../support/deviceFixture';
import { engines } from '../support/engines';

/** One device in a random sequence of operations, and its last known response. */
interface Step {
  readonly id: string;
  readonly sensorIds: readonly string[];
}

describe.each(engines())('a cached device, on $name', (engine) => {
  let fixture: DeviceFixture;
  let media: string;
  beforeAll(async () => {
    fixture = await startDeviceFixture(engine);
    media = newId();
    await fixture.test.database.db.knex('media').insert({
      id: media,
      organization_id: 'org-1',
      sha256: 'a',
      filename: 'a.png',
      content_type: 'image/png',
      size_bytes: 1,
      thumbnail_bytes: 1,
      width: 1,
      height: 1,
      created_at: 0,
      unused_since: 0,
    });
  });
  afterAll(async () => await fixture.stop());

  const CHANGES: readonly [string, (device: Step) => Promise<DigitalDevice>][] = [
    ['its name', async ({ id }) => await fixture.api.update({ id, name: 'Other' })],
    [
      'its interval',
      async ({ id }) =>
        await fixture.api.update({
          id,
          dataSendingInterval: { unit: DataSendingIntervalUnit.DATA_SENDING_INTERVAL_UNIT_HOUR, value: 2 },
        }),
    ],
    ['no interval', async ({ id }) => await fixture.api.update({ id, clearDataSendingInterval: true })],
    [
      'its binding',
      async ({ id }) =>
        await fixture.api.update({
          id,
          physicalDevice: { clientDeviceId: 'valve', connectionId: fixture.connections[0] },
        }),
    ],
    [
      'the configuration of its binding',
      async ({ id }) => await fixture.api.update({ id, physicalDevice: { configuration: { fixture: 17 } } }),
    ],
    [
      'its sensors',
      async ({ id }) =>
        await fixture.api.addSensors({ id, sensorTemplateIds: [fixture.templates[0], fixture.templates[0]] }),
    ],
    [
      'the template of a sensor',
      async ({ id, sensorIds }) =>
        await fixture.api.updateSensor({ id, sensorId: sensorIds[0], sensorTemplateId: fixture.templates[1] }),
    ],
    [
      'its mappings',
      async ({ id, sensorIds }) =>
        await fixture.api.setMappings({ id, mappings: [{ sensorId: sensorIds[0], sourcePath: 'a' }] }),
    ],
    [
      'fewer sensors',
      async ({ id, sensorIds }) => await fixture.api.removeSensors({ id, sensorIds: sensorIds.slice(1) }),
    ],
    ['its pictures', async ({ id }) => await fixture.api.update({ id, images: [{ mediaId: media }] })],
    ['no pictures', async ({ id }) => await fixture.api.update({ id, clearImages: true })],
    ['no binding', async ({ id }) => await fixture.api.update({ id, unbindPhysicalDevice: true })],
  ];

  it('shows each change immediately and is otherwise unchanged', async () => {
    let device = await fixture.api.create({ name: 'Valve' });
    for (const [what, change] of CHANGES) {
      expect([what, await fixture.api.get({ id: device.id })]).toEqual([what, device]);
      fixture.clock.advance(1000);
      const changed = await change({ id: device.id, sensorIds: device.sensors.map(({ id }) => id) });
      expect(changed.etag).not.toBe(device.etag);
      expect([what, await fixture.api.get({ id: device.id })]).toEqual([what, changed]);
      device = changed;
    }
  });

  it('shows the last seen time without counting it as a change of the device', async () => {
    const { id, etag } = await fixture.api.create({
      name: 'Pump',
      physicalDevice: { clientDeviceId: 'pump', connectionId: fixture.connections[0] },
    });
    expect((await fixture.api.get({ id })).lastSeen).toBeUndefined();
    await fixture.test.database.db.knex('digital_devices').where({ id }).update({ last_seen_at: 5000 });
    expect(await fixture.api.get({ id })).toMatchObject({ lastSeen: { seconds: 5, nanos: 0 }, etag });
  });

  it('renews its image links over time', async () => {
    const { id } = await fixture.api.create({ name: 'Tank', images: [{ mediaId: media }] });
    const [before] = (await fixture.api.get({ id })).images;
    fixture.clock.advance(3_600_000);
    const [after] = (await fixture.api.get({ id })).images;
    expect(after?.url).not.toBe(before?.url);
  });

  it('is not found by another organization or after it is deleted', async () => {
    const { id } = await fixture.api.create({ name: 'Boiler' });
    await fixture.api.get({ id });
    expect((await fixture.api.get.fails({ id }, 'org-2')).reason).toBe('device_not_found');
    await fixture.api.delete({ id });
    expect((await fixture.api.get.fails({ id })).reason).toBe('device_not_found');
  });
});

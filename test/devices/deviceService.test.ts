import { status } from '@grpc/grpc-js';
import { DeviceService } from '../../src/devices';
import { DataSendingIntervalUnit, DigitalDevice, type DigitalDevice as Device } from '../../src/gen/digitaldevice/v2/digital_device_service';
import { fromTimestamp } from '../../src/kernel/timestamps';
import { startDeviceRoom, type DeviceRoom } from '../support/deviceRoom';
import { engines } from '../support/engines';

describe.each(engines())('devices on $name', (engine) => {
  let room: DeviceRoom;
  let next = 0;
  beforeAll(async () => {
    room = await startDeviceRoom(engine);
  });
  beforeEach(() => {
    room.clock.advance(1000);
    room.told.length = 0;
  });
  afterAll(async () => await room.stop());

  /** A device bound to a physical device of its own, with `sensors` sensors. */
  async function bound(sensors = 0): Promise<Device> {
    const clientDeviceId = `meter-${(next += 1)}`;
    const device = await room.api.create({ name: 'Bound', physicalDevice: { clientDeviceId, connectionId: room.connections[0] } });
    if (sensors === 0) return device;
    return await room.api.addSensors({ id: device.id, sensorTemplateIds: Array.from({ length: sensors }, () => room.templates[0]) });
  }

  const total = async (as?: string): Promise<number> => (await room.api.list({ limit: 1 }, as)).total;

  it('creates a device, trims its name and returns it whole', async () => {
    const created = await room.api.create({ name: '  Valve Süd 1 ' });
    expect(created).toMatchObject({ name: 'Valve Süd 1', organizationId: 'org-1', lastSeen: undefined, physicalDevice: undefined, sensors: [], dataSendingInterval: undefined, etag: '"1"' });
    expect(fromTimestamp(created.createdAt!)).toBe(room.clock.now());
    expect(created.updatedAt).toEqual(created.createdAt);
    expect(await room.api.get({ id: created.id })).toEqual(created);
  });

  it('binds a device as it is created', async () => {
    const configuration = { class: 'C', nested: { list: [1, null, 'two', false] } };
    const created = await room.api.create({ name: 'Bound', physicalDevice: { clientDeviceId: ' meter-a ', connectionId: room.connections[0], configuration } });
    expect(created.physicalDevice).toMatchObject({ clientDeviceId: 'meter-a', connectionId: room.connections[0], configuration, sensorMappings: [] });
    expect(await room.api.get({ id: created.id })).toEqual(created);
  });

  it('says all that is wrong with a new device at once and stores nothing', async () => {
    const before = await total();
    const error = await room.api.create.fails({ name: 'a\u0007b', physicalDevice: { clientDeviceId: ' ', connectionId: '' } });
    expect(error).toMatchObject({ code: status.INVALID_ARGUMENT, reason: 'validation_failed' });
    expect(error.fields.toSorted()).toEqual(['name', 'physicalDevice.clientDeviceId', 'physicalDevice.connectionId']);
    expect(await total()).toBe(before);
  });

  it('does not find a connection of another organization', async () => {
    const before = await total();
    for (const connectionId of [room.connections[1], 'no-such-connection']) {
      const error = await room.api.create.fails({ name: 'x', physicalDevice: { clientDeviceId: 'm', connectionId } });
      expect(error).toMatchObject({ code: status.NOT_FOUND, reason: 'connection_not_found' });
    }
    expect(await total()).toBe(before);
  });

  it('does not find a device of another organization, whatever is done to it', async () => {
    const device = await bound(1);
    const { id } = device;
    const tries = [
      room.api.get.fails({ id }, 'org-2'),
      room.api.update.fails({ id, name: 'mine' }, 'org-2'),
      room.api.delete.fails({ id }, 'org-2'),
      room.api.addSensors.fails({ id, sensorTemplateIds: [room.templates[0]] }, 'org-2'),
      room.api.removeSensors.fails({ id, sensorIds: [device.sensors[0]!.id] }, 'org-2'),
      room.api.updateSensor.fails({ id, sensorId: device.sensors[0]!.id, sensorTemplateId: room.templates[1] }, 'org-2'),
      room.api.setMappings.fails({ id, mappings: [] }, 'org-2'),
      room.api.connectorKeys.fails({ id, connectionId: room.connections[1], clientDeviceId: 'x' }, 'org-2'),
    ];
    for (const error of await Promise.all(tries)) expect(error).toMatchObject({ code: status.NOT_FOUND, reason: 'device_not_found' });
    expect(await room.api.get({ id })).toEqual(device);
    expect(room.told).toEqual([]);
  });

  it('changes what is given and leaves the rest', async () => {
    const device = await bound(2);
    room.clock.advance(5);
    const interval = { unit: DataSendingIntervalUnit.DATA_SENDING_INTERVAL_UNIT_HOUR, value: 6 };
    const timed = await room.api.update({ id: device.id, dataSendingInterval: interval });
    expect(timed).toEqual({ ...device, dataSendingInterval: interval, updatedAt: timed.updatedAt, etag: '"3"' });
    expect(fromTimestamp(timed.updatedAt!)).toBe(room.clock.now());
    const renamed = await room.api.update({ id: device.id, name: 'New name' });
    expect(renamed).toEqual({ ...timed, name: 'New name', etag: '"4"' });
    const cleared = await room.api.update({ id: device.id, clearDataSendingInterval: true });
    expect(cleared).toEqual({ ...renamed, dataSendingInterval: undefined, etag: '"5"' });
    expect(room.told).toEqual([]);
  });

  it('refuses to set and remove the same thing, naming both', async () => {
    const device = await bound();
    const error = await room.api.update.fails({
      id: device.id,
      unbindPhysicalDevice: true,
      physicalDevice: { clientDeviceId: 'other' },
      clearDataSendingInterval: true,
      dataSendingInterval: { unit: DataSendingIntervalUnit.DATA_SENDING_INTERVAL_UNIT_DAY, value: 1 },
    });
    expect(error.fields.toSorted()).toEqual(['clearDataSendingInterval', 'unbindPhysicalDevice']);
  });

  it('refuses an update or delete on an etag that no longer fits, and takes one that does', async () => {
    const device = await bound();
    await room.api.update({ id: device.id, name: 'Faster', etag: device.etag });
    expect(await room.api.update.fails({ id: device.id, name: 'Slower', etag: device.etag })).toMatchObject({ code: status.ABORTED, reason: 'changed_meanwhile', metadata: { etag: '"2"' } });
    expect(await room.api.delete.fails({ id: device.id, etag: device.etag })).toMatchObject({ code: status.ABORTED, reason: 'changed_meanwhile' });
    expect(await room.api.get({ id: device.id })).toMatchObject({ name: 'Faster', etag: '"2"' });
    expect(room.told).toEqual([]);
    await room.api.delete({ id: device.id, etag: '"2"' });
  });

  it('deletes a device with all that hangs on it and counts it out', async () => {
    const device = await bound(2);
    await room.api.setMappings({ id: device.id, mappings: [{ sensorId: device.sensors[0]!.id, sourcePath: 'a' }] });
    const before = await total();
    expect(await room.api.delete({ id: device.id })).toEqual({});
    expect(await room.api.get.fails({ id: device.id })).toMatchObject({ reason: 'device_not_found' });
    expect(await room.api.delete.fails({ id: device.id })).toMatchObject({ reason: 'device_not_found' });
    expect(await total()).toBe(before - 1);
    expect(room.told).toEqual([`deviceDeleted org-1 ${device.id}`]);
    for (const table of ['physical_devices', 'sensors', 'sensor_mappings']) expect(await room.test.database.db.knex(table).where('device_id', device.id)).toEqual([]);
    expect(await room.api.create({ name: 'Again', physicalDevice: { clientDeviceId: device.physicalDevice!.clientDeviceId, connectionId: room.connections[0] } })).toBeDefined();
  });

  it('rolls everything back when a hook fails', async () => {
    const device = await bound(1);
    const before = await total();
    const hooks = { onBindingChanged: refuse, onDeviceDeleted: refuse, sensorsInUse: async () => [] };
    const failing = new DeviceService({ database: room.test.database, clock: room.clock, cursors: undefined as never, hooks });
    await expect(failing.delete('org-1', device.id, undefined)).rejects.toThrow('hook');
    await expect(failing.update('org-1', device.id, { name: 'x', physicalDevice: null, dataSendingInterval: undefined }, undefined)).rejects.toThrow('hook');
    expect(await room.api.get({ id: device.id })).toEqual(device);
    expect(await total()).toBe(before);
  });

  describe('bindings', () => {
    it('binds a physical device once', async () => {
      const { physicalDevice } = await bound();
      const binding = { clientDeviceId: physicalDevice!.clientDeviceId, connectionId: room.connections[0] };
      const before = await total();
      const error = await room.api.create.fails({ name: 'Second', physicalDevice: binding });
      expect(error).toMatchObject({ code: status.ALREADY_EXISTS, reason: 'physical_device_already_bound', metadata: { client_device_id: binding.clientDeviceId, connection_id: binding.connectionId } });
      const other = await bound();
      expect(await room.api.update.fails({ id: other.id, name: 'Thief', physicalDevice: binding })).toMatchObject({ reason: 'physical_device_already_bound' });
      expect(await room.api.get({ id: other.id })).toEqual(other);
      expect(await total()).toBe(before + 1);
      expect(room.told.filter((line) => !line.endsWith(other.id))).toEqual([]);
    });

    it('lets one of two parallel binds of the same physical device win', async () => {
      const devices = await Promise.all([1, 2].map(async () => await room.api.create({ name: 'Racer' })));
      const binding = { clientDeviceId: `race-${(next += 1)}`, connectionId: room.connections[0] };
      const ends = await Promise.allSettled([
        ...devices.map(async ({ id }) => await room.api.update({ id, physicalDevice: binding })),
        ...[3, 4].map(async () => await room.api.create({ name: 'Racer', physicalDevice: binding })),
      ]);
      expect(ends.map(({ status }) => status).toSorted()).toEqual(['fulfilled', 'rejected', 'rejected', 'rejected']);
      for (const end of ends) if (end.status === 'rejected') expect(end.reason).toMatchObject({ code: status.ALREADY_EXISTS });
      expect(await room.test.database.db.knex('physical_devices').where('client_device_id', binding.clientDeviceId)).toHaveLength(1);
    });

    it('keeps every count of parallel creates and deletes', async () => {
      const before = await total();
      const created = await Promise.all(Array.from({ length: 12 }, async () => await room.api.create({ name: 'Many' })));
      await Promise.all(created.slice(0, 5).map(async ({ id }) => await room.api.delete({ id })));
      expect(await total()).toBe(before + 7);
    });

    it('requires both ids to bind a device that has no binding', async () => {
      const device = await room.api.create({ name: 'Loose' });
      expect((await room.api.update.fails({ id: device.id, physicalDevice: {} })).fields).toEqual(['physicalDevice.clientDeviceId', 'physicalDevice.connectionId']);
      expect((await room.api.update.fails({ id: device.id, physicalDevice: { clientDeviceId: 'x' } })).fields).toEqual(['physicalDevice.connectionId']);
      const tied = await room.api.update({ id: device.id, physicalDevice: { clientDeviceId: `loose-${(next += 1)}`, connectionId: room.connections[0] } });
      expect(tied.physicalDevice).toMatchObject({ configuration: {} });
      expect(room.told).toEqual([]);
    });

    it('replaces only the configuration where nothing else is given', async () => {
      const device = await bound();
      room.clock.advance(7);
      const changed = await room.api.update({ id: device.id, physicalDevice: { configuration: { profile: 'x' } } });
      expect(changed.physicalDevice).toMatchObject({ id: device.physicalDevice!.id, configuration: { profile: 'x' }, createdAt: device.physicalDevice!.createdAt });
      expect(fromTimestamp(changed.physicalDevice!.updatedAt!)).toBe(room.clock.now());
      const same = await room.api.update({ id: device.id, physicalDevice: { clientDeviceId: ` ${device.physicalDevice!.clientDeviceId} ` } });
      expect(same.physicalDevice).toMatchObject({ id: device.physicalDevice!.id, configuration: { profile: 'x' } });
      expect(room.told).toEqual([]);
    });

    it('rebinds: another physical device with the same configuration and mappings', async () => {
      const device = await bound(1);
      await room.api.update({ id: device.id, physicalDevice: { configuration: { kept: true } } });
      const mapped = await room.api.setMappings({ id: device.id, mappings: [{ sensorId: device.sensors[0]!.id, sourcePath: 'data.t' }] });
      const connectionId = await room.addConnection();
      const moved = await room.api.update({ id: device.id, physicalDevice: { connectionId } });
      expect(moved.physicalDevice).toMatchObject({ connectionId, clientDeviceId: device.physicalDevice!.clientDeviceId, configuration: { kept: true } });
      expect(moved.physicalDevice!.id).not.toBe(device.physicalDevice!.id);
      expect(moved.physicalDevice!.sensorMappings).toEqual(mapped.physicalDevice!.sensorMappings);
      expect(room.told).toEqual([`bindingChanged org-1 ${device.id}`]);
    });

    it('unbinds with the mappings, and says nothing where there was no binding', async () => {
      const device = await bound(1);
      await room.api.setMappings({ id: device.id, mappings: [{ sensorId: device.sensors[0]!.id, sourcePath: 'data.t' }] });
      const loose = await room.api.update({ id: device.id, unbindPhysicalDevice: true });
      expect(loose.physicalDevice).toBeUndefined();
      expect(loose.sensors).toEqual(device.sensors);
      await room.api.update({ id: device.id, unbindPhysicalDevice: true });
      expect(room.told).toEqual([`bindingChanged org-1 ${device.id}`]);
      const again = await room.api.update({ id: device.id, physicalDevice: { clientDeviceId: device.physicalDevice!.clientDeviceId, connectionId: room.connections[0] } });
      expect(again.physicalDevice!.sensorMappings).toEqual([]);
    });

    it('counts the devices of connections', async () => {
      const [one, two] = [await room.addConnection(), await room.addConnection()];
      for (const clientDeviceId of ['a', 'b']) await room.api.create({ name: clientDeviceId, physicalDevice: { clientDeviceId, connectionId: one } });
      expect(await room.devices.countByConnection('org-1', [one, two])).toEqual(new Map([[one, 2]]));
      expect(await room.devices.countByConnection('org-2', [one])).toEqual(new Map());
    });
  });

  it('sends nothing that the generated code cannot read back', async () => {
    const device = await bound(2);
    expect(DigitalDevice.decode(DigitalDevice.encode(device).finish())).toEqual(device);
  });
});

async function refuse(): Promise<void> {
  throw new Error('the hook failed');
}

import { status } from '@grpc/grpc-js';
import { DeviceService } from '../../src/devices';
import {
  DataSendingIntervalUnit,
  DigitalDevice,
  type DigitalDevice as Device,
} from '../../src/gen/digitaldevice/v2/digital_device_service';
import { fromTimestamp } from '../../src/kernel/timestamps';
import { startDeviceFixture, type DeviceFixture } from '../support/deviceFixture';
import { noDeviceHooks } from '../support/deviceHooks';
import { engines } from '../support/engines';

describe.each(engines())('devices on $name', (engine) => {
  let fixture: DeviceFixture;
  let next = 0;
  beforeAll(async () => {
    fixture = await startDeviceFixture(engine);
  });
  beforeEach(() => {
    fixture.clock.advance(1000);
    fixture.hookCalls.length = 0;
  });
  afterAll(async () => await fixture.stop());

  /** Creates a device that is bound to its own physical device and has `sensors` sensors. */
  async function createBoundDevice(sensors = 0): Promise<Device> {
    const clientDeviceId = `meter-${(next += 1)}`;
    const device = await fixture.api.create({
      name: 'Bound',
      physicalDevice: { clientDeviceId, connectionId: fixture.connections[0] },
    });
    if (sensors === 0) return device;
    return await fixture.api.addSensors({
      id: device.id,
      sensorTemplateIds: Array.from({ length: sensors }, () => fixture.templates[0]),
    });
  }

  const total = async (as?: string): Promise<number> => (await fixture.api.list({ limit: 1 }, as)).total;

  it('creates a device, trims its name and returns it completely', async () => {
    const created = await fixture.api.create({ name: '  Valve Süd 1 ' });
    expect(created).toMatchObject({
      name: 'Valve Süd 1',
      organizationId: 'org-1',
      lastSeen: undefined,
      physicalDevice: undefined,
      sensors: [],
      dataSendingInterval: undefined,
      etag: '"1"',
    });
    expect(fromTimestamp(created.createdAt!)).toBe(fixture.clock.now());
    expect(created.updatedAt).toEqual(created.createdAt);
    expect(await fixture.api.get({ id: created.id })).toEqual(created);
  });

  it('binds a device when it is created', async () => {
    const configuration = { class: 'C', nested: { list: [1, null, 'two', false] } };
    const created = await fixture.api.create({
      name: 'Bound',
      physicalDevice: { clientDeviceId: ' meter-a ', connectionId: fixture.connections[0], configuration },
    });
    expect(created.physicalDevice).toMatchObject({
      clientDeviceId: 'meter-a',
      connectionId: fixture.connections[0],
      configuration,
      sensorMappings: [],
    });
    expect(await fixture.api.get({ id: created.id })).toEqual(created);
  });

  it('reports all violations of a new device together and stores nothing', async () => {
    const before = await total();
    const error = await fixture.api.create.fails({
      name: 'a\u0007b',
      physicalDevice: { clientDeviceId: ' ', connectionId: '' },
    });
    expect(error).toMatchObject({ code: status.INVALID_ARGUMENT, reason: 'validation_failed' });
    expect(error.fields.toSorted()).toEqual(['name', 'physicalDevice.clientDeviceId', 'physicalDevice.connectionId']);
    expect(await total()).toBe(before);
  });

  it('does not find a connection of another organization', async () => {
    const before = await total();
    for (const connectionId of [fixture.connections[1], 'no-such-connection']) {
      const error = await fixture.api.create.fails({
        name: 'x',
        physicalDevice: { clientDeviceId: 'm', connectionId },
      });
      expect(error).toMatchObject({ code: status.NOT_FOUND, reason: 'connection_not_found' });
    }
    expect(await total()).toBe(before);
  });

  it('does not find a device of another organization in any operation', async () => {
    const device = await createBoundDevice(1);
    const { id } = device;
    const tries = [
      fixture.api.get.fails({ id }, 'org-2'),
      fixture.api.update.fails({ id, name: 'mine' }, 'org-2'),
      fixture.api.delete.fails({ id }, 'org-2'),
      fixture.api.addSensors.fails({ id, sensorTemplateIds: [fixture.templates[0]] }, 'org-2'),
      fixture.api.removeSensors.fails({ id, sensorIds: [device.sensors[0]!.id] }, 'org-2'),
      fixture.api.updateSensor.fails(
        { id, sensorId: device.sensors[0]!.id, sensorTemplateId: fixture.templates[1] },
        'org-2',
      ),
      fixture.api.setMappings.fails({ id, clearMappings: true }, 'org-2'),
      fixture.api.connectorKeys.fails({ id, connectionId: fixture.connections[1], clientDeviceId: 'x' }, 'org-2'),
    ];
    for (const error of await Promise.all(tries))
      expect(error).toMatchObject({ code: status.NOT_FOUND, reason: 'device_not_found' });
    expect(await fixture.api.get({ id })).toEqual(device);
    expect(fixture.hookCalls).toEqual([]);
  });

  it('changes the given fields and keeps the others', async () => {
    const device = await createBoundDevice(2);
    fixture.clock.advance(5);
    const interval = { unit: DataSendingIntervalUnit.DATA_SENDING_INTERVAL_UNIT_HOUR, value: 6 };
    const timed = await fixture.api.update({ id: device.id, dataSendingInterval: interval });
    expect(timed).toEqual({ ...device, dataSendingInterval: interval, updatedAt: timed.updatedAt, etag: '"3"' });
    expect(fromTimestamp(timed.updatedAt!)).toBe(fixture.clock.now());
    const renamed = await fixture.api.update({ id: device.id, name: 'New name' });
    expect(renamed).toEqual({ ...timed, name: 'New name', etag: '"4"' });
    const cleared = await fixture.api.update({ id: device.id, clearDataSendingInterval: true });
    expect(cleared).toEqual({ ...renamed, dataSendingInterval: undefined, etag: '"5"' });
    expect(fixture.hookCalls).toEqual([]);
  });

  it('rejects setting and clearing the same field and names both fields', async () => {
    const device = await createBoundDevice();
    const error = await fixture.api.update.fails({
      id: device.id,
      unbindPhysicalDevice: true,
      physicalDevice: { clientDeviceId: 'other' },
      clearDataSendingInterval: true,
      dataSendingInterval: { unit: DataSendingIntervalUnit.DATA_SENDING_INTERVAL_UNIT_DAY, value: 1 },
    });
    expect(error.fields.toSorted()).toEqual(['clearDataSendingInterval', 'unbindPhysicalDevice']);
  });

  it('rejects an update or delete with an outdated etag and accepts the current one', async () => {
    const device = await createBoundDevice();
    await fixture.api.update({ id: device.id, name: 'Faster', etag: device.etag });
    expect(await fixture.api.update.fails({ id: device.id, name: 'Slower', etag: device.etag })).toMatchObject({
      code: status.ABORTED,
      reason: 'version_conflict',
      metadata: { etag: '"2"' },
    });
    expect(await fixture.api.delete.fails({ id: device.id, etag: device.etag })).toMatchObject({
      code: status.ABORTED,
      reason: 'version_conflict',
    });
    expect(await fixture.api.get({ id: device.id })).toMatchObject({ name: 'Faster', etag: '"2"' });
    expect(fixture.hookCalls).toEqual([]);
    await fixture.api.delete({ id: device.id, etag: '"2"' });
  });

  it('deletes a device with all of its dependent records and lowers the count', async () => {
    const device = await createBoundDevice(2);
    await fixture.api.setMappings({ id: device.id, mappings: [{ sensorId: device.sensors[0]!.id, sourcePath: 'a' }] });
    const before = await total();
    expect(await fixture.api.delete({ id: device.id })).toEqual({});
    expect(await fixture.api.get.fails({ id: device.id })).toMatchObject({ reason: 'device_not_found' });
    expect(await fixture.api.delete.fails({ id: device.id })).toMatchObject({ reason: 'device_not_found' });
    expect(await total()).toBe(before - 1);
    expect(fixture.hookCalls).toEqual([`deviceDeleted org-1 ${device.id}`]);
    for (const table of ['physical_devices', 'sensors', 'sensor_mappings'])
      expect(await fixture.test.database.db.knex(table).where('device_id', device.id)).toEqual([]);
    expect(
      await fixture.api.create({
        name: 'Again',
        physicalDevice: { clientDeviceId: device.physicalDevice!.clientDeviceId, connectionId: fixture.connections[0] },
      }),
    ).toBeDefined();
  });

  it('rolls everything back when a hook fails', async () => {
    const device = await createBoundDevice(1);
    const before = await total();
    const hooks = { ...noDeviceHooks, onBindingRemoved: refuse, onDeviceDeleted: refuse };
    const failing = new DeviceService({
      database: fixture.test.database,
      clock: fixture.clock,
      cursors: undefined as never,
      hooks,
    });
    await expect(failing.delete('org-1', device.id, undefined)).rejects.toThrow('hook');
    await expect(
      failing.update(
        'org-1',
        device.id,
        { name: 'x', physicalDevice: null, dataSendingInterval: undefined },
        undefined,
      ),
    ).rejects.toThrow('hook');
    expect(await fixture.api.get({ id: device.id })).toEqual(device);
    expect(await total()).toBe(before);
  });

  describe('device bindings', () => {
    it('binds a physical device only once', async () => {
      const { physicalDevice } = await createBoundDevice();
      const binding = { clientDeviceId: physicalDevice!.clientDeviceId, connectionId: fixture.connections[0] };
      const before = await total();
      const error = await fixture.api.create.fails({ name: 'Second', physicalDevice: binding });
      expect(error).toMatchObject({
        code: status.ALREADY_EXISTS,
        reason: 'physical_device_already_bound',
        metadata: { client_device_id: binding.clientDeviceId, connection_id: binding.connectionId },
      });
      const other = await createBoundDevice();
      expect(await fixture.api.update.fails({ id: other.id, name: 'Thief', physicalDevice: binding })).toMatchObject({
        reason: 'physical_device_already_bound',
      });
      expect(await fixture.api.get({ id: other.id })).toEqual(other);
      expect(await total()).toBe(before + 1);
      expect(fixture.hookCalls.filter((line) => !line.endsWith(other.id))).toEqual([]);
    });

    it('lets exactly one of two parallel bindings of the same physical device succeed', async () => {
      const devices = await Promise.all([1, 2].map(async () => await fixture.api.create({ name: 'Racer' })));
      const binding = { clientDeviceId: `race-${(next += 1)}`, connectionId: fixture.connections[0] };
      const ends = await Promise.allSettled([
        ...devices.map(async ({ id }) => await fixture.api.update({ id, physicalDevice: binding })),
        ...[3, 4].map(async () => await fixture.api.create({ name: 'Racer', physicalDevice: binding })),
      ]);
      expect(ends.map(({ status }) => status).toSorted()).toEqual(['fulfilled', 'rejected', 'rejected', 'rejected']);
      for (const end of ends)
        if (end.status === 'rejected') expect(end.reason).toMatchObject({ code: status.ALREADY_EXISTS });
      expect(
        await fixture.test.database.db.knex('physical_devices').where('client_device_id', binding.clientDeviceId),
      ).toHaveLength(1);
    });

    it('keeps counts exact during parallel creates and deletes', async () => {
      const before = await total();
      const created = await Promise.all(
        Array.from({ length: 12 }, async () => await fixture.api.create({ name: 'Many' })),
      );
      await Promise.all(created.slice(0, 5).map(async ({ id }) => await fixture.api.delete({ id })));
      expect(await total()).toBe(before + 7);
    });

    it('requires both ids to bind an unbound device', async () => {
      const device = await fixture.api.create({ name: 'Loose' });
      expect((await fixture.api.update.fails({ id: device.id, physicalDevice: {} })).fields).toEqual([
        'physicalDevice.clientDeviceId',
        'physicalDevice.connectionId',
      ]);
      expect(
        (await fixture.api.update.fails({ id: device.id, physicalDevice: { clientDeviceId: 'x' } })).fields,
      ).toEqual(['physicalDevice.connectionId']);
      const tied = await fixture.api.update({
        id: device.id,
        physicalDevice: { clientDeviceId: `loose-${(next += 1)}`, connectionId: fixture.connections[0] },
      });
      expect(tied.physicalDevice).toMatchObject({ configuration: {} });
      expect(fixture.hookCalls).toEqual([]);
    });

    it('replaces only the configuration when nothing else is given', async () => {
      const device = await createBoundDevice();
      fixture.clock.advance(7);
      const changed = await fixture.api.update({ id: device.id, physicalDevice: { configuration: { profile: 'x' } } });
      expect(changed.physicalDevice).toMatchObject({
        id: device.physicalDevice!.id,
        configuration: { profile: 'x' },
        createdAt: device.physicalDevice!.createdAt,
      });
      expect(fromTimestamp(changed.physicalDevice!.updatedAt!)).toBe(fixture.clock.now());
      const same = await fixture.api.update({
        id: device.id,
        physicalDevice: { clientDeviceId: ` ${device.physicalDevice!.clientDeviceId} ` },
      });
      expect(same.physicalDevice).toMatchObject({ id: device.physicalDevice!.id, configuration: { profile: 'x' } });
      expect(fixture.hookCalls).toEqual([]);
    });

    it('rebinds to another physical device with the same configuration and mappings', async () => {
      const device = await createBoundDevice(1);
      await fixture.api.update({ id: device.id, physicalDevice: { configuration: { kept: true } } });
      const mapped = await fixture.api.setMappings({
        id: device.id,
        mappings: [{ sensorId: device.sensors[0]!.id, sourcePath: 'data.t' }],
      });
      const connectionId = await fixture.addConnection();
      const moved = await fixture.api.update({ id: device.id, physicalDevice: { connectionId } });
      expect(moved.physicalDevice).toMatchObject({
        connectionId,
        clientDeviceId: device.physicalDevice!.clientDeviceId,
        configuration: { kept: true },
      });
      expect(moved.physicalDevice!.id).not.toBe(device.physicalDevice!.id);
      expect(moved.physicalDevice!.sensorMappings).toEqual(mapped.physicalDevice!.sensorMappings);
      expect(fixture.hookCalls).toEqual([`bindingChanged org-1 ${device.id}`]);
    });

    it('removes the mappings with the binding and reports no change for an unbound device', async () => {
      const device = await createBoundDevice(1);
      await fixture.api.setMappings({
        id: device.id,
        mappings: [{ sensorId: device.sensors[0]!.id, sourcePath: 'data.t' }],
      });
      const unbound = await fixture.api.update({ id: device.id, unbindPhysicalDevice: true });
      expect(unbound.physicalDevice).toBeUndefined();
      expect(unbound.sensors).toEqual(device.sensors);
      await fixture.api.update({ id: device.id, unbindPhysicalDevice: true });
      expect(fixture.hookCalls).toEqual([`bindingChanged org-1 ${device.id}`]);
      const again = await fixture.api.update({
        id: device.id,
        physicalDevice: { clientDeviceId: device.physicalDevice!.clientDeviceId, connectionId: fixture.connections[0] },
      });
      expect(again.physicalDevice!.sensorMappings).toEqual([]);
    });

    it('counts the devices of each connection', async () => {
      const [one, two] = [await fixture.addConnection(), await fixture.addConnection()];
      for (const clientDeviceId of ['a', 'b'])
        await fixture.api.create({ name: clientDeviceId, physicalDevice: { clientDeviceId, connectionId: one } });
      expect(await fixture.devices.countByConnection('org-1', [one, two])).toEqual(new Map([[one, 2]]));
      expect(await fixture.devices.countByConnection('org-2', [one])).toEqual(new Map());
    });
  });

  it('sends only messages that the generated code can decode', async () => {
    const device = await createBoundDevice(2);
    expect(DigitalDevice.decode(DigitalDevice.encode(device).finish())).toEqual(device);
  });
});

async function refuse(): Promise<void> {
  throw new Error('the hook failed');
}

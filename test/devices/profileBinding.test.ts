import { status } from '@grpc/grpc-js';
import { UnitOfWork } from '../../src/database';
import { BindingRepository } from '../../src/devices/bindingRepository';
import { newId } from '../../src/kernel/ids';
import { importDecoder, PROFILE_ID } from '../support/importedProfiles';
import { startDeviceRoom, type DeviceRoom } from '../support/deviceRoom';
import { engines } from '../support/engines';

describe.each(engines())('the profile of a physical device on $name', (engine) => {
  let room: DeviceRoom;
  beforeAll(async () => {
    room = await startDeviceRoom(engine);
    await importDecoder(room.test.database, room.clock, 'function decodeUplink() { return { data: {} }; }');
  });
  afterAll(async () => await room.stop());

  const physicalDevice = (configuration: Record<string, unknown>) => ({ clientDeviceId: newId(), connectionId: room.connections[0], configuration });
  /** What keeps the profile from being removed. */
  const used = async (deviceId: string): Promise<unknown> => (await room.test.database.db.knex<{ profile_id: unknown }>('physical_devices').where('device_id', deviceId).first('profile_id'))?.profile_id;
  const boundDevices = async (): Promise<number> => (await room.test.database.db.knex('physical_devices').where('connection_id', room.connections[0])).length;
  const remove = async (id: string): Promise<number> => await room.test.database.db.knex('device_profiles').where('id', id).delete();

  it('is kept, changed and taken away with the configuration', async () => {
    const { id } = await room.api.create({ name: 'Brook', physicalDevice: physicalDevice({ profileId: PROFILE_ID, variables: { depth: '4' }, other: true }) });
    expect(await used(id)).toBe(PROFILE_ID);
    expect(await room.devices.get('org-1', id)).toMatchObject({ physicalDevice: { profileInterval: 600, configuration: { profileId: PROFILE_ID, variables: { depth: '4' }, other: true } } });
    await expect(remove(PROFILE_ID)).rejects.toThrow(/foreign key/i);
    await room.api.update({ id, physicalDevice: { clientDeviceId: newId() } });
    expect(await used(id)).toBe(PROFILE_ID);
    await room.api.update({ id, physicalDevice: { configuration: { variables: {} } } });
    expect(await used(id)).toBeNull();
    expect((await room.devices.get('org-1', id)).physicalDevice?.profileInterval).toBeUndefined();
    await room.api.update({ id, physicalDevice: { configuration: { profileId: PROFILE_ID } } });
    expect(await used(id)).toBe(PROFILE_ID);
    await room.api.delete({ id });
  });

  it('has to be there, and is named together with what else is wrong', async () => {
    const configuration = { profileId: 'quellwerk/qw-99/1.0/EU868' };
    const description = 'no profile "quellwerk/qw-99/1.0/EU868" was imported; give the id of one that ListDeviceProfiles or `plantroom profiles list` shows, or leave it out';
    const input = { ...physicalDevice(configuration), clientDeviceId: 'a\u2028b' };
    await expect(room.devices.create('org-1', { name: 'Brook', physicalDevice: input })).rejects.toMatchObject({ violations: [{ field: 'physicalDevice.clientDeviceId' }, { field: 'physicalDevice.configuration.profileId', description }] });
    const { id } = await room.api.create({ name: 'Brook', physicalDevice: physicalDevice({}) });
    expect(await room.api.update.fails({ id, physicalDevice: { configuration } })).toMatchObject({ code: status.INVALID_ARGUMENT, violations: { 'physicalDevice.configuration.profileId': description } });
    expect(await room.api.update.fails({ id, physicalDevice: { configuration: { profileId: 7, variables: { a: 1 } } } })).toMatchObject({
      violations: { 'physicalDevice.configuration.profileId': 'must be a text', 'physicalDevice.configuration.variables.a': 'must be a text' },
    });
    expect(await used(id)).toBeNull();
  });

  it('is refused in the same words where it was removed since it was looked up', async () => {
    const { id } = await room.api.create({ name: 'Brook', physicalDevice: physicalDevice({ kept: 1 }) });
    const loose = await room.api.create({ name: 'Not bound' });
    const work = new UnitOfWork(room.test.database, (db) => new BindingRepository(db));
    const configuration = { profileId: 'gone' };
    const refused = { reason: 'validation_failed', violations: [{ field: 'physicalDevice.configuration.profileId', description: expect.stringContaining('no profile "gone" was imported') as unknown }] };
    await expect(work.transaction((bindings) => bindings.setConfiguration('org-1', id, configuration, 1))).rejects.toMatchObject(refused);
    const binding = { id: newId(), clientDeviceId: newId(), connectionId: room.connections[0], configuration, createdAt: 1 };
    await expect(work.transaction((bindings) => bindings.create('org-1', loose.id, binding))).rejects.toMatchObject(refused);
    expect((await room.api.get({ id })).physicalDevice?.configuration).toEqual({ kept: 1 });
    expect((await room.api.get({ id: loose.id })).physicalDevice).toBeUndefined();
    expect(await room.devices.countByConnection('org-1', [room.connections[0]])).toEqual(new Map([[room.connections[0], await boundDevices()]]));
  });

  it('may have been something else before there were profiles: such a device can be read, and says what is wrong when it is changed', async () => {
    const { id } = await room.api.create({ name: 'Old', physicalDevice: physicalDevice({}) });
    await room.test.database.db.knex('physical_devices').where('device_id', id).update({ configuration: JSON.stringify({ profileId: { of: 'ours' }, variables: 'x' }) });
    expect((await room.api.get({ id })).physicalDevice?.configuration).toEqual({ profileId: { of: 'ours' }, variables: 'x' });
    await room.api.update({ id, name: 'Older' });
    const { violations } = await room.api.update.fails({ id, physicalDevice: { clientDeviceId: newId() } });
    expect(violations).toEqual({ 'physicalDevice.configuration.profileId': 'must be a text', 'physicalDevice.configuration.variables': 'must be an object' });
  });
});

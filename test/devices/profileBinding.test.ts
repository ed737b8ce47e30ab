import { status } from '@grpc/grpc-js';
import { UnitOfWork } from '../../src/database';
import { BindingRepository } from '../../src/devices/bindingRepository';
import { newId } from '../../src/kernel/ids';
import { importDecoder, PROFILE_ID } from '../support/importedProfiles';
import { startDeviceFixture, type DeviceFixture } from '../support/deviceFixture';
import { engines } from '../support/engines';

describe.each(engines())('the profile of a physical device on $name', (engine) => {
  let fixture: DeviceFixture;
  beforeAll(async () => {
    fixture = await startDeviceFixture(engine);
    await importDecoder(fixture.test.database, fixture.clock, 'function decodeUplink() { return { data: {} }; }');
  });
  afterAll(async () => await fixture.stop());

  const physicalDevice = (configuration: Record<string, unknown>) => ({
    clientDeviceId: newId(),
    connectionId: fixture.connections[0],
    configuration,
  });
  /** Returns the stored reference that prevents the deletion of the profile. */
  const findProfileReference = async (deviceId: string): Promise<unknown> =>
    (
      await fixture.test.database.db
        .knex<{ profile_id: unknown }>('physical_devices')
        .where('device_id', deviceId)
        .first('profile_id')
    )?.profile_id;
  const boundDevices = async (): Promise<number> =>
    (await fixture.test.database.db.knex('physical_devices').where('connection_id', fixture.connections[0])).length;
  const remove = async (id: string): Promise<number> =>
    await fixture.test.database.db.knex('device_profiles').where('id', id).delete();

  it('is stored, changed and removed together with the configuration', async () => {
    const { id } = await fixture.api.create({
      name: 'Brook',
      physicalDevice: physicalDevice({ profileId: PROFILE_ID, variables: { depth: '4' }, other: true }),
    });
    expect(await findProfileReference(id)).toBe(PROFILE_ID);
    expect(await fixture.devices.cache.get('org-1', id)).toMatchObject({
      physicalDevice: {
        profileInterval: 600,
        configuration: { profileId: PROFILE_ID, variables: { depth: '4' }, other: true },
      },
    });
    await expect(remove(PROFILE_ID)).rejects.toThrow(/foreign key/i);
    await fixture.api.update({ id, physicalDevice: { clientDeviceId: newId() } });
    expect(await findProfileReference(id)).toBe(PROFILE_ID);
    await fixture.api.update({ id, physicalDevice: { configuration: { variables: {} } } });
    expect(await findProfileReference(id)).toBeNull();
    expect((await fixture.devices.cache.get('org-1', id)).physicalDevice?.profileInterval).toBeUndefined();
    await fixture.api.update({ id, physicalDevice: { configuration: { profileId: PROFILE_ID } } });
    expect(await findProfileReference(id)).toBe(PROFILE_ID);
    await fixture.api.delete({ id });
  });

  it('has to exist and is reported together with the other violations', async () => {
    const configuration = { profileId: 'quellwerk/qw-99/1.0/EU868' };
    const description =
      'profile "quellwerk/qw-99/1.0/EU868" not found; use an id from ListDeviceProfiles or `plantroom profiles list`, or omit the field';
    const input = { ...physicalDevice(configuration), clientDeviceId: 'a\u2028b' };
    await expect(fixture.devices.create('org-1', { name: 'Brook', physicalDevice: input })).rejects.toMatchObject({
      violations: [
        { field: 'physicalDevice.clientDeviceId' },
        { field: 'physicalDevice.configuration.profileId', description },
      ],
    });
    const { id } = await fixture.api.create({ name: 'Brook', physicalDevice: physicalDevice({}) });
    expect(await fixture.api.update.fails({ id, physicalDevice: { configuration } })).toMatchObject({
      code: status.INVALID_ARGUMENT,
      violations: { 'physicalDevice.configuration.profileId': description },
    });
    expect(
      await fixture.api.update.fails({ id, physicalDevice: { configuration: { profileId: 7, variables: { a: 1 } } } }),
    ).toMatchObject({
      violations: {
        'physicalDevice.configuration.profileId': 'must be a string',
        'physicalDevice.configuration.variables.a': 'must be a string',
      },
    });
    expect(await findProfileReference(id)).toBeNull();
  });

  it('is rejected with the same message when it was deleted after the lookup', async () => {
    const { id } = await fixture.api.create({ name: 'Brook', physicalDevice: physicalDevice({ kept: 1 }) });
    const unbound = await fixture.api.create({ name: 'Not bound' });
    const work = new UnitOfWork(fixture.test.database, (db) => new BindingRepository(db));
    const configuration = { profileId: 'gone' };
    const refused = {
      reason: 'validation_failed',
      violations: [
        {
          field: 'physicalDevice.configuration.profileId',
          description: expect.stringContaining('profile "gone" not found') as unknown,
        },
      ],
    };
    await expect(
      work.transaction((bindings) => bindings.setConfiguration('org-1', id, configuration, 1)),
    ).rejects.toMatchObject(refused);
    const binding = {
      id: newId(),
      clientDeviceId: newId(),
      connectionId: fixture.connections[0],
      configuration,
      createdAt: 1,
    };
    await expect(work.transaction((bindings) => bindings.create('org-1', unbound.id, binding))).rejects.toMatchObject(
      refused,
    );
    expect((await fixture.api.get({ id })).physicalDevice?.configuration).toEqual({ kept: 1 });
    expect((await fixture.api.get({ id: unbound.id })).physicalDevice).toBeUndefined();
    expect(await fixture.devices.countByConnection('org-1', [fixture.connections[0]])).toEqual(
      new Map([[fixture.connections[0], await boundDevices()]]),
    );
  });

  it('may be any value in a record from before profiles existed: the device can be read, and an update reports the violation', async () => {
    const { id } = await fixture.api.create({ name: 'Old', physicalDevice: physicalDevice({}) });
    await fixture.test.database.db
      .knex('physical_devices')
      .where('device_id', id)
      .update({ configuration: JSON.stringify({ profileId: { of: 'ours' }, variables: 'x' }) });
    expect((await fixture.api.get({ id })).physicalDevice?.configuration).toEqual({
      profileId: { of: 'ours' },
      variables: 'x',
    });
    await fixture.api.update({ id, name: 'Older' });
    const { violations } = await fixture.api.update.fails({ id, physicalDevice: { clientDeviceId: newId() } });
    expect(violations).toEqual({
      'physicalDevice.configuration.profileId': 'must be a string',
      'physicalDevice.configuration.variables': 'must be an object',
    });
  });
});

import { ProfileUseRepository } from '../../src/devices';
import { ProfileImports, ProfileRemoval } from '../../src/profiles';
import { startDeviceRoom, type DeviceRoom } from '../support/deviceRoom';
import { engines } from '../support/engines';
import { codecOf, modelOf, profileOf, vendorOf } from '../support/vendors';

const DECODER = 'function decodeUplink() { return { data: {} }; }';
const BROOK = vendorOf({
  models: [modelOf({ profiles: [profileOf({ codec: 'brook' }), profileOf({ codec: 'brook', region: 'US915' })] }), modelOf({ id: 'qw-20', name: 'QW 20', profiles: [profileOf({ codec: 'brook' })] })],
  codecs: [codecOf('brook', { decoder: DECODER })],
});
const LAKE = vendorOf({ id: 'seewacht', name: 'Seewacht', models: [modelOf({ profiles: [profileOf({ codec: 'lake' })] })], codecs: [codecOf('lake', { decoder: DECODER })] });
const IDS = ['quellwerk/qw-10/1.0/EU868', 'quellwerk/qw-10/1.0/US915', 'quellwerk/qw-20/1.0/EU868', 'seewacht/qw-10/1.0/EU868'];

const refuse = (): Promise<void> => Promise.reject(new Error('nothing is to be removed'));

describe.each(engines())('removing profiles on $name', (engine) => {
  let room: DeviceRoom;
  beforeEach(async () => {
    room = await startDeviceRoom(engine);
    const imports = new ProfileImports({ database: room.test.database, clock: room.clock });
    await imports.store('lorawan-devices', BROOK);
    await imports.store('chirpstack-device-profiles', LAKE);
  });
  afterEach(() => room.stop());

  const uses = async (ids: readonly string[]) => await new ProfileUseRepository(room.test.database.db).count(ids);
  const removal = (asked = uses): ProfileRemoval => new ProfileRemoval({ database: room.test.database, uses: asked });
  const ids = async (table: string): Promise<string[]> => (await room.test.database.db.knex(table).select<{ id: string }[]>('id')).map(({ id }) => id).toSorted();
  const counts = async (): Promise<number[]> => await Promise.all(['device_profiles', 'device_models', 'device_codecs'].map(async (table) => (await ids(table)).length));
  const spelled = async (): Promise<string[]> => [...new Set((await room.test.database.db.knex('device_model_spellings').select<{ device_model_id: string }[]>('device_model_id')).map((row) => row.device_model_id))].toSorted();
  let devices = 0;
  const use = async (profileId: string): Promise<void> => {
    devices += 1;
    const { id } = await room.api.create({ name: `Device ${devices}`, physicalDevice: { clientDeviceId: `client-${devices}`, connectionId: room.connections[0], configuration: {} } });
    await room.test.database.db.knex('physical_devices').where({ device_id: id }).update({ profile_id: profileId });
  };

  it('takes along the models and codecs that nothing uses any more', async () => {
    let asked = 0;
    const ask = async (): Promise<void> => await Promise.resolve(void (asked += 1));
    expect(await removal().remove({ ids: [IDS[1] ?? '', IDS[1] ?? ''] }, ask)).toEqual({ removed: 1, models: 0, codecs: 0, kept: [] });
    expect(await removal().remove({ ids: [IDS[0] ?? ''] }, ask)).toEqual({ removed: 1, models: 1, codecs: 0, kept: [] });
    expect(await ids('device_models')).toEqual(['chirpstack-device-profiles/seewacht/qw-10', 'lorawan-devices/quellwerk/qw-20']);
    expect(await spelled()).toEqual(await ids('device_models'));
    expect(await removal().remove({ ids: [IDS[2] ?? ''] }, ask)).toEqual({ removed: 1, models: 1, codecs: 1, kept: [] });
    expect(await ids('device_codecs')).toEqual(['chirpstack-device-profiles/seewacht/lake']);
    expect(asked).toBe(3);
  });

  it.each([
    ['a brand', { brandId: 'quellwerk' }, [3, 2, 1], [IDS[3]]],
    ['a source', { source: 'chirpstack-device-profiles' }, [1, 1, 1], IDS.slice(0, 3)],
    ['a brand of a source', { brandId: 'quellwerk', source: 'lorawan-devices' }, [3, 2, 1], [IDS[3]]],
    ['a brand of another source', { brandId: 'quellwerk', source: 'chirpstack-device-profiles' }, [0, 0, 0], IDS],
    ['a brand that is none', { brandId: 'nobody' }, [0, 0, 0], IDS],
  ] as const)('removes %s', async (_, selection, [removed, models, codecs], left) => {
    let asked = 0;
    const ask = async (): Promise<void> => await Promise.resolve(void (asked += 1));
    expect(await removal().remove(selection, ask)).toEqual({ removed, models, codecs, kept: [] });
    expect(await ids('device_profiles')).toEqual(left);
    expect(asked).toBe(removed > 0 ? 1 : 0);
  });

  it('leaves what devices use, and says how many', async () => {
    await use(IDS[0] ?? '');
    await use(IDS[0] ?? '');
    await use(IDS[3] ?? '');
    expect(await removal().remove({ brandId: 'quellwerk' })).toEqual({ removed: 2, models: 1, codecs: 0, kept: [{ id: IDS[0], devices: 2 }] });
    expect(await ids('device_profiles')).toEqual([IDS[0], IDS[3]]);
    expect(await removal().remove({ ids: [IDS[3] ?? ''] }, refuse)).toEqual({ removed: 0, models: 0, codecs: 0, kept: [{ id: IDS[3], devices: 1 }] });
    await room.test.database.db.knex('physical_devices').update({ profile_id: null });
    expect(await removal().remove({ ids: [IDS[0] ?? '', IDS[3] ?? ''] })).toEqual({ removed: 2, models: 2, codecs: 2, kept: [] });
  });

  it('leaves alone what nothing uses but was not selected, and removes nothing before it asked', async () => {
    const { knex } = room.test.database.db;
    const [model] = await knex('device_models').where({ id: 'lorawan-devices/quellwerk/qw-20' }).select('*');
    const [codec] = await knex('device_codecs').where({ id: 'lorawan-devices/quellwerk/brook' }).select('*');
    await knex('device_models').insert({ ...model, id: 'lorawan-devices/quellwerk/idle' });
    await knex('device_codecs').insert({ ...codec, id: 'lorawan-devices/quellwerk/idle' });
    await use(IDS[3] ?? '');
    expect(await removal().remove({ brandId: 'seewacht' }, refuse)).toEqual({ removed: 0, models: 0, codecs: 0, kept: [{ id: IDS[3], devices: 1 }] });
    await expect(removal().remove({ brandId: 'quellwerk' }, refuse)).rejects.toThrow('nothing is to be removed');
    expect(await counts()).toEqual([4, 4, 3]);
    expect(await removal().remove({ brandId: 'quellwerk' })).toEqual({ removed: 3, models: 2, codecs: 1, kept: [] });
    expect(await counts()).toEqual([1, 2, 2]);
  });

  it('leaves no model or codec behind when two remove the last profiles at once', async () => {
    const other = await room.test.open();
    try {
      const beside = new ProfileRemoval({ database: other, uses });
      const [one, two] = await Promise.all([removal().remove({ ids: IDS.slice(0, 1) }), beside.remove({ ids: IDS.slice(1, 3) })]);
      expect([one.models + two.models, one.codecs + two.codecs]).toEqual([2, 1]);
      expect(await counts()).toEqual([1, 1, 1]);
    } finally {
      await other.close();
    }
  });

  it('looks again when a device was given a profile just then', async () => {
    let asked = 0;
    const late = async (given: readonly string[]): Promise<Map<string, number>> => {
      asked += 1;
      if (asked > 1) return await uses(given);
      await use(IDS[0] ?? '');
      return new Map();
    };
    expect(await removal(late).remove({ brandId: 'quellwerk' })).toEqual({ removed: 2, models: 1, codecs: 0, kept: [{ id: IDS[0], devices: 1 }] });
    expect(asked).toBe(2);
  });

  it('refuses an id that is none before anything is removed', async () => {
    await expect(removal().remove({ ids: [IDS[0] ?? '', 'quellwerk/qw-10/1.0/CN470'] })).rejects.toMatchObject({ reason: 'profile_not_found', message: expect.stringContaining('"quellwerk/qw-10/1.0/CN470"') });
    expect(await ids('device_profiles')).toEqual(IDS);
  });

  it('removes 1,000 profiles some at a time', async () => {
    const models = Array.from({ length: 100 }, (_, at) => modelOf({ id: `m-${at}`, name: `M ${at}`, profiles: Array.from({ length: 10 }, (__, version) => profileOf({ firmwareVersion: `${version}`, codec: `c-${at}` })) }));
    await new ProfileImports({ database: room.test.database, clock: room.clock }).store('lorawan-devices', vendorOf({ id: 'many', models, codecs: models.map((_, at) => codecOf(`c-${at}`, { decoder: DECODER })) }));
    await use('many/m-7/3/EU868');
    const portions: number[] = [];
    const counted = async (given: readonly string[]): Promise<Map<string, number>> => {
      portions.push(given.length);
      return await uses(given);
    };
    expect(await removal(counted).remove({ brandId: 'many' })).toEqual({ removed: 999, models: 99, codecs: 99, kept: [{ id: 'many/m-7/3/EU868', devices: 1 }] });
    expect(portions).toEqual(Array.from({ length: 20 }, () => 50));
    expect(await counts()).toEqual([5, 4, 3]);
  });
});

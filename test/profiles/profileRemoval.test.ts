import { ProfileUseRepository } from '../../src/devices';
import { ProfileImports, ProfileRemoval } from '../../src/profiles';
import { startDeviceFixture, type DeviceFixture } from '../support/deviceFixture';
import { engines } from '../support/engines';
import { createCodec, getModel, getProfile, getVendor } from '../support/vendors';

const DECODER = 'function decodeUplink() { return { data: {} }; }';
const BROOK = getVendor({
  models: [
    getModel({ profiles: [getProfile({ codec: 'brook' }), getProfile({ codec: 'brook', region: 'US915' })] }),
    getModel({ id: 'qw-20', name: 'QW 20', profiles: [getProfile({ codec: 'brook' })] }),
  ],
  codecs: [createCodec('brook', { decoder: DECODER })],
});
const LAKE = getVendor({
  id: 'seewacht',
  name: 'Seewacht',
  models: [getModel({ profiles: [getProfile({ codec: 'lake' })] })],
  codecs: [createCodec('lake', { decoder: DECODER })],
});
const IDS = [
  'quellwerk/qw-10/1.0/EU868',
  'quellwerk/qw-10/1.0/US915',
  'quellwerk/qw-20/1.0/EU868',
  'seewacht/qw-10/1.0/EU868',
];

const refuse = (): Promise<void> => Promise.reject(new Error('nothing is to be removed'));

describe.each(engines())('removing profiles on $name', (engine) => {
  let fixture: DeviceFixture;
  beforeEach(async () => {
    fixture = await startDeviceFixture(engine);
    const imports = new ProfileImports({ database: fixture.test.database, clock: fixture.clock });
    await imports.store('lorawan-devices', BROOK);
    await imports.store('chirpstack-device-profiles', LAKE);
  });
  afterEach(() => fixture.stop());

  const uses = async (ids: readonly string[]) => await new ProfileUseRepository(fixture.test.database.db).count(ids);
  const removal = (countUses = uses): ProfileRemoval =>
    new ProfileRemoval({ database: fixture.test.database, uses: countUses });
  const ids = async (table: string): Promise<string[]> =>
    (await fixture.test.database.db.knex(table).select<{ id: string }[]>('id')).map(({ id }) => id).toSorted();
  const counts = async (): Promise<number[]> =>
    await Promise.all(
      ['device_profiles', 'device_models', 'device_codecs'].map(async (table) => (await ids(table)).length),
    );
  const spelled = async (): Promise<string[]> =>
    [
      ...new Set(
        (
          await fixture.test.database.db
            .knex('device_model_spellings')
            .select<{ device_model_id: string }[]>('device_model_id')
        ).map((row) => row.device_model_id),
      ),
    ].toSorted();
  let devices = 0;
  const use = async (profileId: string): Promise<void> => {
    devices += 1;
    const { id } = await fixture.api.create({
      name: `Device ${devices}`,
      physicalDevice: { clientDeviceId: `client-${devices}`, connectionId: fixture.connections[0], configuration: {} },
    });
    await fixture.test.database.db.knex('physical_devices').where({ device_id: id }).update({ profile_id: profileId });
  };

  it('deletes the models and codecs that are no longer used', async () => {
    let confirmations = 0;
    const confirm = async (): Promise<void> => await Promise.resolve(void (confirmations += 1));
    expect(await removal().remove({ ids: [IDS[1] ?? '', IDS[1] ?? ''] }, confirm)).toEqual({
      removed: 1,
      models: 0,
      codecs: 0,
      kept: [],
    });
    expect(await removal().remove({ ids: [IDS[0] ?? ''] }, confirm)).toEqual({
      removed: 1,
      models: 1,
      codecs: 0,
      kept: [],
    });
    expect(await ids('device_models')).toEqual([
      'chirpstack-device-profiles/seewacht/qw-10',
      'lorawan-devices/quellwerk/qw-20',
    ]);
    expect(await spelled()).toEqual(await ids('device_models'));
    expect(await removal().remove({ ids: [IDS[2] ?? ''] }, confirm)).toEqual({
      removed: 1,
      models: 1,
      codecs: 1,
      kept: [],
    });
    expect(await ids('device_codecs')).toEqual(['chirpstack-device-profiles/seewacht/lake']);
    expect(confirmations).toBe(3);
  });

  it.each([
    ['a brand', { brandId: 'quellwerk' }, [3, 2, 1], [IDS[3]]],
    ['a source', { source: 'chirpstack-device-profiles' }, [1, 1, 1], IDS.slice(0, 3)],
    ['a brand of a source', { brandId: 'quellwerk', source: 'lorawan-devices' }, [3, 2, 1], [IDS[3]]],
    ['a brand of another source', { brandId: 'quellwerk', source: 'chirpstack-device-profiles' }, [0, 0, 0], IDS],
    ['an unknown brand', { brandId: 'nobody' }, [0, 0, 0], IDS],
  ] as const)('deletes %s', async (_, selection, [removed, models, codecs], left) => {
    let confirmations = 0;
    const confirm = async (): Promise<void> => await Promise.resolve(void (confirmations += 1));
    expect(await removal().remove(selection, confirm)).toEqual({ removed, models, codecs, kept: [] });
    expect(await ids('device_profiles')).toEqual(left);
    expect(confirmations).toBe(removed > 0 ? 1 : 0);
  });

  it('keeps profiles that devices use, and counts them', async () => {
    await use(IDS[0] ?? '');
    await use(IDS[0] ?? '');
    await use(IDS[3] ?? '');
    expect(await removal().remove({ brandId: 'quellwerk' })).toEqual({
      removed: 2,
      models: 1,
      codecs: 0,
      kept: [{ id: IDS[0], devices: 2 }],
    });
    expect(await ids('device_profiles')).toEqual([IDS[0], IDS[3]]);
    expect(await removal().remove({ ids: [IDS[3] ?? ''] }, refuse)).toEqual({
      removed: 0,
      models: 0,
      codecs: 0,
      kept: [{ id: IDS[3], devices: 1 }],
    });
    await fixture.test.database.db.knex('physical_devices').update({ profile_id: null });
    expect(await removal().remove({ ids: [IDS[0] ?? '', IDS[3] ?? ''] })).toEqual({
      removed: 2,
      models: 2,
      codecs: 2,
      kept: [],
    });
  });

  it('keeps unused profiles that were not selected, and deletes nothing before it asked', async () => {
    const { knex } = fixture.test.database.db;
    const [model] = await knex('device_models').where({ id: 'lorawan-devices/quellwerk/qw-20' }).select('*');
    const [codec] = await knex('device_codecs').where({ id: 'lorawan-devices/quellwerk/brook' }).select('*');
    await knex('device_models').insert({ ...model, id: 'lorawan-devices/quellwerk/idle' });
    await knex('device_codecs').insert({ ...codec, id: 'lorawan-devices/quellwerk/idle' });
    await use(IDS[3] ?? '');
    expect(await removal().remove({ brandId: 'seewacht' }, refuse)).toEqual({
      removed: 0,
      models: 0,
      codecs: 0,
      kept: [{ id: IDS[3], devices: 1 }],
    });
    await expect(removal().remove({ brandId: 'quellwerk' }, refuse)).rejects.toThrow('nothing is to be removed');
    expect(await counts()).toEqual([4, 4, 3]);
    expect(await removal().remove({ brandId: 'quellwerk' })).toEqual({ removed: 3, models: 2, codecs: 1, kept: [] });
    expect(await counts()).toEqual([1, 2, 2]);
  });

  it('leaves no model or codec behind when two callers delete the last profiles at once', async () => {
    const other = await fixture.test.open();
    try {
      const otherRemoval = new ProfileRemoval({ database: other, uses });
      const [one, two] = await Promise.all([
        removal().remove({ ids: IDS.slice(0, 1) }),
        otherRemoval.remove({ ids: IDS.slice(1, 3) }),
      ]);
      expect([one.models + two.models, one.codecs + two.codecs]).toEqual([2, 1]);
      expect(await counts()).toEqual([1, 1, 1]);
    } finally {
      await other.close();
    }
  });

  it('checks again when a profile was assigned to a device meanwhile', async () => {
    let useChecks = 0;
    const late = async (given: readonly string[]): Promise<Map<string, number>> => {
      useChecks += 1;
      if (useChecks > 1) return await uses(given);
      await use(IDS[0] ?? '');
      return new Map();
    };
    expect(await removal(late).remove({ brandId: 'quellwerk' })).toEqual({
      removed: 2,
      models: 1,
      codecs: 0,
      kept: [{ id: IDS[0], devices: 1 }],
    });
    expect(useChecks).toBe(2);
  });

  it('rejects an unknown ID before anything is deleted', async () => {
    await expect(removal().remove({ ids: [IDS[0] ?? '', 'quellwerk/qw-10/1.0/CN470'] })).rejects.toMatchObject({
      reason: 'profile_not_found',
      message: expect.stringContaining('"quellwerk/qw-10/1.0/CN470"'),
    });
    expect(await ids('device_profiles')).toEqual(IDS);
  });

  it('deletes 1,000 profiles in batches', async () => {
    const models = Array.from({ length: 100 }, (_, at) =>
      getModel({
        id: `m-${at}`,
        name: `M ${at}`,
        profiles: Array.from({ length: 10 }, (__, version) =>
          getProfile({ firmwareVersion: `${version}`, codec: `c-${at}` }),
        ),
      }),
    );
    await new ProfileImports({ database: fixture.test.database, clock: fixture.clock }).store(
      'lorawan-devices',
      getVendor({ id: 'many', models, codecs: models.map((_, at) => createCodec(`c-${at}`, { decoder: DECODER })) }),
    );
    await use('many/m-7/3/EU868');
    const portions: number[] = [];
    const countInBatches = async (given: readonly string[]): Promise<Map<string, number>> => {
      portions.push(given.length);
      return await uses(given);
    };
    expect(await removal(countInBatches).remove({ brandId: 'many' })).toEqual({
      removed: 999,
      models: 99,
      codecs: 99,
      kept: [{ id: 'many/m-7/3/EU868', devices: 1 }],
    });
    expect(portions).toEqual(Array.from({ length: 20 }, () => 50));
    expect(await counts()).toEqual([5, 4, 3]);
  });
});

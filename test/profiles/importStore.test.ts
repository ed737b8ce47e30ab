import type { Db } from '../../src/database';
import { ProfileImports, type ProfileSource, type ReadVendor } from '../../src/profiles';
import type { ReadModel, IncompleteEntries } from '../../src/profiles/import/readVendor';
import { engines, type TestDatabase } from '../support/engines';
import { Statements } from '../support/statements';
import { TestClock } from '../support/testClock';
import { createCodec, getModel, getProfile, getVendor } from '../support/vendors';

const DECODER = 'function decodeUplink(input) { return { data: { level: input.bytes[0] } }; }';
const WRITES = /^\s*(?:insert|update|delete)/i;
const LOCKS = /for update/i;

const VENDOR = getVendor({
  models: [
    getModel({
      profiles: [
        getProfile({ codec: 'brook' }),
        getProfile({ codec: 'brook', region: 'US915' }),
        getProfile({ codec: 'brook', firmwareVersion: '1.1' }),
      ],
    }),
    getModel({ id: 'qw-20', name: 'QW 20', description: '' }),
  ],
  codecs: [
    createCodec('brook', { decoder: DECODER }, [
      {
        role: 'decoder',
        file: 'vendor/quellwerk/brook.yaml',
        items: [{ input: { bytes: [7] }, output: { data: { level: 7 } } }],
      },
    ]),
  ],
});
const IDS = [
  'quellwerk/qw-10/1.0/EU868',
  'quellwerk/qw-10/1.0/US915',
  'quellwerk/qw-10/1.1/EU868',
  'quellwerk/qw-20/1.0/EU868',
];

const refuse = (): Promise<void> => Promise.reject(new Error('not now'));

describe.each(engines())('storing a vendor on $name', ({ name, createDatabase }) => {
  let db: TestDatabase;
  let clock: TestClock;
  let imports: ProfileImports;
  beforeEach(async () => {
    db = await createDatabase();
    clock = new TestClock();
    imports = new ProfileImports({ database: db.database, clock });
  });
  afterEach(() => db.drop());

  const store = async (vendor: ReadVendor) => await imports.store('lorawan-devices', vendor);
  const rows = async (table: string, of: Db = db.database.db): Promise<Record<string, unknown>[]> =>
    (await of.knex(table).select<Record<string, unknown>[]>('*')).toSorted((one, other) =>
      JSON.stringify(one) < JSON.stringify(other) ? -1 : 1,
    );
  const findOthers = async (
    vendorIds: readonly string[],
    incompleteVendors: IncompleteEntries = { all: false, ids: [] },
    source: ProfileSource = 'lorawan-devices',
  ) => await imports.findProfilesOfOtherBrands({ source, vendorIds, incompleteVendors });
  const codecIds = async (): Promise<unknown[]> => (await rows('device_codecs')).map(({ id }) => id);
  const profiles = async () => (await rows('device_profiles')).map(({ id, updated_at }) => [id, updated_at]);

  it('writes everything once, and nothing that exists already', async () => {
    const first = clock.now();
    expect(await store(VENDOR)).toEqual({
      models: 2,
      created: 4,
      changed: 0,
      unchanged: 0,
      changedCodecs: 1,
      gone: [],
      kept: [],
      warnings: [],
    });
    expect((await profiles()).map(([id]) => id)).toEqual(IDS);
    expect((await rows('device_profiles'))[0]).toEqual({
      id: IDS[0],
      device_model_id: 'lorawan-devices/quellwerk/qw-10',
      firmware_version: '1.0',
      hardware_versions: '[]',
      region: 'EU868',
      codec_id: 'lorawan-devices/quellwerk/brook',
      payload_codec_runtime: 'JS',
      mac_version: '1.0.3',
      reg_params_revision: 'A',
      device_status_req_interval: 1,
      uplink_interval: 3600,
      flush_queue_on_activate: 1,
      supports_class_b: 0,
      supports_class_c: 0,
      supports_otaa: 1,
      hash: expect.stringMatching(/^[0-9a-f]{64}$/),
      created_at: first,
      updated_at: first,
    });
    const [codec] = await rows('device_codecs');
    expect(JSON.parse(String(codec?.['scripts']))).toEqual({
      files: [{ name: 'brook-decoder.js', text: DECODER }],
      encoder: null,
      decoder: 0,
      downlinkDecoder: null,
    });
    expect(JSON.parse(String(codec?.['examples']))).toEqual(VENDOR.codecs[0]?.examples);

    clock.advance(1000);
    const statements = new Statements();
    try {
      let repeated: unknown;
      const ran = await statements.of(async () => (repeated = await store(VENDOR)));
      expect(repeated).toEqual({
        models: 2,
        created: 0,
        changed: 0,
        unchanged: 4,
        changedCodecs: 0,
        gone: [],
        kept: [],
        warnings: [],
      });
      expect(ran.length).toBeGreaterThan(0);
      expect(ran.filter((sql) => WRITES.test(sql))).toEqual([]);
      expect(ran.filter((sql) => LOCKS.test(sql))).toEqual([]);
      expect(await profiles()).toEqual(IDS.map((id) => [id, first]));
      const renamed = await statements.of(async () => await store({ ...VENDOR, name: 'Renamed' }));
      expect(renamed.filter((sql) => LOCKS.test(sql))).toHaveLength(name === 'postgres' ? 1 : 0);
    } finally {
      statements.stop();
    }
  });

  it.each<[string, (vendor: ReadVendor) => ReadVendor, readonly number[], number]>([
    [
      'a field of one profile',
      (vendor) => ({
        ...vendor,
        models: vendor.models.map((model, at) =>
          at === 1 ? { ...model, profiles: [getProfile({ supportsClassC: true })] } : model,
        ),
      }),
      [3],
      0,
    ],
    [
      'the description of a model',
      (vendor) => ({
        ...vendor,
        models: vendor.models.map((model, at) => (at === 0 ? { ...model, description: 'Measures a river' } : model)),
      }),
      [0, 1, 2],
      0,
    ],
    [
      'another name of a model',
      (vendor) => ({
        ...vendor,
        models: vendor.models.map((model, at) => (at === 0 ? { ...model, otherNames: ['4711'] } : model)),
      }),
      [0, 1, 2],
      0,
    ],
    ['the name of the brand', (vendor) => ({ ...vendor, name: 'Quellwerk Instruments' }), [0, 1, 2, 3], 0],
    [
      'a script',
      (vendor) => ({
        ...vendor,
        codecs: [createCodec('brook', { decoder: `${DECODER} // 2` }, vendor.codecs[0]?.examples)],
      }),
      [0, 1, 2],
      1,
    ],
    [
      'examples, which no profile shows',
      (vendor) => ({ ...vendor, codecs: [createCodec('brook', { decoder: DECODER })] }),
      [],
      1,
    ],
  ])('counts as changed what %s changes, and writes nothing else', async (_, change, changed, changedCodecs) => {
    await store(VENDOR);
    const first = clock.now();
    clock.advance(1000);
    expect(await store(change(VENDOR))).toMatchObject({
      created: 0,
      changed: changed.length,
      unchanged: 4 - changed.length,
      changedCodecs,
    });
    expect(await profiles()).toEqual(IDS.map((id, at) => [id, changed.includes(at) ? clock.now() : first]));
    expect(await store(change(VENDOR))).toMatchObject({ changed: 0, unchanged: 4, changedCodecs: 0 });
    expect((await rows('device_profiles')).map((row) => row['created_at'])).toEqual(IDS.map(() => first));
    const [codec] = await rows('device_codecs');
    const expected = change(VENDOR).codecs[0];
    expect(JSON.parse(String(codec?.['scripts']))).toMatchObject({ files: [expected?.scripts.decoder] });
    expect(JSON.parse(String(codec?.['examples']))).toEqual(expected?.examples);
  });

  it('keeps what is no longer in the source, and reports it', async () => {
    await store(VENDOR);
    expect(await store(getVendor({ models: VENDOR.models.slice(1) }))).toEqual({
      models: 1,
      created: 0,
      changed: 0,
      unchanged: 1,
      changedCodecs: 0,
      gone: IDS.slice(0, 3),
      kept: [],
      warnings: [],
    });
    expect((await profiles()).map(([id]) => id)).toEqual(IDS);
    expect(await findOthers(['quellwerk'], { all: true, ids: ['quellwerk'] })).toEqual({ gone: [], kept: [] });
    expect(await findOthers(['another'])).toEqual({ gone: IDS, kept: [] });
    expect(await findOthers(['another'], { all: false, ids: ['quellwerk'] })).toEqual({ gone: [], kept: IDS });
    expect(await findOthers([], { all: true, ids: [] })).toEqual({ gone: [], kept: IDS });
    expect(await findOthers([], { all: false, ids: ['other'] }, 'chirpstack-device-profiles')).toEqual({
      gone: [],
      kept: [],
    });
  });

  it('removes a codec that no profile uses any more, even without other changes, and keeps one that is used', async () => {
    await store(VENDOR);
    await imports.store(
      'chirpstack-device-profiles',
      getVendor({
        models: [getModel({ profiles: [getProfile({ region: 'IN865', codec: 'pond' })] })],
        codecs: [createCodec('pond', { decoder: DECODER })],
      }),
    );
    const [model, other] = VENDOR.models;
    const renamed = {
      ...VENDOR,
      models: [getModel({ ...model, profiles: [getProfile({ codec: 'creek' })] }), getModel(other)],
      codecs: [createCodec('creek', { decoder: DECODER })],
    };
    expect(await store(renamed)).toMatchObject({ changed: 1, unchanged: 1, changedCodecs: 1, gone: IDS.slice(1, 3) });
    expect(await codecIds()).toEqual([
      'chirpstack-device-profiles/quellwerk/pond',
      'lorawan-devices/quellwerk/brook',
      'lorawan-devices/quellwerk/creek',
    ]);
    await db.database.db.knex('device_profiles').whereIn('id', IDS.slice(1, 3)).delete();
    await expect(imports.store('lorawan-devices', renamed, refuse)).rejects.toThrow('not now');
    expect(await store(renamed)).toMatchObject({ changed: 0, unchanged: 2, changedCodecs: 1, gone: [] });
    expect(await codecIds()).toEqual(['chirpstack-device-profiles/quellwerk/pond', 'lorawan-devices/quellwerk/creek']);
    expect(await store(renamed)).toMatchObject({ unchanged: 2, changedCodecs: 0 });
  });

  it('distinguishes unreadable from removed profiles, by model or for the complete vendor', async () => {
    await store(VENDOR);
    const [first, second] = [IDS.slice(0, 3), IDS.slice(3)];
    const read = async (models: readonly ReadModel[], incompleteModels: IncompleteEntries) =>
      await store({ ...getVendor({ models }), incompleteModels });
    expect(await read([], { all: true, ids: [] })).toMatchObject({ models: 0, gone: [], kept: IDS });
    expect(await read([], { all: false, ids: ['qw-10'] })).toMatchObject({ gone: second, kept: first });
    expect(await read([getModel()], { all: false, ids: ['qw-10', 'other'] })).toMatchObject({
      changed: 1,
      gone: second,
      kept: first.slice(1),
    });
    expect((await profiles()).map(([id]) => id)).toEqual(IDS);
    expect(await codecIds()).toEqual(['lorawan-devices/quellwerk/brook']);
  });

  it('leaves an ID to the source that used it first', async () => {
    await store(VENDOR);
    const before = await rows('device_profiles');
    const other = getVendor({
      models: [
        getModel({
          description: 'As the other repository has it',
          profiles: [getProfile(), getProfile({ region: 'IN865', codec: 'mine' })],
        }),
        getModel({ id: 'qw-20', profiles: [getProfile({ codec: 'mute' })] }),
      ],
      codecs: [createCodec('mine', { decoder: DECODER }), createCodec('mute', { decoder: DECODER })],
    });
    const stored = await imports.store('chirpstack-device-profiles', other);
    expect(stored).toEqual({
      models: 1,
      created: 1,
      changed: 0,
      unchanged: 0,
      changedCodecs: 1,
      gone: [],
      kept: [],
      warnings: [
        {
          file: 'quellwerk/qw-10',
          reason:
            '1 of its 2 profiles already exist from lorawan-devices and are unchanged; remove those first to import these',
        },
        {
          file: 'quellwerk/qw-20',
          reason:
            '1 of its 1 profiles already exist from lorawan-devices and are unchanged; remove those first to import these',
        },
      ],
    });
    const after = await rows('device_profiles');
    expect(after.filter(({ id }) => IDS.includes(String(id)))).toEqual(before);
    expect(after).toHaveLength(5);
    expect((await rows('device_models')).map(({ id }) => id)).toEqual([
      'chirpstack-device-profiles/quellwerk/qw-10',
      'lorawan-devices/quellwerk/qw-10',
      'lorawan-devices/quellwerk/qw-20',
    ]);
    expect((await rows('device_codecs')).map(({ id }) => id)).toEqual([
      'chirpstack-device-profiles/quellwerk/mine',
      'lorawan-devices/quellwerk/brook',
    ]);
    expect(await imports.store('chirpstack-device-profiles', other)).toEqual({
      ...stored,
      created: 0,
      unchanged: 1,
      changedCodecs: 0,
    });
    expect(await store(VENDOR)).toMatchObject({ unchanged: 4, warnings: [] });
  });

  it('matches a model by IDs first, then by names, then by other names', async () => {
    const model = getModel({ id: 'quellwerk-qw-10', name: 'QUELLWERK  Qw\u0000 10', otherNames: ['4711', ' '] });
    await store(getVendor({ name: 'Quellwerk GmbH', otherNames: ['b7a1'], models: [model] }));
    const spellings = (await rows('device_model_spellings')).map(
      ({ brand, model: of, rank }) => `${String(rank)} ${String(brand)} | ${String(of)}`,
    );
    expect(spellings.toSorted()).toEqual(
      [
        '0 quellwerk | quellwerk-qw-10',
        '1 quellwerk gmbh | quellwerk  qw 10',
        '1 quellwerk gmbh | quellwerk-qw-10',
        '1 quellwerk | quellwerk  qw 10',
        ...['4711', 'quellwerk  qw 10', 'quellwerk-qw-10', 'qw 10', 'qw-10'].map((of) => `2 b7a1 | ${of}`),
        ...['4711', 'qw 10', 'qw-10'].flatMap((of) => [`2 quellwerk gmbh | ${of}`, `2 quellwerk | ${of}`]),
      ].toSorted(),
    );
    await store(getVendor({ models: [getModel({ id: 'quellwerk-qw-10', name: 'Else' })] }));
    expect((await rows('device_model_spellings')).map(({ model: of }) => String(of)).toSorted()).toEqual([
      'else',
      'quellwerk-qw-10',
      'qw-10',
    ]);
  });

  it('stores texts that are too long for an index, or that PostgreSQL could not store, as far as possible', async () => {
    const long = 'ÿ'.repeat(5000);
    const model = getModel({ name: long, description: `\u0000${long}`, otherNames: [long, 'short'] });
    expect(await store(getVendor({ name: long, otherNames: [long], models: [model] }))).toMatchObject({ created: 1 });
    expect(await store(getVendor({ name: long, otherNames: [long], models: [model] }))).toMatchObject({ unchanged: 1 });
    expect(await rows('device_models')).toMatchObject([
      { brand_name: 'ÿ'.repeat(200), model_name: 'ÿ'.repeat(200), description: 'ÿ'.repeat(4000) },
    ]);
    expect((await rows('device_model_spellings')).map((row) => [row['brand'], row['model']])).toEqual([
      ['quellwerk', 'qw-10'],
      ['quellwerk', 'short'],
    ]);
  });

  it('stores a vendor of 1,200 profiles in statements that both engines accept', async () => {
    const models = Array.from({ length: 60 }, (_, at) =>
      getModel({
        id: `m-${at}`,
        name: `M ${at}`,
        profiles: Array.from({ length: 20 }, (__, version) =>
          getProfile({ firmwareVersion: `${version}`, codec: `c-${at}` }),
        ),
      }),
    );
    const vendor = getVendor({
      models,
      codecs: models.map((_, at) => createCodec(`c-${at}`, { decoder: `${DECODER} // ${at}` })),
    });
    expect(await store(vendor)).toMatchObject({ models: 60, created: 1200 });
    expect(await store({ ...vendor, name: 'Other' })).toMatchObject({ changed: 1200, unchanged: 0 });
    expect(await rows('device_profiles')).toHaveLength(1200);
    expect(await rows('device_codecs')).toHaveLength(60);
  });

  it('succeeds when many processes import the same vendor at once', async () => {
    const databases = await Promise.all([1, 2, 3].map(async () => await db.open()));
    try {
      const all = [imports, ...databases.map((database) => new ProfileImports({ database, clock }))];
      const stored = await Promise.all(all.map(async (one) => await one.store('lorawan-devices', VENDOR)));
      expect(stored.map(({ created, unchanged }) => created + unchanged)).toEqual([4, 4, 4, 4]);
      expect(stored.reduce((sum, { created }) => sum + created, 0)).toBe(4);
      const renamed = all.map(
        async (one, at) => await one.store('lorawan-devices', { ...VENDOR, name: `Quellwerk ${at}` }),
      );
      await Promise.all(renamed);
      const names = new Set((await rows('device_models')).map((row) => row['brand_name']));
      expect(names.size).toBe(1);
      const alias = (await rows('device_model_spellings')).map(({ brand }) => brand);
      expect(new Set(alias)).toEqual(new Set(['quellwerk', String([...names][0]).toLowerCase()]));
    } finally {
      for (const database of databases) await database.close();
    }
  });

  it('resolves a conflict of two sources that use the same IDs at once', async () => {
    const other = await db.open();
    try {
      const [one, two] = await Promise.all([
        store(VENDOR),
        new ProfileImports({ database: other, clock }).store('chirpstack-device-profiles', VENDOR),
      ]);
      expect([one.created + two.created, Math.max(one.created, two.created)]).toEqual([4, 4]);
      expect(await rows('device_profiles')).toHaveLength(4);
      expect(new Set((await rows('device_models')).map(({ source }) => source)).size).toBe(1);
    } finally {
      await other.close();
    }
  });

  it('asks before it writes, and only then', async () => {
    await expect(imports.store('lorawan-devices', VENDOR, refuse)).rejects.toThrow('not now');
    expect(await rows('device_models')).toEqual([]);
    await store(VENDOR);
    expect(await imports.store('lorawan-devices', VENDOR, refuse)).toMatchObject({ unchanged: 4 });
  });
});

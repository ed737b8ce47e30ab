import { readFileSync } from 'node:fs';
import { Cursors } from '../../src/kernel/pages';
import {
  CodecRepository,
  DeviceProfiles,
  ProfileImports,
  type ListedModel,
  type ModelQuery,
  type ProfileSource,
  type ReadVendor,
} from '../../src/profiles';
import { ModelListRepository } from '../../src/profiles/catalogue/modelListRepository';
import { SuggestionRepository } from '../../src/profiles/catalogue/suggestionRepository';
import { ProfileRepository } from '../../src/profiles/catalogue/profileRepository';
import { engines, type TestDatabase } from '../support/engines';
import { getPlan } from '../support/queryPlan';
import { TestClock } from '../support/testClock';
import { createCodec, getModel, getProfile, getVendor } from '../support/vendors';

const named = (id: string, name: string, regions: readonly string[] = ['EU868']) =>
  getModel({ id, name, profiles: regions.map((region) => getProfile({ region })) });
// Every other profile of each band has this data.
const filled = (id: string, count: number) =>
  getModel({
    id,
    name: id,
    profiles: Array.from({ length: count }, (_, n) =>
      getProfile({ firmwareVersion: `1.${n}`, region: n % 2 === 0 ? 'EU868' : 'CN779' }),
    ),
  });
const ALL: ModelQuery = {
  search: undefined,
  brand: undefined,
  model: undefined,
  band: undefined,
  pageSize: undefined,
  pageToken: '',
};

// The vendors are in the order of the list, which compares their names by bytes: "Ähre" comes after "zeta", "a b"
// before "a-b" and "ab".
const VENDORS: readonly ReadVendor[] = [
  getVendor({
    id: 'tidewater',
    name: 'Tidewater',
    otherNames: ['ee01-needle'],
    codecs: [
      createCodec('pump', { encoder: 'function encodeDownlink() {}', decoder: 'function decodeUplink() {}' }),
      createCodec('only', { decoder: 'function decodeUplink() {}' }),
    ],
    models: [
      getModel({
        id: 'pump-1',
        name: 'Pump Größe 1',
        otherNames: ['needle-1'],
        profiles: [
          getProfile({ firmwareVersion: '1.9', region: 'US915', hardwareVersions: ['1.0'], codec: 'only' }),
          getProfile({ firmwareVersion: '1.10', region: 'US915', hardwareVersions: ['2.0'], codec: 'pump' }),
          getProfile({ firmwareVersion: '1.10', region: 'EU868', hardwareVersions: ['2.0', '2.1'], codec: 'pump' }),
          getProfile({ firmwareVersion: '1.9', region: 'AS923' }),
        ],
      }),
      named('50%-valve', '50% valve', ['AS923_2']),
      named('500-valve', '500 valve', ['AS923_3']),
      named('snake_case', 'snake_case', ['KR920']),
      named('snakescase', 'snakescase', ['KR920']),
    ],
  }),
  getVendor({ id: 'v-ab', name: 'ab', models: [named('m', 'M')] }),
  getVendor({ id: 'v-a-b', name: 'a-b', models: [named('m', 'M')] }),
  getVendor({ id: 'v-a b', name: 'A B', models: [named('m', 'M')] }),
  getVendor({ id: 'v-zeta', name: 'zeta', models: [named('m', 'M')] }),
  getVendor({ id: 'v-aehre', name: 'Ähre', models: [named('m', 'M'), named('m2', 'm')] }),
];
const ORDER = [
  'v-a b/m',
  'v-a-b/m',
  'v-ab/m',
  'tidewater/50%-valve',
  'tidewater/500-valve',
  'tidewater/pump-1',
  'tidewater/snake_case',
  'tidewater/snakescase',
  'v-zeta/m',
  'v-aehre/m',
  'v-aehre/m2',
];

const ids = (models: readonly ListedModel[]) => models.map(({ brandId, modelId }) => `${brandId}/${modelId}`);

describe.each(engines())('the list of models on $name', ({ createDatabase }) => {
  let db: TestDatabase;
  let profiles: DeviceProfiles;
  beforeAll(async () => {
    db = await createDatabase();
    profiles = new DeviceProfiles({ database: db.database, cursors: new Cursors(new Uint8Array(32)) });
    for (const vendor of VENDORS) await store('lorawan-devices', vendor);
  });
  afterAll(async () => await db.drop());

  const store = async (source: ProfileSource, vendor: ReadVendor) =>
    await new ProfileImports({ database: db.database, clock: new TestClock() }).store(source, vendor);
  const list = async (query: Partial<ModelQuery> = {}) => await profiles.list('org-1', { ...ALL, ...query });
  const found = async (query: Partial<ModelQuery>) => {
    const { models, total, nextPageToken } = await list(query);
    expect([total, nextPageToken]).toEqual([models.length, '']);
    return ids(models).map((id) => id.replace('tidewater/', ''));
  };

  it('is sorted by brand and name, by bytes, in the same way on every engine', async () => {
    expect(await found({})).toEqual(ORDER.map((id) => id.replace('tidewater/', '')));
  });

  it.each([1, 2, 3, 5, 11, 12])('returns all models in pages of %i', async (pageSize) => {
    const listed: string[] = [];
    let pageToken = '';
    do {
      const page = await list({ pageSize, pageToken });
      expect([page.total, page.models.length]).toEqual([
        ORDER.length,
        Math.min(pageSize, ORDER.length - listed.length),
      ]);
      listed.push(...ids(page.models));
      pageToken = page.nextPageToken;
    } while (pageToken);
    expect(listed).toEqual(ORDER);
  });

  it('returns all details of a model: its versions, the newest first, and the abilities of each profile', async () => {
    const [model] = (await list({ model: 'pump-1' })).models;
    const usProfile = { region: 'US915', macVersion: '1.0.3', payloadCodecRuntime: 'JS', decodesUplinks: true };
    expect(model).toEqual({
      source: 'lorawan-devices',
      brandId: 'tidewater',
      brandName: 'Tidewater',
      modelId: 'pump-1',
      modelName: 'Pump Größe 1',
      description: 'Measures a brook',
      firmwareVersions: [
        {
          version: '1.10',
          hardwareVersions: ['2.0', '2.1'],
          profiles: [
            { ...usProfile, id: 'tidewater/pump-1/1.10/EU868', region: 'EU868', encodesDownlinks: true },
            { ...usProfile, id: 'tidewater/pump-1/1.10/US915', encodesDownlinks: true },
          ],
        },
        {
          version: '1.9',
          hardwareVersions: ['1.0'],
          profiles: [
            { ...usProfile, id: 'tidewater/pump-1/1.9/US915', encodesDownlinks: false },
            {
              ...usProfile,
              id: 'tidewater/pump-1/1.9/AS923',
              region: 'AS923',
              payloadCodecRuntime: 'NONE',
              decodesUplinks: false,
              encodesDownlinks: false,
            },
          ],
        },
      ],
    });
  });

  it.each<[Partial<ModelQuery>, string[]]>([
    [{ search: 'valve' }, ['50%-valve', '500-valve']],
    [{ search: ' 0% V' }, ['50%-valve']],
    [{ search: '%' }, ['50%-valve']],
    [{ search: 'snake_case' }, ['snake_case']],
    [{ search: '_' }, ['snake_case']],
    [{ search: '\\' }, []],
    [{ search: "'" }, []],
    [{ search: 'tidewater GRÖßE 1' }, ['pump-1']],
    [{ search: ' 1\tpump   pump tidewater ' }, ['pump-1']],
    [{ search: 'tidewater größe 2' }, []],
    [{ search: 'tidewater m2' }, []],
    [{ search: '0 1 a b c d e f g' }, []],
    [{ search: 'GRÖßE' }, ['pump-1']],
    [{ search: 'gro\u0308ße' }, ['pump-1']],
    [{ search: 'ÄHR' }, ['v-aehre/m', 'v-aehre/m2']],
    [{ search: 'AEHRE' }, ['v-aehre/m', 'v-aehre/m2']],
    [{ search: 'ump-1' }, ['pump-1']],
    [{ search: 'needle' }, []],
    [{ search: 'tidew' }, ['50%-valve', '500-valve', 'pump-1', 'snake_case', 'snakescase']],
    [{ search: '\u0000' }, ORDER.map((id) => id.replace('tidewater/', ''))],
    [{ brand: 'TIDEWATER', search: 'snake' }, ['snake_case', 'snakescase']],
    [{ brand: 'ähre' }, ['v-aehre/m', 'v-aehre/m2']],
    [{ brand: 'ähr' }, []],
    [{ model: 'M' }, ['v-a b/m', 'v-a-b/m', 'v-ab/m', 'v-zeta/m', 'v-aehre/m', 'v-aehre/m2']],
    [{ brand: 'v-aehre', model: 'm2' }, ['v-aehre/m2']],
    [{ model: 'Needle-1' }, ['pump-1']],
    [{ band: 'kr920-923' }, ['snake_case', 'snakescase']],
    [{ band: 'AS923' }, ['pump-1']],
    [{ band: 'AS_923_2' }, ['50%-valve', 'pump-1']],
    [{ band: 'IN865' }, []],
    [{ band: 'EU868', brand: 'tidewater' }, ['pump-1']],
    [{ band: '', search: '', brand: '', model: '', pageSize: 0 }, ORDER.map((id) => id.replace('tidewater/', ''))],
    [{ band: ' ', search: ' ', brand: '\t', model: '\n ' }, ORDER.map((id) => id.replace('tidewater/', ''))],
  ])('filters by %j', async (query, expected) => {
    expect(await found(query)).toEqual(expected);
  });

  it('returns only the profiles of a band, with those of AS923 for its groups', async () => {
    const { models } = await list({ band: 'AS923-2' });
    expect(
      models.flatMap(({ firmwareVersions }) =>
        firmwareVersions.flatMap(({ version, profiles: ofVersion }) => ofVersion.map(({ id }) => [version, id])),
      ),
    ).toEqual([
      ['1.0', 'tidewater/50%-valve/1.0/AS923_2'],
      ['1.9', 'tidewater/pump-1/1.9/AS923'],
    ]);
  });

  it('rejects an unknown band, and tokens of other lists', async () => {
    await expect(list({ search: 'a b c d e f g h i j k' })).rejects.toMatchObject({
      reason: 'validation_failed',
      violations: [{ field: 'search', description: 'must have at most 10 words (got 11)' }],
    });
    await expect(list({ band: 'EU869' })).rejects.toMatchObject({
      reason: 'validation_failed',
      violations: [{ field: 'band', description: expect.stringContaining('EU868, US915') as unknown }],
    });
    const { nextPageToken: pageToken } = await list({ pageSize: 2, search: 'm' });
    for (const other of [
      {},
      { search: 'M ', band: 'EU868' },
      { search: 'm', brand: 'tidewater' },
      { brand: 'm' },
      { model: 'm' },
    ])
      await expect(list({ ...other, pageToken })).rejects.toMatchObject({
        reason: 'validation_failed',
        violations: [{ field: 'pageToken' }],
      });
    await expect(profiles.list('org-2', { ...ALL, search: 'm', pageToken })).rejects.toMatchObject({
      reason: 'validation_failed',
    });
    await expect(list({ pageToken: 'nonsense' })).rejects.toMatchObject({ reason: 'validation_failed' });
    expect((await list({ search: ' M', pageToken })).models).not.toHaveLength(0);
  });

  it('issues no tokens and accepts none without a signing key', async () => {
    const keylessCatalogue = new DeviceProfiles({ database: db.database });
    expect(await keylessCatalogue.list('', { ...ALL, pageSize: 2 })).toMatchObject({
      total: ORDER.length,
      nextPageToken: '',
    });
    await expect(keylessCatalogue.list('', { ...ALL, pageToken: 'x' })).rejects.toMatchObject({
      violations: [{ field: 'pageToken' }],
    });
  });

  it('ends a page before it exceeds 1000 profiles, across any models, and continues after it', async () => {
    const many = await createDatabase();
    try {
      const catalogue = new DeviceProfiles({ database: many.database, cursors: new Cursors(new Uint8Array(32)) });
      await new ProfileImports({ database: many.database, clock: new TestClock() }).store(
        'lorawan-devices',
        getVendor({
          models: [
            filled('a', 500),
            filled('b', 499),
            filled('c', 1),
            filled('d', 2),
            filled('e', 1002),
            filled('f', 1),
          ],
        }),
      );
      const pages = async (band: string | undefined, pageSize: number): Promise<string[]> => {
        const listed: string[] = [];
        for (let pageToken = ''; ;) {
          const page = await catalogue.list('org-1', { ...ALL, band, pageSize, pageToken });
          expect(page.total).toBe(6 - Number(band !== undefined && band !== 'EU868') * 2);
          listed.push(
            page.models
              .map(
                ({ modelId, firmwareVersions }) =>
                  `${modelId}${firmwareVersions.flatMap(({ profiles: ofVersion }) => ofVersion).length}`,
              )
              .join(' '),
          );
          pageToken = page.nextPageToken;
          if (pageToken === '') return listed;
        }
      };
      expect(await pages(undefined, 200)).toEqual(['a500 b499 c1', 'd2', 'e1002', 'f1']);
      expect(await pages(undefined, 2)).toEqual(['a500 b499', 'c1 d2', 'e1002', 'f1']);
      expect(await pages('EU868', 200)).toEqual(['a250 b250 c1 d1', 'e501 f1']);
      expect(await pages('CN779', 200)).toEqual(['a250 b249 d1', 'e501']);
    } finally {
      await many.drop();
    }
  });

  it('issues tokens that its field accepts, for names of any length', async () => {
    const file = readFileSync('proto/digitaldevice/v2/digital_device_service.proto', 'utf8');
    const max = Number(
      /message ListDeviceProfilesRequest \{[^]*?page_token = 7 \[\(plantroom\.v1\.rules\) = \{max_length: (\d+)/.exec(
        file,
      )?.[1],
    );
    const longest = await createDatabase();
    try {
      const catalogue = new DeviceProfiles({ database: longest.database, cursors: new Cursors(new Uint8Array(32)) });
      // Each letter of the ID has three bytes. The name has two letters without case, of three bytes each.
      const [id, name] = ['水'.repeat(127), '\u0958'.repeat(200)];
      for (const source of ['lorawan-devices', 'chirpstack-device-profiles'] as const)
        await new ProfileImports({ database: longest.database, clock: new TestClock() }).store(
          source,
          getVendor({ id: `${id}a`, name, models: [named(`${id}${source[0]}`, name)] }),
        );
      const { models, nextPageToken: pageToken } = await catalogue.list('org-1', { ...ALL, pageSize: 1 });
      expect(models).toMatchObject([{ source: 'chirpstack-device-profiles', modelName: name }]);
      expect([pageToken.length > 2048, pageToken.length <= max]).toEqual([true, true]);
      expect((await catalogue.list('org-1', { ...ALL, pageSize: 1, pageToken })).models).toMatchObject([
        { source: 'lorawan-devices', modelName: name },
      ]);
    } finally {
      await longest.drop();
    }
  });

  // This test is the last one, because it changes the list.
  it('returns each permanent model once, even if others are added or removed between pages', async () => {
    const listed: string[] = [];
    let pageToken = '';
    for (let page = 0; page === 0 || pageToken; page += 1) {
      const { models, nextPageToken } = await list({ pageSize: 2, pageToken });
      listed.push(...ids(models));
      pageToken = nextPageToken;
      await store('lorawan-devices', getVendor({ id: `new-${page}`, name: 'a', models: [named('first', 'first')] }));
      await store(
        'chirpstack-device-profiles',
        getVendor({ id: `late-${page}`, name: 'ö', models: [named('last', 'last')] }),
      );
      if (page === 1) {
        await db.database.db.knex('device_profiles').where('id', 'tidewater/500-valve/1.0/AS923_3').delete();
        await db.database.db.knex('device_models').where('id', 'lorawan-devices/tidewater/500-valve').delete();
      }
      if (page > 40) break;
    }
    expect(new Set(listed).size).toBe(listed.length);
    expect(listed.filter((id) => ORDER.includes(id))).toEqual(
      ORDER.filter((id) => id !== 'tidewater/500-valve' || listed.includes(id)),
    );
    expect(listed.filter((id) => id.startsWith('new-'))).toEqual([]);
  });
});

describe.each(engines())('the statements of the catalogue on $name', ({ createDatabase }) => {
  let db: TestDatabase;
  beforeAll(async () => {
    db = await createDatabase();
    const texts = {
      source: 'lorawan-devices',
      brand_name: 'b',
      model_id: 'm',
      model_name: 'm',
      search_folded: '',
      description: '',
      hash: '',
    };
    const models = Array.from({ length: 3000 }, (_, at) => ({
      ...texts,
      id: `model-${at}`,
      brand_id: `brand-${at % 100}`,
      brand_folded: `brand ${at % 100}`,
      model_folded: `model ${at}`,
      created_at: 0,
      updated_at: 0,
    }));
    for (let at = 0; at < models.length; at += 500)
      await db.database.db.knex('device_models').insert(models.slice(at, at + 500));
    await db.database.db.knex.raw('analyze');
  });
  afterAll(async () => await db.drop());

  it('read a page through its index, and look up by indexes only', async () => {
    const plan = await getPlan(db.database, async (to) => {
      await new ModelListRepository(to).listPage(
        { words: [], brand: '', model: '', regions: undefined },
        { brandFolded: 'm', modelFolded: 'm', id: 'm' },
        51,
      );
    });
    expect(plan).toMatch(/device_models_page/);
    expect(plan).not.toMatch(/TEMP B-TREE|Sort|Seq Scan|SCAN m\b(?! USING INDEX)/);
    const lookUpPlan = await getPlan(db.database, async (to) => {
      const repository = new ProfileRepository(to);
      await repository.listCandidates('a', 'b');
      await repository.find('a');
      await new CodecRepository(to).findScript('a', 'decoder');
      await new CodecRepository(to).findScriptOfProfile('a', 'decoder');
      const near = new SuggestionRepository(to);
      await near.findModelsNear('a', 'b');
      await near.findModelsByName('a');
      await new ModelListRepository(to).countProfiles(['a', 'b'], ['EU868']);
      await new ModelListRepository(to).listProfiles(['a', 'b'], undefined);
    });
    expect(lookUpPlan).not.toMatch(/TEMP B-TREE|Seq Scan|SCAN /);
    const brands = await getPlan(db.database, async (to) => void (await new SuggestionRepository(to).listBrands()));
    expect(brands).toMatch(
      /SEARCH m USING (COVERING )?INDEX device_models_page|Index (Only )?Scan using device_models_page/,
    );
  });
});

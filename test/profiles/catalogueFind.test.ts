import { DeviceProfiles, ProfileImports, type ProfileSource, type ReadVendor } from '../../src/profiles';
import { REGIONS } from '../../src/profiles/regions';
import { engines, type TestDatabase } from '../support/engines';
import { TestClock } from '../support/testClock';
import { createCodec, getModel, getProfile, getVendor } from '../support/vendors';

const rows = (...versions: readonly [firmwareVersion: string, region: string, ...hardwareVersions: string[]][]) =>
  versions.map(([firmwareVersion, region, ...hardwareVersions]) =>
    getProfile({ firmwareVersion, region, hardwareVersions }),
  );

const QUELLWERK = getVendor({
  id: 'quellwerk',
  name: 'Quellwerk Größe',
  otherNames: ['7f00-quell'],
  codecs: [
    createCodec('both', {
      encoder: 'function encodeDownlink(i) { return { bytes: [i.data.v] }; }',
      decoder: 'function decodeUplink(i) { return { data: { v: i.bytes[0] } }; }',
    }),
  ],
  models: [
    getModel({
      id: 'qw-10',
      name: 'Quellwerk Größe Pegel 10',
      otherNames: ['5d11-pegel'],
      profiles: rows(
        ['1.9', 'EU868'],
        ['1.10', 'EU868'],
        ['1.2', 'EU868'],
        ['1.9', 'US915'],
        ['2.0-rc1', 'IN865'],
        ['2.0', 'IN865'],
      ).map((row) => ({ ...row, codec: 'both', payloadCodecRuntime: 'JS' })),
    }),
    getModel({
      id: 'qw-20',
      name: 'QW 20',
      profiles: rows(['1.0', 'AS923'], ['1.0', 'AS923_3'], ['2.0', 'AS923'], ['0.9', 'KR920']),
    }),
    getModel({
      id: 'qw-30',
      name: 'QW 30',
      profiles: rows(['1.0', 'EU868', '1.0'], ['1.0-hw2.10', 'EU868', '2.9', '2.10'], ['1.0-hw2.9', 'EU868', '2.9']),
    }),
    getModel({ id: 'qw-31', name: 'qw-30', profiles: rows(['9.0', 'EU868'], ['9.0', 'US915']) }),
    getModel({ id: 'qw-32', name: 'Nur Asien', profiles: rows(['1.0', 'AS923']) }),
    getModel({ id: 'nur-asien-zwei', name: 'QW-32', profiles: rows(['1.0', 'AS923_2']) }),
    getModel({
      id: 'qw-40',
      name: 'QW 40',
      profiles: rows(
        ['fw-hw3-1.0', 'EU868', '3'],
        ['fw-hw3-2.0', 'EU868', '3'],
        ['1.0', 'US915', '1'],
        ['1.0-HW3-4-b', 'US915', '3/4 b'],
        ['1.0-hw3-4-b', 'US915', '3/4 b'],
        ['0.9', 'US915', '9'],
      ),
    }),
    getModel({
      id: 'qw-41',
      name: 'QW 41',
      profiles: rows(
        ['3.0-Beta', 'EU868'],
        ['v1.0', 'IN865'],
        ['1.0', 'IN865'],
        ['1.0', 'KR920'],
        ['1.0-hw2', 'KR920', '2'],
        ['1.0-hw1', 'KR920', '1'],
      ),
    }),
  ],
});

describe.each(engines())('a profile look-up on $name', ({ createDatabase }) => {
  let db: TestDatabase;
  let profiles: DeviceProfiles;
  beforeAll(async () => {
    db = await createDatabase();
    profiles = new DeviceProfiles({ database: db.database });
    await store('lorawan-devices', QUELLWERK);
    await store(
      'chirpstack-device-profiles',
      getVendor({
        id: 'quellwerk',
        name: 'Quellwerk',
        models: [
          getModel({
            id: 'qw-10',
            name: 'Pegel',
            otherNames: ['quellwerk größe pegel 10'],
            profiles: rows(['3.0', 'EU868'], ['3.0', 'RU864']),
          }),
        ],
      }),
    );
  });
  afterAll(async () => await db.drop());

  const store = async (source: ProfileSource, vendor: ReadVendor) =>
    await new ProfileImports({ database: db.database, clock: new TestClock() }).store(source, vendor);
  const find = async (brand: string, model: string, band: string, firmwareVersion?: string) =>
    await profiles.find({ brand, model, band, firmwareVersion });
  const found = async (...query: [string, string, string, string?]): Promise<string> =>
    (await find(...query)).id.replace('quellwerk/', '');

  describe('with several matches', () => {
    it.each([
      ['the newest firmware by its numbers', ['quellwerk', 'pegel 10', 'EU868'], 'qw-10/1.10/EU868'],
      ['the release before what led to it', ['quellwerk', 'pegel 10', 'IN865'], 'qw-10/2.0/IN865'],
      ['the newest of both repositories', ['quellwerk', 'qw-10', 'EU868'], 'qw-10/3.0/EU868'],
      ['the firmware that is asked for', ['quellwerk', 'qw-10', 'EU868', '1.9'], 'qw-10/1.9/EU868'],
      [
        'the firmware that is asked for, whatever its case and blanks around',
        ['quellwerk', 'qw-10', 'IN865', ' 2.0-RC1 '],
        'qw-10/2.0-rc1/IN865',
      ],
      ['the newest hardware of one firmware', ['quellwerk', 'qw-30', 'EU868'], 'qw-30/1.0-hw2.10/EU868'],
      ['the very group before AS923, though that is newer', ['quellwerk', 'qw-20', 'AS923-3'], 'qw-20/1.0/AS923_3'],
      ['the model of this id before one of this name', ['quellwerk', 'QW-30', 'EU868'], 'qw-30/1.0-hw2.10/EU868'],
      [
        'the newest of versions in which their vendor says -hw',
        ['quellwerk', 'qw-40', 'EU868'],
        'qw-40/fw-hw3-2.0/EU868',
      ],
      ['such a version by all of it', ['quellwerk', 'qw-40', 'EU868', 'FW-HW3-1.0'], 'qw-40/fw-hw3-1.0/EU868'],
      [
        'the newest hardware of a version that is asked for',
        ['quellwerk', 'qw-40', 'US915', '1.0'],
        'qw-40/1.0-hw3-4-b/US915',
      ],
      ['the hardware that is asked for', ['quellwerk', 'qw-41', 'KR920', '1.0-hw1'], 'qw-41/1.0-hw1/KR920'],
      ['known hardware before none', ['quellwerk', 'qw-41', 'KR920', '1.0'], 'qw-41/1.0-hw2/KR920'],
      ['a version that is stored in another case', ['quellwerk', 'qw-41', 'EU868', '3.0-beta'], 'qw-41/3.0-Beta/EU868'],
      ['the newest for a blank version', ['quellwerk', 'qw-10', 'IN865', ' \t'], 'qw-10/2.0/IN865'],
      ['the newest for an empty version', ['quellwerk', 'qw-10', 'IN865', ''], 'qw-10/2.0/IN865'],
      ['of equal versions the first id', ['quellwerk', 'qw-41', 'IN865'], 'qw-41/1.0/IN865'],
      [
        'the newest of the model that is named, though the other repository names it less exactly',
        ['quellwerk', 'quellwerk größe pegel 10', 'EU868'],
        'qw-10/3.0/EU868',
      ],
      [
        'what the other repository alone has of the model that is named, though less exactly',
        ['quellwerk', 'quellwerk größe pegel 10', 'RU864'],
        'qw-10/3.0/RU864',
      ],
      [
        'the model of this id by AS923 before one of this name by the very group',
        ['quellwerk', 'qw-32', 'AS923_2'],
        'qw-32/1.0/AS923',
      ],
    ] as const)('prefers %s', async (_what, query, id) => {
      expect(await found(...(query as unknown as [string, string, string, string?]))).toBe(id);
    });
  });

  it.each<[what: string, band: string, version: string | undefined, missing: string, near: string]>([
    ['band', 'US915', undefined, 'band', 'quellwerk/qw-30/1.0-hw2.10/EU868,quellwerk/qw-31/9.0/US915'],
    [
      'firmware',
      'EU868',
      '9.0',
      'firmware_version',
      'quellwerk/qw-30/1.0-hw2.10/EU868,quellwerk/qw-30/1.0-hw2.9/EU868,quellwerk/qw-30/1.0/EU868,quellwerk/qw-31/9.0/EU868',
    ],
  ])(
    'returns no model of the same name where the model of this ID has no such %s, and lists it as similar',
    async (_what, band, version, missing, near) => {
      await expect(find('quellwerk', 'QW-30', band, version)).rejects.toMatchObject({
        reason: 'profile_not_found',
        metadata: { missing, near },
      });
    },
  );

  it.each([
    ['quellwerk', 'qw-20'],
    [' QUELLWERK\n', '\tQW-20 '],
    ['Quellwerk Größe', 'qw 20'],
    ['QUELLWERK GRÖßE', 'Qw 20'],
    ['quellwerk gro\u0308ße', 'qw 20'],
    ['7F00-QUELL', 'qw-20'],
    ['quellwerk', 'Q\u0000W-20'],
  ])('finds brand %j and model %j', async (brand, model) => {
    expect(await found(brand, model, 'kr920')).toBe('qw-20/0.9/KR920');
  });

  it.each(['Pegel 10', '5D11-pegel', 'quellwerk größe pegel 10'])(
    'finds the model %j by its name without the brand, and by other identifiers',
    async (model) => {
      expect(await found('quellwerk', model, 'US902-928')).toBe('qw-10/1.9/US915');
    },
  );

  it.each(REGIONS.filter((region) => region.startsWith('AS923')))(
    'returns a profile of AS923 as one of %s on request',
    async (region) => {
      const { id, region: foundRegion } = await find('quellwerk', 'qw-20', region, '2.0');
      expect([id, foundRegion]).toEqual(['quellwerk/qw-20/2.0/AS923', region]);
    },
  );

  it('returns all fields of a profile, with its codec', async () => {
    const time = new TestClock().now();
    expect(await find('quellwerk', 'qw-10', 'EU863-870', '1.10')).toEqual({
      id: 'quellwerk/qw-10/1.10/EU868',
      source: 'lorawan-devices',
      brandId: 'quellwerk',
      brandName: 'Quellwerk Größe',
      modelId: 'qw-10',
      modelName: 'Quellwerk Größe Pegel 10',
      description: expect.any(String),
      firmwareVersion: '1.10',
      hardwareVersions: [],
      payloadCodecRuntime: 'JS',
      codecId: 'lorawan-devices/quellwerk/both',
      codec: expect.stringMatching(/encodeDownlink[^]*decodeUplink/),
      region: 'EU868',
      macVersion: '1.0.3',
      regParamsRevision: 'A',
      deviceStatusReqInterval: 1,
      uplinkInterval: 3600,
      flushQueueOnActivate: true,
      supportsClassB: false,
      supportsClassC: false,
      supportsOtaa: true,
      createdAt: time,
      updatedAt: time,
    });
    expect(await find('quellwerk', 'qw-20', 'KR920')).toMatchObject({ codec: '', codecId: undefined });
  });

  it('returns the same by ID, in its own region, and reports an unknown ID', async () => {
    const { region, ...rest } = await find('quellwerk', 'qw-20', 'AS923_4');
    expect(await profiles.get(rest.id)).toEqual({ ...rest, region: 'AS923' });
    expect(region).toBe('AS923_4');
    await expect(profiles.get('quellwerk/qw-20/2.0/as923')).rejects.toMatchObject({
      kind: 'not_found',
      reason: 'profile_not_found',
      metadata: { profile_id: 'quellwerk/qw-20/2.0/as923' },
    });
  });

  it('repeats the search when the profile it found is removed meanwhile', async () => {
    const raceDatabase = await createDatabase();
    try {
      await new ProfileImports({ database: raceDatabase.database, clock: new TestClock() }).store(
        'lorawan-devices',
        QUELLWERK,
      );
      const { db: real } = raceDatabase.database;
      const all: typeof real.all = async (statement, values) => {
        if (statement.name === 'profiles.whole' && values[0] === 'quellwerk/qw-10/1.10/EU868')
          await real.knex('device_profiles').where('id', values[0]).delete();
        return await real.all(statement, values);
      };
      const catalogue = new DeviceProfiles({ database: { db: { ...real, all } } as never });
      expect(
        (await catalogue.find({ brand: 'quellwerk', model: 'qw-10', band: 'EU868', firmwareVersion: undefined })).id,
      ).toBe('quellwerk/qw-10/1.9/EU868');
    } finally {
      await raceDatabase.drop();
    }
  });
});

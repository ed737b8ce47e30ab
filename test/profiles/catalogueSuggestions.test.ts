import type { DomainError } from '../../src/kernel/errors';
import { DeviceProfiles, ProfileImports } from '../../src/profiles';
import { sqliteOnly, type TestDatabase } from '../support/engines';
import { TestClock } from '../support/testClock';
import { getModel, getProfile, getVendor } from '../support/vendors';

const rows = (...versions: readonly (readonly [firmwareVersion: string, region: string])[]) =>
  versions.map(([firmwareVersion, region]) => getProfile({ firmwareVersion, region }));
const named = (...ids: readonly string[]) => ids.map((id) => getModel({ id, name: id.toUpperCase() }));

const VENDORS = [
  getVendor({
    id: 'quellwerk',
    name: 'Quellwerk Systeme',
    models: [
      getModel({
        id: 'qw-10',
        name: 'Pegel',
        profiles: rows(
          ['1.9', 'EU868'],
          ['1.10', 'EU868'],
          ['1.10', 'US915'],
          ['0.5', 'AS923'],
          ...['0.1', '0.2', '0.3', '0.4', '0.6'].map((version) => [version, 'IN865'] as const),
        ),
      }),
      getModel({ id: 'qw-100', name: 'Pegel lang' }),
      ...named('qw-11', 'qw-12', 'qw-13', 'qw-14', 'regen-1', 'a', '\u{1F4A7}'),
    ],
  }),
  getVendor({ id: 'quellwert', name: 'Quellwert', models: named('anzeige-3') }),
  getVendor({ id: 'tidewater', name: 'Tidewater', models: named('anzeige-3', 'pump-1') }),
  getVendor({ id: 'north', name: 'North', models: named('x') }),
];

describe.each(sqliteOnly())('a look-up without a match on $name', ({ createDatabase }) => {
  let db: TestDatabase;
  let profiles: DeviceProfiles;
  beforeAll(async () => {
    db = await createDatabase();
    profiles = new DeviceProfiles({ database: db.database });
    await expect(
      profiles.find({ brand: 'a', model: 'b', band: 'EU868', firmwareVersion: undefined }),
    ).rejects.toMatchObject({
      kind: 'not_found',
      reason: 'profile_not_found',
      message: expect.stringMatching(/^no device profiles are imported; .*plantroom profiles import/) as unknown,
      metadata: { missing: 'profiles' },
    });
    const imports = new ProfileImports({ database: db.database, clock: new TestClock() });
    for (const vendor of VENDORS) await imports.store('lorawan-devices', vendor);
    await imports.store('chirpstack-device-profiles', getVendor({ id: 'quellwerk', models: named('qw-15') }));
    await imports.store('lorawan-devices', getVendor({ id: 'moor', name: 'Moor', models: named('valve-2') }));
    await imports.store(
      'chirpstack-device-profiles',
      getVendor({ id: 'moor-iot', name: 'Moor', models: named('valve-22') }),
    );
  });
  afterAll(async () => await db.drop());

  it.each<[what: string, query: [string, string, string, string?], missing: string, near: string[], message: RegExp]>([
    [
      'the newest of each other band',
      ['quellwerk', 'pegel', 'KR920'],
      'band',
      ['qw-10/1.10/EU868', 'qw-10/1.10/US915', 'qw-10/0.6/IN865', 'qw-10/0.5/AS923'],
      /^"quellwerk" "pegel" has no profile for the band KR920; similar: quellwerk\/qw-10\/1\.10\/EU868, quell/,
    ],
    [
      'the same for an unknown band',
      ['quellwerk', 'qw-10', 'EU869'],
      'band',
      ['qw-10/1.10/EU868', 'qw-10/1.10/US915', 'qw-10/0.6/IN865', 'qw-10/0.5/AS923'],
      /^"EU869" is not a LoRaWAN band \(use one of EU868, US915, .*\); similar:/,
    ],
    [
      'the newest other firmware of the band, at most five',
      ['quellwerk', 'qw-10', 'in865', '0.9'],
      'firmware_version',
      ['qw-10/0.6/IN865', 'qw-10/0.4/IN865', 'qw-10/0.3/IN865', 'qw-10/0.2/IN865', 'qw-10/0.1/IN865'],
      /has no firmware "0\.9" for the band IN865/,
    ],
    [
      'other bands, for any requested firmware',
      ['quellwerk', 'qw-11', 'US915', '0.9'],
      'band',
      ['qw-11/1.0/EU868'],
      /has no profile for the band US915/,
    ],
    [
      'models with a similar spelling, of both repositories',
      ['Quellwerk', 'QW-15x', 'EU868'],
      'model',
      ['qw-15', 'qw-10', 'qw-100', 'qw-11', 'qw-12'],
      /^model "QW-15x"/,
    ],
    [
      'models with a similar spelling',
      ['Quellwerk', 'QW16', 'EU868'],
      'model',
      ['qw-10', 'qw-11', 'qw-12', 'qw-13', 'qw-14'],
      /^model "QW16" of the brand "Quellwerk" not found among the imported profiles; similar: quellwerk\/qw-10, /,
    ],
    ['models with this prefix first', ['quellwerk', 'pege', 'EU868'], 'model', ['qw-10', 'qw-100'], /similar:/],
    [
      'models whose names are part of the request',
      ['quellwerk', 'Regen 1 outdoor', 'EU868'],
      'model',
      ['regen-1'],
      /similar:/,
    ],
    [
      'no model where none is similar',
      ['quellwerk', 'thermometer', 'EU868'],
      'model',
      [],
      /not found among the imported profiles; ListDeviceProfiles lists them$/,
    ],
    ['no model for a request without letters', ['quellwerk', '--', 'EU868'], 'model', [], /lists them$/],
  ])('suggests %s', async (_what, [brand, model, band, firmwareVersion], missing, near, message) => {
    await expect(profiles.find({ brand, model, band, firmwareVersion })).rejects.toMatchObject({
      kind: 'not_found',
      reason: 'profile_not_found',
      message: expect.stringMatching(message) as unknown,
      metadata: { missing, ...(near.length > 0 && { near: near.map((id) => `quellwerk/${id}`).join(',') }) },
    });
  });

  it('suggests models of this name of all brands, each once', async () => {
    await expect(
      profiles.find({ brand: 'moor', model: 'valve-23', band: 'EU868', firmwareVersion: undefined }),
    ).rejects.toMatchObject({ metadata: { missing: 'model', near: 'moor/valve-2,moor-iot/valve-22' } });
  });

  it('suggests similar models in a brand of many models, at any position in the alphabet, without comparing all', async () => {
    const many = await createDatabase();
    try {
      const catalogue = new DeviceProfiles({ database: many.database });
      const imports = new ProfileImports({ database: many.database, clock: new TestClock() });
      for (const source of ['lorawan-devices', 'chirpstack-device-profiles'] as const)
        await imports.store(
          source,
          getVendor({
            id: 'huge',
            models: named(...Array.from({ length: 1500 }, (_, at) => `${source[0]}-sensor-${1000 + at}`)),
          }),
        );
      for (const [requested, near] of [
        ['c-sensor-1000x', 'c-sensor-1000'],
        ['c-sensor-24999', 'c-sensor-2499'],
        ['l-sensor-1750z', 'l-sensor-1750'],
        ['l-sensor-24O0', 'l-sensor-2400'],
      ] as const) {
        await expect(
          catalogue.find({ brand: 'huge', model: requested, band: 'EU868', firmwareVersion: undefined }),
        ).rejects.toMatchObject({
          metadata: {
            missing: 'model',
            near: expect.stringMatching(new RegExp(String.raw`^huge/${near}(,|$)`)) as unknown,
          },
        });
      }
      let rows = 0;
      const { db } = many.database;
      const counting: typeof db.all = async (statement, values) => {
        const read = await db.all<never>(statement, values);
        rows += read.length;
        return read;
      };
      await expect(
        new DeviceProfiles({ database: { db: { ...db, all: counting } } as never }).find({
          brand: 'huge',
          model: 'l-senser-1500',
          band: 'EU868',
          firmwareVersion: undefined,
        }),
      ).rejects.toMatchObject({ reason: 'profile_not_found' });
      expect(rows).toBe(1000);
    } finally {
      await many.drop();
    }
  });

  it.each<[brand: string, model: string, near: string]>([
    ['quelwerk', 'pegel', 'quellwerk/qw-10,quellwerk,quellwert'],
    ['Quellwerk-Systeme', 'x', 'quellwerk,north/x'],
    ['Tide', 'anzeige-3', 'tidewater/anzeige-3,tidewater,quellwert/anzeige-3'],
    ['nord', 'nothing', 'north'],
    ['zzz', 'nothing', ''],
  ])('suggests brands similar to %j, and other brands of the model %j', async (brand, model, near) => {
    const error = (await profiles
      .find({ brand, model, band: 'EU868', firmwareVersion: undefined })
      .catch((thrown: unknown) => thrown)) as DomainError;
    expect([error.reason, error.metadata]).toEqual(['profile_not_found', { missing: 'brand', ...(near && { near }) }]);
  });
});

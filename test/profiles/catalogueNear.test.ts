import type { DomainError } from '../../src/kernel/errors';
import { DeviceProfiles, ProfileImports } from '../../src/profiles';
import { engines, type TestDatabase } from '../support/engines';
import { TestClock } from '../support/testClock';
import { modelOf, profileOf, vendorOf } from '../support/vendors';

const rows = (...versions: readonly (readonly [firmwareVersion: string, region: string])[]) => versions.map(([firmwareVersion, region]) => profileOf({ firmwareVersion, region }));
const named = (...ids: readonly string[]) => ids.map((id) => modelOf({ id, name: id.toUpperCase() }));

const VENDORS = [
  vendorOf({
    id: 'quellwerk',
    name: 'Quellwerk Systeme',
    models: [
      modelOf({ id: 'qw-10', name: 'Pegel', profiles: rows(['1.9', 'EU868'], ['1.10', 'EU868'], ['1.10', 'US915'], ['0.5', 'AS923'], ...['0.1', '0.2', '0.3', '0.4', '0.6'].map((version) => [version, 'IN865'] as const)) }),
      modelOf({ id: 'qw-100', name: 'Pegel lang' }),
      ...named('qw-11', 'qw-12', 'qw-13', 'qw-14', 'regen-1', 'a', '\u{1F4A7}'),
    ],
  }),
  vendorOf({ id: 'quellwert', name: 'Quellwert', models: named('anzeige-3') }),
  vendorOf({ id: 'tidewater', name: 'Tidewater', models: named('anzeige-3', 'pump-1') }),
  vendorOf({ id: 'north', name: 'North', models: named('x') }),
];

describe.each(engines())('a look-up that finds nothing on $name', ({ createDatabase }) => {
  let db: TestDatabase;
  let profiles: DeviceProfiles;
  beforeAll(async () => {
    db = await createDatabase();
    profiles = new DeviceProfiles({ database: db.database });
    await expect(profiles.find({ brand: 'a', model: 'b', band: 'EU868', firmwareVersion: undefined })).rejects.toMatchObject({
      kind: 'not_found', reason: 'profile_not_found', message: expect.stringMatching(/^no device profiles were imported; .*plantroom profiles import/) as unknown, metadata: { missing: 'profiles' },
    });
    const imports = new ProfileImports({ database: db.database, clock: new TestClock() });
    for (const vendor of VENDORS) await imports.store('lorawan-devices', vendor);
    await imports.store('chirpstack-device-profiles', vendorOf({ id: 'quellwerk', models: named('qw-15') }));
    await imports.store('lorawan-devices', vendorOf({ id: 'moor', name: 'Moor', models: named('valve-2') }));
    await imports.store('chirpstack-device-profiles', vendorOf({ id: 'moor-iot', name: 'Moor', models: named('valve-22') }));
  });
  afterAll(async () => await db.drop());

  it.each<[what: string, query: [string, string, string, string?], missing: string, near: string[], message: RegExp]>([
    ['the newest of each other band', ['quellwerk', 'pegel', 'KR920'], 'band', ['qw-10/1.10/EU868', 'qw-10/1.10/US915', 'qw-10/0.6/IN865', 'qw-10/0.5/AS923'], /^"quellwerk" "pegel" has no profile for the band KR920; near are quellwerk\/qw-10\/1\.10\/EU868, quell/],
    ['the same of a band that is none', ['quellwerk', 'qw-10', 'EU869'], 'band', ['qw-10/1.10/EU868', 'qw-10/1.10/US915', 'qw-10/0.6/IN865', 'qw-10/0.5/AS923'], /^"EU869" is no band of LoRaWAN \(EU868, US915, .*\); near are/],
    ['the newest other firmware of the band, five at most', ['quellwerk', 'qw-10', 'in865', '0.9'], 'firmware_version', ['qw-10/0.6/IN865', 'qw-10/0.4/IN865', 'qw-10/0.3/IN865', 'qw-10/0.2/IN865', 'qw-10/0.1/IN865'], /has no firmware "0\.9" for the band IN865/],
    ['other bands, whatever firmware is asked for', ['quellwerk', 'qw-11', 'US915', '0.9'], 'band', ['qw-11/1.0/EU868'], /has no profile for the band US915/],
    ['models that are spelled nearly so, of both repositories', ['Quellwerk', 'QW-15x', 'EU868'], 'model', ['qw-15', 'qw-10', 'qw-100', 'qw-11', 'qw-12'], /^no model "QW-15x"/],
    ['models that are spelled nearly so', ['Quellwerk', 'QW16', 'EU868'], 'model', ['qw-10', 'qw-11', 'qw-12', 'qw-13', 'qw-14'], /^no model "QW16" of the brand "Quellwerk" was imported; near are quellwerk\/qw-10, /],
    ['models whose names begin so first', ['quellwerk', 'pege', 'EU868'], 'model', ['qw-10', 'qw-100'], /near are/],
    ['models whose names are in what is asked for', ['quellwerk', 'Regen 1 outdoor', 'EU868'], 'model', ['regen-1'], /near are/],
    ['no model where none is near', ['quellwerk', 'thermometer', 'EU868'], 'model', [], /was imported; ListDeviceProfiles shows what was$/],
    ['no model for what holds no letter', ['quellwerk', '--', 'EU868'], 'model', [], /shows what was$/],
  ])('names %s', async (_what, [brand, model, band, firmwareVersion], missing, near, message) => {
    await expect(profiles.find({ brand, model, band, firmwareVersion })).rejects.toMatchObject({
      kind: 'not_found', reason: 'profile_not_found', message: expect.stringMatching(message) as unknown, metadata: { missing, ...(near.length > 0 && { near: near.map((id) => `quellwerk/${id}`).join(',') }) },
    });
  });

  it('names models of all brands that are called so, each once', async () => {
    await expect(profiles.find({ brand: 'moor', model: 'valve-23', band: 'EU868', firmwareVersion: undefined })).rejects.toMatchObject({ metadata: { missing: 'model', near: 'moor/valve-2,moor-iot/valve-22' } });
  });

  it('names those near in a brand of many models, wherever they stand in the alphabet, without comparing all', async () => {
    const many = await createDatabase();
    try {
      const catalogue = new DeviceProfiles({ database: many.database });
      const imports = new ProfileImports({ database: many.database, clock: new TestClock() });
      for (const source of ['lorawan-devices', 'chirpstack-device-profiles'] as const) await imports.store(source, vendorOf({ id: 'huge', models: named(...Array.from({ length: 1500 }, (_, at) => `${source[0]}-sensor-${1000 + at}`)) }));
      for (const [asked, near] of [['c-sensor-1000x', 'c-sensor-1000'], ['c-sensor-24999', 'c-sensor-2499'], ['l-sensor-1750z', 'l-sensor-1750'], ['l-sensor-24O0', 'l-sensor-2400']] as const) {
        await expect(catalogue.find({ brand: 'huge', model: asked, band: 'EU868', firmwareVersion: undefined })).rejects.toMatchObject({ metadata: { missing: 'model', near: expect.stringMatching(new RegExp(String.raw`^huge/${near}(,|$)`)) as unknown } });
      }
      let rows = 0;
      const { db } = many.database;
      const counting: typeof db.all = async (statement, values) => {
        const read = await db.all<never>(statement, values);
        rows += read.length;
        return read;
      };
      await expect(new DeviceProfiles({ database: { db: { ...db, all: counting } } as never }).find({ brand: 'huge', model: 'l-senser-1500', band: 'EU868', firmwareVersion: undefined })).rejects.toMatchObject({ reason: 'profile_not_found' });
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
  ])('names brands near to %j, and where else the model %j is', async (brand, model, near) => {
    const error = (await profiles.find({ brand, model, band: 'EU868', firmwareVersion: undefined }).catch((thrown: unknown) => thrown)) as DomainError;
    expect([error.reason, error.metadata]).toEqual(['profile_not_found', { missing: 'brand', ...(near && { near }) }]);
  });
});

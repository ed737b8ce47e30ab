import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { plantroomHere } from '../support/commandInProcess';
import { type Ended, plantroom, plantroomKilled, plantroomServe, type ServeProcess } from '../support/commandLine';
import { sqliteOnly, type TestDatabase } from '../support/engines';
import { HttpClient, type JsonObject } from '../support/http';
import {
  type CheckoutSize,
  getDevice,
  DEVICES_PER_VENDOR,
  writeCheckout,
  PROFILES_PER_VENDOR,
  getVendor,
} from '../support/manyProfiles';
import { as } from '../support/testApp';

const VENDORS = 8;
/** The vendors of each layout follow those of the other. */
const FIRST = { 'lorawan-devices': 0, 'chirpstack-device-profiles': VENDORS };
type Layout = CheckoutSize['layout'];

describe.each(sqliteOnly())('an import of device profiles on $name', (engine) => {
  const folder = mkdtempSync(join(tmpdir(), 'plantroom-killed-'));
  let test: TestDatabase;
  let env: Record<string, string>;
  let server: ServeProcess;
  let http: HttpClient;
  beforeAll(async () => {
    test = await engine.createDatabase();
    env = {
      PLANTROOM_DATA_DIR: test.dataDir,
      PLANTROOM_DATABASE_URL: test.url,
      PLANTROOM_GRPC_LISTEN: '127.0.0.1:0',
      PLANTROOM_HTTP_LISTEN: '127.0.0.1:0',
      PLANTROOM_TLS_MODE: 'off',
      PLANTROOM_BOOTSTRAP_KEY_FILE: join(folder, 'key.json'),
    };
    await serve();
  });
  afterAll(async () => {
    http.close();
    await server.stop('SIGKILL');
    await test.drop();
    rmSync(folder, { recursive: true, force: true });
  });

  const serve = async (): Promise<void> => {
    server = await plantroomServe(env);
    const { organizationId, apiKey } = JSON.parse(readFileSync(join(folder, 'key.json'), 'utf8')) as {
      organizationId: string;
      apiKey: string;
    };
    http?.close();
    http = new HttpClient(String(server.ready['http']), undefined, as(apiKey, organizationId));
  };
  const getImport = (layout: Layout, edition: number): string[] => {
    const checkout = join(folder, `${layout}-${edition}`);
    writeCheckout(checkout, { layout, vendors: VENDORS, first: FIRST[layout], edition });
    return ['profiles', 'import', checkout, '--json'];
  };
  /** Runs an import without disturbance, which needs no separate process. */
  const importHere = async (args: readonly string[]): Promise<Ended> =>
    await plantroomHere([
      ...args,
      '--data-dir',
      test.dataDir,
      ...(test.url === '' ? [] : ['--database-url', test.url]),
    ]);
  const written = async (since: number): Promise<number> =>
    Number(
      (await test.database.db.knex('device_profiles').where('updated_at', '>', since).count({ rows: '*' }))[0]?.[
        'rows'
      ],
    );

  /** Resolves when the profiles of this number of further vendors are written. */
  const afterVendors = async (count: number): Promise<() => Promise<void>> => {
    const [last] = await test.database.db.knex('device_profiles').max({ at: 'updated_at' });
    const since = Number(last?.['at'] ?? 0);
    return async () => {
      while ((await written(since)) < count * PROFILES_PER_VENDOR);
    };
  };

  const findAnswered = async (vendor: number, device: number): Promise<number | undefined> => {
    const query = new URLSearchParams({ brand: getVendor(vendor), model: getDevice(vendor, device), band: 'EU868' });
    const { status, json } = await http.get(`/api/v2/device-profile-template?${query.toString()}`);
    expect([200, 404]).toContain(status);
    return status === 200 ? getEdition(String(json['codec'])) : undefined;
  };

  /**
   * Returns the edition of each vendor of a layout, or undefined for a missing vendor. Fails for a vendor that is
   * incomplete or whose codecs are.
   */
  const getEditions = async (layout: Layout): Promise<(number | undefined)[]> => {
    const editions: (number | undefined)[] = [];
    for (let vendor = FIRST[layout]; vendor < FIRST[layout] + VENDORS; vendor += 1) {
      const found = await Promise.all(
        Array.from({ length: DEVICES_PER_VENDOR }, async (_, device) => await findAnswered(vendor, device)),
      );
      expect(new Set(found).size).toBe(1);
      editions.push(found[0]);
    }
    return editions;
  };

  const total = async (): Promise<unknown> => (await http.get('/api/v2/device-profiles?pageSize=1')).json['total'];

  it.each([
    ['lorawan-devices', 1],
    ['chirpstack-device-profiles', 4],
  ] as const)(
    'leaves only complete vendors of %s when it is killed, and finishes when it is repeated',
    async (layout, count) => {
      const args = getImport(layout, 0);
      const others = Number(await total());
      expect(await plantroomKilled(args, env, await afterVendors(count))).toBe(true);
      const editions = await getEditions(layout);
      const there = editions.filter((edition) => edition === 0).length;
      expect([there >= count, there < VENDORS, editions.includes(1)]).toEqual([true, true, false]);
      expect(await total()).toBe(others + there * DEVICES_PER_VENDOR);
      const { new: created, unchanged, changed, warnings } = await finished(importHere(args));
      expect([Number(created) + Number(unchanged), changed, warnings]).toEqual([VENDORS * PROFILES_PER_VENDOR, 0, []]);
      expect(created).toBeGreaterThan(0);
      expect(await getEditions(layout)).toEqual(Array.from({ length: VENDORS }, () => 0));
    },
  );

  it('leaves each vendor completely in the old or the new edition when it is killed while it changes every codec', async () => {
    const args = getImport('lorawan-devices', 1);
    expect(await plantroomKilled(args, env, await afterVendors(3))).toBe(true);
    const editions = await getEditions('lorawan-devices');
    expect([new Set(editions), editions.filter((edition) => edition === 1).length >= 3]).toEqual([
      new Set([1, 0]),
      true,
    ]);
    expect(await finished(importHere(args))).toMatchObject({ new: 0, warnings: [] });
    expect(await getEditions('lorawan-devices')).toEqual(Array.from({ length: VENDORS }, () => 1));
  });

  it('finishes when the server is killed meanwhile, and the next server reports which imports did not finish', async () => {
    const args = getImport('chirpstack-device-profiles', 1);
    const some = await afterVendors(3);
    const importing = finished(plantroom(args, env));
    await some();
    await server.stop('SIGKILL');
    expect(await importing).toMatchObject({ new: 0, changed: VENDORS * PROFILES_PER_VENDOR, warnings: [] });
    // as if ten minutes had passed, after which the killed ones are no longer awaited
    expect(await test.database.db.knex('audit_pending').update({ at: 0 })).toBe(3);
    await serve();
    expect(await getEditions('chirpstack-device-profiles')).toEqual(Array.from({ length: VENDORS }, () => 1));
    const { json } = await http.get('/api/v2/audit-events?resource=device-profiles');
    const outcomes = (json['events'] as { outcome: string }[]).map(({ outcome }) => outcome).toSorted();
    expect(outcomes).toEqual([
      ...Array.from({ length: 4 }, () => 'succeeded'),
      ...Array.from({ length: 3 }, () => 'unknown'),
    ]);
  });
});

/** Returns the edition of a complete codec. */
function getEdition(codec: string): number {
  const editions = new Set(codec.match(/(?<=, edition )\d+/g));
  expect([editions.size, /function decodeUplink/.test(codec), /function encodeDownlink/.test(codec)]).toEqual([
    1,
    true,
    true,
  ]);
  return Number([...editions][0]);
}

/** Returns the counters of a finished import. */
async function finished(ended: Promise<Ended>): Promise<JsonObject> {
  const { code, stdout, stderr } = await ended;
  expect([code, stderr]).toEqual([0, '']);
  return JSON.parse(stdout) as JsonObject;
}

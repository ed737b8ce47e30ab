import { normalizeForSearch, type Database, type Db } from '../../src/database';
import {
  DeviceListRepository,
  deviceListStatements,
  type DeviceFilter,
  type DeviceSlice,
} from '../../src/devices/deviceListRepository';
import { UplinkRepository } from '../../src/devices';
import { DeviceRepository } from '../../src/devices/deviceRepository';
import {
  DataSendingIntervalUnit,
  type ListDigitalDevicesRequest,
} from '../../src/gen/digitaldevice/v2/digital_device_service';
import { startDeviceFixture, type DeviceFixture } from '../support/deviceFixture';
import { toTimestamp } from '../../src/kernel/timestamps';
import { engines } from '../support/engines';
import { getPlan } from '../support/queryPlan';

/** When the device at this index was last seen: every third one never, the others at 1001, 1002, 1004, ... */
const seenAt = (at: number): number | null => (at % 3 === 0 ? null : 1000 + at);

describe.each(engines())('the device list on $name', (engine) => {
  let fixture: DeviceFixture;
  let ids: string[] = [];
  const NAMES = ['Kühlraum Köln', 'KÜHLHAUS', '50% valve', '500 valve', 'snake_case', 'Boiler'];
  const COUNT = 57;

  // Eight devices are created per millisecond, so most neighbours share a creation time.
  beforeAll(async () => {
    fixture = await startDeviceFixture(engine);
    for (let at = 0; at < COUNT; at += 1) {
      const physicalDevice =
        at % 2 === 0
          ? undefined
          : { clientDeviceId: `m-${at}`, connectionId: fixture.connections[0], configuration: { hidden: true } };
      ids.push((await fixture.api.create({ name: `${NAMES[at % NAMES.length]} ${at}`, physicalDevice })).id);
      if (at % 8 === 7) fixture.clock.advance(1);
    }
    ids = await newestFirst();
    await fixture.api.update({
      id: ids[0]!,
      dataSendingInterval: { unit: DataSendingIntervalUnit.DATA_SENDING_INTERVAL_UNIT_HOUR, value: 6 },
    });
    await fixture.api.addSensors({ id: ids[0]!, sensorTemplateIds: [fixture.templates[0], fixture.templates[1]] });
    for (const name of NAMES) await fixture.api.create({ name }, 'org-2');
  });
  afterAll(async () => await fixture.stop());

  async function newestFirst(): Promise<string[]> {
    return await fixture.test.database.db
      .knex('digital_devices')
      .where('organization_id', 'org-1')
      .orderBy([
        { column: 'created_at', order: 'desc' },
        { column: 'id', order: 'desc' },
      ])
      .pluck('id');
  }

  /** Reads all pages by token. */
  async function pages(request: Partial<ListDigitalDevicesRequest>): Promise<string[][]> {
    const found: string[][] = [];
    let pageToken = '';
    do {
      const page = await fixture.api.list({ ...request, pageToken });
      found.push(page.devices.map(({ id }) => id));
      pageToken = page.nextPageToken;
    } while (pageToken);
    return found;
  }

  it('shows the newest devices first, 50 per page, with the total and only the list fields', async () => {
    const page = await fixture.api.list({});
    expect(page.devices.map(({ id }) => id)).toEqual(ids.slice(0, 50));
    expect(page.total).toBe(COUNT);
    const whole = await fixture.api.get({ id: ids[0]! });
    const { clientDeviceId, connectionId, id } = whole.physicalDevice ?? {
      clientDeviceId: '',
      connectionId: '',
      id: '',
    };
    const physicalDevice = whole.physicalDevice && {
      id,
      clientDeviceId,
      connectionId,
      configuration: undefined,
      sensorMappings: [],
      createdAt: undefined,
      updatedAt: undefined,
    };
    const sensors = whole.sensors.map((sensor) => ({ ...sensor, createdAt: undefined, updatedAt: undefined }));
    expect(sensors).toHaveLength(2);
    expect(whole.dataSendingInterval).toMatchObject({ value: 6 });
    expect(page.devices[0]).toEqual({ ...whole, physicalDevice, sensors, dataSendingInterval: undefined, etag: '' });
    expect(page.devices.filter((device) => device.physicalDevice)).toHaveLength(
      page.devices.filter(({ name }) => Number(name.split(' ').at(-1)) % 2 === 1).length,
    );
  });

  it.each([1, 7, 8, 56, 57, 200])(
    'pages through all devices by token, %i per page, without gaps or duplicates among equal times',
    async (limit) => {
      const found = await pages({ limit });
      expect(found.flat()).toEqual(ids);
      expect(found.length).toBe(Math.ceil(COUNT / limit));
    },
  );

  it('pages by offset too and continues by token', async () => {
    const page = await fixture.api.list({ limit: 10, offset: 20 });
    expect(page.devices.map(({ id }) => id)).toEqual(ids.slice(20, 30));
    const next = await fixture.api.list({ limit: 10, pageToken: page.nextPageToken });
    expect(next.devices.map(({ id }) => id)).toEqual(ids.slice(30, 40));
    expect(await fixture.api.list({ offset: COUNT })).toEqual({ devices: [], total: COUNT, nextPageToken: '' });
  });

  it('treats a page size above 200 as 200 and 0 as 50', async () => {
    expect((await fixture.api.list({ limit: 1_000_000 })).devices).toHaveLength(COUNT);
    expect((await fixture.api.list({ limit: 0 })).devices).toHaveLength(50);
  });

  it('rejects negative numbers, an offset with a token, and tokens that are forged or belong to another list', async () => {
    expect((await fixture.api.list.fails({ limit: -1, offset: -1 })).fields.toSorted()).toEqual(['limit', 'offset']);
    const { nextPageToken } = await fixture.api.list({ limit: 5 });
    expect((await fixture.api.list.fails({ offset: 1, pageToken: nextPageToken })).fields).toEqual(['offset']);
    for (const pageToken of ['forged', nextPageToken.slice(0, -2)])
      expect((await fixture.api.list.fails({ pageToken })).fields).toEqual(['pageToken']);
    expect((await fixture.api.list.fails({ pageToken: nextPageToken, search: 'valve' })).fields).toEqual(['pageToken']);
    expect((await fixture.api.list.fails({ pageToken: nextPageToken }, 'org-2')).fields).toEqual(['pageToken']);
  });

  it.each([
    ['kühl', ['Kühlraum Köln', 'KÜHLHAUS']],
    ['KÖ', ['Kühlraum Köln']],
    ['ku\u0308hlh', ['KÜHLHAUS']],
    ['50%', ['50% valve']],
    ['%', ['50% valve']],
    ['_', ['snake_case']],
    ['e_c', ['snake_case']],
    ['VALVE', ['50% valve', '500 valve']],
    ['"boiler"', []],
    ['zzz', []],
  ])('finds by name: %s', async (search, names) => {
    const expected = (
      await fixture.test.database.db.knex('digital_devices').whereIn('id', ids).select('id', 'name')
    ).filter(({ name }: { name: string }) => names.some((one) => name.startsWith(one)));
    const page = await fixture.api.list({ search });
    expect(page.total).toBe(expected.length);
    const found = (await pages({ search, limit: 4 })).flat();
    expect(found).toEqual(ids.filter((id) => expected.some((row: { id: string }) => row.id === id)));
    expect((await fixture.api.list({ search, offset: 3 })).devices.map(({ id }) => id)).toEqual(found.slice(3));
  });

  it('finds a renamed device by its new name immediately and not by its old name', async () => {
    const { id } = await fixture.api.create({ name: 'Pumpwerk' }, 'org-2');
    await fixture.api.update({ id, name: 'Hebeanlage' }, 'org-2');
    expect((await fixture.api.list({ search: 'pumpwerk' }, 'org-2')).total).toBe(0);
    expect((await fixture.api.list({ search: 'hebeANLAGE' }, 'org-2')).devices.map((device) => device.id)).toEqual([
      id,
    ]);
    await fixture.api.delete({ id }, 'org-2');
    expect((await fixture.api.list({ search: 'hebeanlage' }, 'org-2')).total).toBe(0);
  });

  describe('the device list filtered by last seen time', () => {
    const LATER = Date.UTC(2030, 0, 1);
    let created: Map<string, number>;

    beforeAll(async () => {
      const { knex } = fixture.test.database.db;
      for (const [at, id] of ids.entries())
        await knex('digital_devices')
          .where({ id })
          .update({ last_seen_at: seenAt(at), seen_hour: seenAt(at) === null ? knex.raw('created_at / 3600000') : 0 });
      created = new Map(
        (await knex('digital_devices').whereIn('id', ids).select('id', 'created_at')).map(
          (row: { id: string; created_at: number }) => [row.id, row.created_at],
        ),
      );
    });
    afterAll(
      async () =>
        await fixture.test.database.db
          .knex('digital_devices')
          .update({ last_seen_at: null, seen_hour: fixture.test.database.db.knex.raw('created_at / 3600000') }),
    );

    const missing = (before: number): string[] => ids.filter((id, at) => (seenAt(at) ?? created.get(id) ?? 0) < before);

    it('uses the creation time for devices that were never seen', async () => {
      const middle = [...created.values()].toSorted((a, b) => a - b)[28] ?? 0;
      for (const before of [0, 999, 1001, 1002, 1030, 1057, middle, middle + 1, LATER]) {
        const page = await fixture.api.list({ lastSeenBefore: toTimestamp(before), limit: 200 });
        expect(page.devices.map(({ id }) => id)).toEqual(missing(before));
        expect(page.total).toBe(missing(before).length);
        expect(page.nextPageToken).toBe('');
      }
      expect(missing(middle).length).toBeLessThan(missing(middle + 1).length);
      expect(missing(LATER)).toHaveLength(COUNT);
    });

    it.each([1, 5, 19, 38])('pages by token, %i per page, and by offset', async (limit) => {
      const lastSeenBefore = toTimestamp(1045);
      expect((await pages({ lastSeenBefore, limit })).flat()).toEqual(missing(1045));
      const page = await fixture.api.list({ lastSeenBefore, offset: 7, limit });
      expect(page.devices.map(({ id }) => id)).toEqual(missing(1045).slice(7, 7 + limit));
      expect(page.total).toBe(missing(1045).length);
    });

    it('returns the same devices however sparse the matches are', async () => {
      const { database } = fixture.test;
      const { knex } = database.db;
      const HOUR = 3_600_000;
      const rows = Array.from({ length: 7000 }, (_, at) => {
        const lastSeenAt = 50 * HOUR + (isFarMissing(at) ? -(at % 3) * HOUR : 1);
        return {
          id: `far-${at}`,
          organization_id: 'org-3',
          name: `Far ${at}`,
          name_folded: `far ${at}`,
          last_seen_at: lastSeenAt,
          seen_hour: lastSeenAt >= 50 * HOUR ? 50 : lastSeenAt / HOUR,
          revision: 1,
          created_at: 1000 + Math.floor(at / 5),
          updated_at: 1,
        };
      });
      await knex('organizations').insert({
        id: 'org-3',
        name: 'Far',
        name_folded: 'far',
        created_at: 1,
        updated_at: 1,
      });
      await database.transaction(async (db) => {
        for (let at = 0; at < rows.length; at += 500) await db.knex('digital_devices').insert(rows.slice(at, at + 500));
      });
      const list = new DeviceListRepository(database.db);
      const filter = { foldedSearch: '', lastSeenBefore: 50 * HOUR + 1 };
      const expected = rows
        .filter((_, at) => isFarMissing(at))
        .toSorted((a, b) => b.created_at - a.created_at || (a.id < b.id ? 1 : -1))
        .map(({ id }) => id);
      expect(await list.count('org-3', filter)).toBe(expected.length);
      const found: string[] = [];
      for (let after: DeviceSlice['after']; ;) {
        const page = await list.list('org-3', filter, { after, offset: 0, limit: 50 });
        found.push(...page.map(({ id }) => id));
        after = page.at(-1);
        if (page.length < 50) break;
      }
      expect(found).toEqual(expected);
      for (const offset of [5, 500, 3000])
        expect((await list.list('org-3', filter, { after: undefined, offset, limit: 3 })).map(({ id }) => id)).toEqual(
          expected.slice(offset, offset + 3),
        );
      await knex('organizations').where({ id: 'org-3' }).delete();
    });

    it('drops a device from the list when it sends, and changes no index within an hour', async () => {
      const { database } = fixture.test;
      const HOUR = 3_600_000;
      const begin = Math.ceil(fixture.clock.now() / HOUR) * HOUR;
      const { id } = await fixture.api.create(
        { name: 'Sends', physicalDevice: { clientDeviceId: 'sends', connectionId: fixture.connections[1] } },
        'org-2',
      );
      const isMissing = async (before: number): Promise<boolean> =>
        (await fixture.api.list({ lastSeenBefore: toTimestamp(before), limit: 200 }, 'org-2')).devices.some(
          (device) => device.id === id,
        );
      const send = async (receivedAt: number): Promise<number> =>
        await database.transaction(async (db) => {
          const uplinks = new UplinkRepository(db);
          const binding = await uplinks.findBinding('org-2', fixture.connections[1], 'sends');
          const before = await indexedUpdates(db);
          await uplinks.recordUplink('org-2', binding!, {
            receivedAt,
            arrivedAt: receivedAt,
            ownTime: undefined,
            clock: undefined,
            isBuffered: true,
            deviceClass: undefined,
            isDecodedByNetwork: undefined,
            failure: undefined,
            isReadable: true,
            decoderWarnings: [],
          });
          return (await indexedUpdates(db)) - before;
        });
      expect([await isMissing(begin), await isMissing(begin + HOUR)]).toEqual([true, true]);
      await send(begin);
      if (engine.name === 'postgres') {
        // On a full page PostgreSQL would move the row, whatever changes.
        await database.db.knex.raw('alter table digital_devices set (fillfactor = 50)');
        await database.db.knex.raw('vacuum full digital_devices');
      }
      for (const [receivedAt, last] of [
        [begin + 10, begin + 10],
        [begin + 5, begin + 10],
        [begin + HOUR - 1, begin + HOUR - 1],
      ] as const) {
        expect(await send(receivedAt)).toBe(0);
        expect([receivedAt, await isMissing(last), await isMissing(last + 1)]).toEqual([receivedAt, false, true]);
      }
      await send(begin + 3 * HOUR);
      expect([await isMissing(begin + 3 * HOUR), await isMissing(begin + 3 * HOUR + 1)]).toEqual([false, true]);
      await fixture.api.delete({ id }, 'org-2');
    });

    it('combines the filter with a search', async () => {
      const named = new Map((await fixture.api.list({ limit: 200 })).devices.map(({ id, name }) => [id, name]));
      for (const search of ['valve', '5', 'zzz']) {
        const expected = missing(1045).filter((id) => named.get(id)?.includes(search));
        expect((await pages({ lastSeenBefore: toTimestamp(1045), search, limit: 3 })).flat()).toEqual(expected);
        expect((await fixture.api.list({ lastSeenBefore: toTimestamp(1045), search })).total).toBe(expected.length);
      }
    });

    it('binds page tokens to the time and hides devices of other organizations', async () => {
      const { nextPageToken: pageToken } = await fixture.api.list({ lastSeenBefore: toTimestamp(1045), limit: 5 });
      for (const request of [
        { pageToken },
        { pageToken, lastSeenBefore: toTimestamp(1046) },
        { pageToken, lastSeenBefore: toTimestamp(1045), search: 'a' },
      ])
        expect((await fixture.api.list.fails(request)).fields).toEqual(['pageToken']);
      expect((await fixture.api.list({ lastSeenBefore: toTimestamp(LATER) }, 'org-2')).total).toBe(NAMES.length);
      expect((await fixture.api.list.fails({ lastSeenBefore: { seconds: 1, nanos: -5 } })).fields).toEqual([
        'lastSeenBefore',
      ]);
    });
  });

  it('reads every list and every device through an index and never scans all devices', async () => {
    const { database } = fixture.test;
    await addNamed(database, 6000);
    const slice = { after: { createdAt: 5, id: 'x' }, offset: 0, limit: 51 };
    const page = await getPlan(database, async (db) => await new DeviceListRepository(db).list('org-1', ALL, slice));
    expect(page).toMatch(/digital_devices_page/);
    expect(page).toMatch(/\(\(?created_at, ?id\)? ?< ?|ROW\(d?\.?created_at, d?\.?id\) < /);
    const get = await getPlan(database, async (db) => await new DeviceRepository(db).find('org-1', 'x'));
    for (const index of ['digital_devices_id', 'physical_devices_device', 'sensors_device'])
      expect(get).toContain(index);
    const binding = await getPlan(
      database,
      async (db) => await new UplinkRepository(db).findBinding('org-1', 'c', 'd'),
    );
    expect(binding).toContain('physical_devices_client');
    for (const filter of [
      { ...ALL, foldedSearch: normalizeForSearch('Boiler') },
      { lastSeenBefore: 3000, foldedSearch: 'boiler' },
    ]) {
      for (const plan of await listPlans(database, filter, slice))
        expect(plan).toMatch(
          engine.name === 'sqlite' ? /VIRTUAL TABLE INDEX 0:M/ : /Index Scan on digital_devices_search/,
        );
    }
    const after = [5, 'x'];
    const ranges = ['org-1', 1, 'org-1', 1, 3_600_001];
    const missing = await getPlan(
      database,
      async (db) => await db.all(deviceListStatements.silentPage, [...ranges, ...after, 51, 0]),
    );
    const missingTotal = await getPlan(database, async (db) => await db.all(deviceListStatements.silentTotal, ranges));
    // For each of the two parts PostgreSQL chooses the index that leaves fewer rows to read.
    for (const plan of [missing, missingTotal])
      expect(plan).toMatch(
        engine.name === 'sqlite'
          ? /COVERING INDEX digital_devices_seen .*INDEX digital_devices_seen /
          : /digital_devices_seen/,
      );
    const stretch = await getPlan(
      database,
      async (db) => await db.all(deviceListStatements.scanEnd, ['org-1', ...after, 1000]),
    );
    const isInStretch = await getPlan(
      database,
      async (db) => await db.all(deviceListStatements.silentInScan, ['org-1', ...after, 1, 'x', 3_600_001, 51, 0]),
    );
    for (const plan of [stretch, isInStretch]) expect(plan).toMatch(/digital_devices_page/);
    for (const plan of [page, get, binding, missing, missingTotal, stretch, isInStretch])
      expect(plan).not.toMatch(/SCAN (digital_devices|p|s|m)\b|Seq Scan/);
  });
});

/** A long stretch of other devices comes before many matches, with few matches at the end. */
const isFarMissing = (at: number): boolean => (at < 4000 ? at % 7 === 0 || at < 3000 : at > 6600 && at % 40 === 0);

const ALL: DeviceFilter = { foldedSearch: '', lastSeenBefore: undefined };

/** Counts the device updates for which PostgreSQL wrote to all indexes. */
async function indexedUpdates({ knex, dialect }: Db): Promise<number> {
  if (dialect.name === 'sqlite') return 0;
  const { rows } = await knex.raw<{ rows: { n: string }[] }>(
    "select n_tup_upd - n_tup_hot_upd as n from pg_stat_xact_user_tables where relname = 'digital_devices'",
  );
  return Number(rows[0]?.n);
}

/** Returns the query plans of a page and of its total. */
async function listPlans(database: Database, filter: DeviceFilter, slice: DeviceSlice): Promise<string[]> {
  return [
    await getPlan(database, async (db) => await new DeviceListRepository(db).list('org-1', filter, slice)),
    await getPlan(database, async (db) => await new DeviceListRepository(db).count('org-1', filter)),
  ];
}

/** Adds enough devices to the listed organization that using an index pays off. */
async function addNamed(database: Database, count: number): Promise<void> {
  const rows = Array.from({ length: count }, (_, at) => ({
    id: `plan-${at}`,
    organization_id: 'org-1',
    name: `Plan ${at}`,
    name_folded: `plan ${at}`,
    last_seen_at: at % 2 === 0 ? null : at,
    revision: 1,
    created_at: at,
    updated_at: at,
  }));
  await database.transaction(async (db) => {
    for (let at = 0; at < count; at += 500) await db.knex('digital_devices').insert(rows.slice(at, at + 500));
  });
  // Autovacuum does the same.
  if (database.dialect.name === 'postgres') await database.db.knex.raw('vacuum analyze digital_devices');
}

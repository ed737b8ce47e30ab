import type { Knex } from 'knex';
import { foldName, type Database, type Db, type SqlValue } from '../../src/database';
import { DeviceListRepository } from '../../src/devices/deviceListRepository';
import { UplinkRepository } from '../../src/devices';
import { DeviceRepository } from '../../src/devices/deviceRepository';
import type { ListDigitalDevicesRequest } from '../../src/gen/digitaldevice/v2/digital_device_service';
import { startDeviceRoom, type DeviceRoom } from '../support/deviceRoom';
import { engines } from '../support/engines';

describe.each(engines())('the list of devices on $name', (engine) => {
  let room: DeviceRoom;
  let ids: string[] = [];
  const NAMES = ['Kühlraum Köln', 'KÜHLHAUS', '50% valve', '500 valve', 'snake_case', 'Boiler'];
  const COUNT = 57;

  // Eight devices a millisecond: most neighbours were created at the same time.
  beforeAll(async () => {
    room = await startDeviceRoom(engine);
    for (let at = 0; at < COUNT; at += 1) {
      const physicalDevice = at % 2 === 0 ? undefined : { clientDeviceId: `m-${at}`, connectionId: room.connections[0], configuration: { hidden: true } };
      ids.push((await room.api.create({ name: `${NAMES[at % NAMES.length]} ${at}`, physicalDevice })).id);
      if (at % 8 === 7) room.clock.advance(1);
    }
    ids = await newestFirst();
    await room.api.addSensors({ id: ids[0]!, sensorTemplateIds: [room.templates[0], room.templates[1]] });
    for (const name of NAMES) await room.api.create({ name }, 'org-2');
  });
  afterAll(async () => await room.stop());

  async function newestFirst(): Promise<string[]> {
    return await room.test.database.db.knex('digital_devices').where('organization_id', 'org-1').orderBy([{ column: 'created_at', order: 'desc' }, { column: 'id', order: 'desc' }]).pluck('id');
  }

  /** All pages by token. */
  async function pages(request: Partial<ListDigitalDevicesRequest>): Promise<string[][]> {
    const found: string[][] = [];
    let pageToken = '';
    do {
      const page = await room.api.list({ ...request, pageToken });
      found.push(page.devices.map(({ id }) => id));
      pageToken = page.nextPageToken;
    } while (pageToken);
    return found;
  }

  it('shows the newest first, 50 a page, with the total and only the list shape', async () => {
    const page = await room.api.list({});
    expect(page.devices.map(({ id }) => id)).toEqual(ids.slice(0, 50));
    expect(page.total).toBe(COUNT);
    const whole = await room.api.get({ id: ids[0]! });
    const { clientDeviceId, connectionId, id } = whole.physicalDevice ?? { clientDeviceId: '', connectionId: '', id: '' };
    const physicalDevice = whole.physicalDevice && { id, clientDeviceId, connectionId, configuration: undefined, sensorMappings: [], createdAt: undefined, updatedAt: undefined };
    const sensors = whole.sensors.map((sensor) => ({ ...sensor, createdAt: undefined, updatedAt: undefined }));
    expect(sensors).toHaveLength(2);
    expect(page.devices[0]).toEqual({ ...whole, physicalDevice, sensors, etag: '' });
    expect(page.devices.filter((device) => device.physicalDevice)).toHaveLength(page.devices.filter(({ name }) => Number(name.split(' ').at(-1)) % 2 === 1).length);
  });

  it.each([1, 7, 8, 56, 57, 200])('walks all of it by token, %i at a time, with nothing lost or doubled among equal times', async (limit) => {
    const found = await pages({ limit });
    expect(found.flat()).toEqual(ids);
    expect(found.length).toBe(Math.ceil(COUNT / limit));
  });

  it('walks by offset as well, and goes on from there by token', async () => {
    const page = await room.api.list({ limit: 10, offset: 20 });
    expect(page.devices.map(({ id }) => id)).toEqual(ids.slice(20, 30));
    const next = await room.api.list({ limit: 10, pageToken: page.nextPageToken });
    expect(next.devices.map(({ id }) => id)).toEqual(ids.slice(30, 40));
    expect(await room.api.list({ offset: COUNT })).toEqual({ devices: [], total: COUNT, nextPageToken: '' });
  });

  it('takes more than 200 as 200 and 0 as 50', async () => {
    expect((await room.api.list({ limit: 1_000_000 })).devices).toHaveLength(COUNT);
    expect((await room.api.list({ limit: 0 })).devices).toHaveLength(50);
  });

  it('refuses negative numbers, offset with token, and tokens that are forged or of another list', async () => {
    expect((await room.api.list.fails({ limit: -1, offset: -1 })).fields.toSorted()).toEqual(['limit', 'offset']);
    const { nextPageToken } = await room.api.list({ limit: 5 });
    expect((await room.api.list.fails({ offset: 1, pageToken: nextPageToken })).fields).toEqual(['offset']);
    for (const pageToken of ['forged', nextPageToken.slice(0, -2)]) expect((await room.api.list.fails({ pageToken })).fields).toEqual(['pageToken']);
    expect((await room.api.list.fails({ pageToken: nextPageToken, search: 'valve' })).fields).toEqual(['pageToken']);
    expect((await room.api.list.fails({ pageToken: nextPageToken }, 'org-2')).fields).toEqual(['pageToken']);
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
    const expected = (await room.test.database.db.knex('digital_devices').whereIn('id', ids).select('id', 'name')).filter(({ name }: { name: string }) => names.some((one) => name.startsWith(one)));
    const page = await room.api.list({ search });
    expect(page.total).toBe(expected.length);
    const found = (await pages({ search, limit: 4 })).flat();
    expect(found).toEqual(ids.filter((id) => expected.some((row: { id: string }) => row.id === id)));
    expect((await room.api.list({ search, offset: 3 })).devices.map(({ id }) => id)).toEqual(found.slice(3));
  });

  it('finds a device by its new name at once, and not by the old', async () => {
    const { id } = await room.api.create({ name: 'Pumpwerk' }, 'org-2');
    await room.api.update({ id, name: 'Hebeanlage' }, 'org-2');
    expect((await room.api.list({ search: 'pumpwerk' }, 'org-2')).total).toBe(0);
    expect((await room.api.list({ search: 'hebeANLAGE' }, 'org-2')).devices.map((device) => device.id)).toEqual([id]);
    await room.api.delete({ id }, 'org-2');
    expect((await room.api.list({ search: 'hebeanlage' }, 'org-2')).total).toBe(0);
  });

  it('reads every list and a device through an index, never all devices', async () => {
    const { database } = room.test;
    await addNamed(database, 6000);
    const slice = { after: { createdAt: 5, id: 'x' }, offset: 0, limit: 51 };
    const page = await planOf(database, async (db) => await new DeviceListRepository(db).list('org-1', slice));
    expect(page).toMatch(/digital_devices_page/);
    expect(page).toMatch(/\(\(?created_at, ?id\)? ?< ?|ROW\(d?\.?created_at, d?\.?id\) < /);
    const get = await planOf(database, async (db) => await new DeviceRepository(db).find('org-1', 'x'));
    for (const index of ['digital_devices_id', 'physical_devices_device', 'sensors_device']) expect(get).toContain(index);
    const binding = await planOf(database, async (db) => await new UplinkRepository(db).findBinding('org-1', 'c', 'd'));
    expect(binding).toContain('physical_devices_client');
    for (const work of [async (db: Db) => await new DeviceListRepository(db).search('org-1', foldName('Boiler'), slice), async (db: Db) => await new DeviceListRepository(db).totalOfSearch('org-1', 'boiler')]) {
      expect(await planOf(database, work)).toMatch(engine.name === 'sqlite' ? /VIRTUAL TABLE INDEX 0:M/ : /Index Scan on digital_devices_search/);
    }
    for (const plan of [page, get, binding]) expect(plan).not.toMatch(/SCAN (digital_devices|p|s|m)\b|Seq Scan/);
  });
});

/** Devices enough that an index pays, of the organization that the lists are of. */
async function addNamed(database: Database, count: number): Promise<void> {
  const rows = Array.from({ length: count }, (_, at) => ({ id: `plan-${at}`, organization_id: 'org-1', name: `Plan ${at}`, name_folded: `plan ${at}`, revision: 1, created_at: at, updated_at: at }));
  await database.transaction(async (db) => {
    for (let at = 0; at < count; at += 500) await db.knex('digital_devices').insert(rows.slice(at, at + 500));
  });
  if (database.dialect.name === 'postgres') await database.db.knex.raw('vacuum analyze digital_devices'); // what its own housekeeping does
}

/** The plans of all statements that the work runs, on a database too small for PostgreSQL to choose an index unasked. */
async function planOf(database: Database, work: (db: Db) => Promise<unknown>): Promise<string> {
  return await database.transaction(async (db) => {
    if (db.dialect.name === 'postgres') await db.knex.raw('set local enable_seqscan = off');
    const statements: { sql: string; bindings?: readonly SqlValue[] }[] = [];
    const note = (statement: { sql: string; bindings?: readonly SqlValue[] }): void => void statements.push(statement);
    db.knex.on('query', note);
    await work({
      knex: db.knex,
      dialect: db.dialect,
      afterCommit: () => {},
      all: async (statement, values) => {
        const sql = statement.sql(db.dialect);
        note({ sql: db.dialect.name === 'sqlite' ? sql.replaceAll('?', '+?') : sql, bindings: values }); // as the engine runs it
        return [];
      },
    });
    db.knex.removeListener('query', note);
    const explain = db.dialect.name === 'sqlite' ? 'explain query plan' : 'explain';
    const plans: unknown[] = [];
    for (const { sql, bindings = [] } of statements) plans.push(await db.knex.raw(`${explain} ${sql.replaceAll(/\$\d+/g, '?')}`, [...bindings] as Knex.Value[]));
    return JSON.stringify(plans);
  });
}

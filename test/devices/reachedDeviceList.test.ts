import { boundTo } from '../../src/devices/deviceCounterRepository';
import { DeviceReachRepository } from '../../src/devices';
import type { DeviceFilter } from '../../src/devices/deviceListRepository';
import { ReachedDeviceListRepository } from '../../src/devices/reachedDeviceListRepository';
import type { CreatedPosition } from '../../src/kernel/pages';
import type { DeviceReach } from '../../src/kernel/reach';
import { startDeviceRoom, type DeviceRoom } from '../support/deviceRoom';
import { engines } from '../support/engines';
import { planOf } from '../support/planOf';

interface Known extends CreatedPosition {
  readonly name: string;
  readonly connection: string | null;
  readonly seenAt: number;
}

const ALL: DeviceFilter = { folded: '', lastSeenBefore: undefined };
const COUNT = 5000;

describe.each(engines())('the list of devices of a limited key, on $name', (engine) => {
  let room: DeviceRoom;
  let small: string;
  let known: Known[];

  // Half of the devices are on one connection, which is more than is read at once, a few on another, the rest on none; eight share a time.
  beforeAll(async () => {
    room = await startDeviceRoom(engine);
    small = await room.addConnection();
    const [large] = room.connections;
    known = Array.from({ length: COUNT }, (_, at) => ({
      id: `device-${String((at * 7) % COUNT).padStart(5, '0')}`,
      name: at % 3 === 0 ? `Pump ${at}` : `Fan ${at}`,
      createdAt: 1000 + Math.floor(at / 8),
      seenAt: at % 5 === 0 ? 10 : 1000 + Math.floor(at / 8),
      connection: at % 2 === 0 ? large : at % 100 === 1 ? small : null,
    }));
    const devices = known.map(({ id, name, createdAt, seenAt }) => ({ id, name, organization_id: 'org-1', name_folded: name.toLowerCase(), last_seen_at: seenAt === createdAt ? null : seenAt, revision: 1, seen_hour: 0, created_at: createdAt, updated_at: createdAt }));
    const bound = known.filter(({ connection }) => connection !== null).map(({ id, connection, createdAt }) => ({ id: `p-${id}`, organization_id: 'org-1', device_id: id, connection_id: connection, client_device_id: id, configuration: '{}', created_at: createdAt, updated_at: createdAt }));
    const counters = [large, small].map((id) => ({ organization_id: 'org-1', name: boundTo(id), value: known.filter(({ connection }) => connection === id).length }));
    await room.test.database.transaction(async ({ knex }) => {
      await knex.batchInsert('digital_devices', devices, 500);
      await knex.batchInsert('physical_devices', bound, 500);
      await knex('organization_counters').insert(counters);
    });
    known.sort((one, other) => other.createdAt - one.createdAt || (one.id < other.id ? 1 : -1));
  });
  afterAll(async () => await room.stop());

  const reaches = (): [string, DeviceReach][] => {
    const named = new Set(known.filter((_, at) => at % 50 === 3).map(({ id }) => id));
    const [large] = room.connections;
    return [
      ['ids', { ids: named, connectionIds: new Set() }],
      ['a small connection', { ids: new Set(), connectionIds: new Set([small]) }],
      ['a large connection', { ids: new Set(), connectionIds: new Set([large]) }],
      ['both', { ids: named, connectionIds: new Set([large, small, 'nobody']) }],
      ['nothing that is there', { ids: new Set(['nobody']), connectionIds: new Set(['nobody']) }],
    ];
  };
  const filters: DeviceFilter[] = [ALL, { folded: 'pump', lastSeenBefore: undefined }, { folded: 'p 49', lastSeenBefore: undefined }, { folded: '', lastSeenBefore: 500 }, { folded: 'fan', lastSeenBefore: 500 }, { folded: '%', lastSeenBefore: undefined }];

  it('shows and counts what is inside, wherever a page begins, in few steps and in many', async () => {
    for (const [name, reach] of reaches()) {
      const lists = new ReachedDeviceListRepository(room.test.database.db, reach);
      for (const filter of filters) {
        const inside = known.filter(({ id, connection }) => reach.ids.has(id) || (connection !== null && reach.connectionIds.has(connection)));
        const wanted = inside.filter((device) => device.name.toLowerCase().includes(filter.folded) && (filter.lastSeenBefore === undefined || device.seenAt < filter.lastSeenBefore)).map(({ id }) => id);
        expect([name, filter, await lists.total('org-1', filter)]).toEqual([name, filter, wanted.length]);
        for (const offset of [0, 7, 1500, wanted.length]) expect((await lists.list('org-1', filter, { after: undefined, offset, limit: 21 })).map(({ id }) => id)).toEqual(wanted.slice(offset, offset + 21));
        const after = known[2600] as Known;
        const behind = known.slice(2601).map(({ id }) => id).filter((id) => wanted.includes(id));
        expect((await lists.list('org-1', filter, { after, offset: 0, limit: 201 })).map(({ id }) => id)).toEqual(behind.slice(0, 201));
        expect(await lists.total('org-2', filter)).toBe(0);
      }
    }
  });

  it('finds what it needs by indexes, with 1,000 ids and with a connection', async () => {
    const [large] = room.connections;
    const ids = new Set(Array.from({ length: 1000 }, (_, at) => `device-${at}`));
    const { database } = room.test;
    const slice = { after: undefined, offset: 0, limit: 51 };
    for (const reach of [{ ids, connectionIds: new Set<string>() }, { ids, connectionIds: new Set([small]) }, { ids: new Set<string>(), connectionIds: new Set([large]) }]) {
      const plan = await planOf(database, async (db) => {
        const lists = new ReachedDeviceListRepository(db, reach);
        await lists.list('org-1', ALL, slice);
        await lists.total('org-1', ALL);
        await new DeviceReachRepository(db).outside('org-1', reach, [...ids].slice(0, 50));
        await new DeviceReachRepository(db).ofNamed('org-1', reach, large);
      });
      expect(plan).not.toMatch(/SCAN (?:d|p|b|reached)\b|Seq Scan on (?:digital_devices|physical_devices)/);
      expect(plan).not.toMatch(/digital_devices_seen/);
      expect(plan).toContain(reach.connectionIds.has(large) ? 'digital_devices_page' : 'digital_devices_id');
      if (reach.connectionIds.size > 0) expect(plan).toContain(reach.connectionIds.has(large) ? 'physical_devices_device' : 'physical_devices_client');
    }
  });
});

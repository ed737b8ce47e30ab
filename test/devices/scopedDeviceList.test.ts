import { getBoundCounterName } from '../../src/devices/deviceCounterRepository';
import { DeviceScopeRepository } from '../../src/devices';
import type { DeviceFilter } from '../../src/devices/deviceListRepository';
import { ScopedDeviceListRepository } from '../../src/devices/scopedDeviceListRepository';
import type { CreatedPosition } from '../../src/kernel/pages';
import type { DeviceScope } from '../../src/kernel/resourceScope';
import { startDeviceFixture, type DeviceFixture } from '../support/deviceFixture';
import { engines } from '../support/engines';
import { getPlan } from '../support/queryPlan';

interface Known extends CreatedPosition {
  readonly name: string;
  readonly connection: string | null;
  readonly seenAt: number;
}

const ALL: DeviceFilter = { foldedSearch: '', lastSeenBefore: undefined };
const COUNT = 5000;

describe.each(engines())('the device list of a restricted key on $name', (engine) => {
  let fixture: DeviceFixture;
  let small: string;
  let known: Known[];

  // Half of the devices are on one connection, which is more than one read returns. A few are on another connection and
  // the rest on none. Eight devices share a time.
  beforeAll(async () => {
    fixture = await startDeviceFixture(engine);
    small = await fixture.addConnection();
    const [large] = fixture.connections;
    known = Array.from({ length: COUNT }, (_, at) => ({
      id: `device-${String((at * 7) % COUNT).padStart(5, '0')}`,
      name: at % 3 === 0 ? `Pump ${at}` : `Fan ${at}`,
      createdAt: 1000 + Math.floor(at / 8),
      seenAt: at % 5 === 0 ? 10 : 1000 + Math.floor(at / 8),
      connection: at % 2 === 0 ? large : at % 100 === 1 ? small : null,
    }));
    const devices = known.map(({ id, name, createdAt, seenAt }) => ({
      id,
      name,
      organization_id: 'org-1',
      name_folded: name.toLowerCase(),
      last_seen_at: seenAt === createdAt ? null : seenAt,
      revision: 1,
      seen_hour: 0,
      created_at: createdAt,
      updated_at: createdAt,
    }));
    const bound = known
      .filter(({ connection }) => connection !== null)
      .map(({ id, connection, createdAt }) => ({
        id: `p-${id}`,
        organization_id: 'org-1',
        device_id: id,
        connection_id: connection,
        client_device_id: id,
        configuration: '{}',
        created_at: createdAt,
        updated_at: createdAt,
      }));
    const counters = [large, small].map((id) => ({
      organization_id: 'org-1',
      name: getBoundCounterName(id),
      value: known.filter(({ connection }) => connection === id).length,
    }));
    await fixture.test.database.transaction(async ({ knex }) => {
      await knex.batchInsert('digital_devices', devices, 500);
      await knex.batchInsert('physical_devices', bound, 500);
      await knex('organization_counters').insert(counters);
    });
    known.sort((one, other) => other.createdAt - one.createdAt || (one.id < other.id ? 1 : -1));
  });
  afterAll(async () => await fixture.stop());

  const reaches = (): [string, DeviceScope][] => {
    const named = new Set(known.filter((_, at) => at % 50 === 3).map(({ id }) => id));
    const [large] = fixture.connections;
    return [
      ['ids', { ids: named, connectionIds: new Set() }],
      ['a small connection', { ids: new Set(), connectionIds: new Set([small]) }],
      ['a large connection', { ids: new Set(), connectionIds: new Set([large]) }],
      ['both', { ids: named, connectionIds: new Set([large, small, 'nobody']) }],
      ['nothing that is there', { ids: new Set(['nobody']), connectionIds: new Set(['nobody']) }],
    ];
  };
  const filters: DeviceFilter[] = [
    ALL,
    { foldedSearch: 'pump', lastSeenBefore: undefined },
    { foldedSearch: 'p 49', lastSeenBefore: undefined },
    { foldedSearch: '', lastSeenBefore: 500 },
    { foldedSearch: 'fan', lastSeenBefore: 500 },
    { foldedSearch: '%', lastSeenBefore: undefined },
  ];

  it('shows and counts the allowed devices from any page start, in few or many steps', async () => {
    for (const [name, deviceScope] of reaches()) {
      const lists = new ScopedDeviceListRepository(fixture.test.database.db, deviceScope);
      for (const filter of filters) {
        const inside = known.filter(
          ({ id, connection }) =>
            deviceScope.ids.has(id) || (connection !== null && deviceScope.connectionIds.has(connection)),
        );
        const wanted = inside
          .filter(
            (device) =>
              device.name.toLowerCase().includes(filter.foldedSearch) &&
              (filter.lastSeenBefore === undefined || device.seenAt < filter.lastSeenBefore),
          )
          .map(({ id }) => id);
        expect([name, filter, await lists.count('org-1', filter)]).toEqual([name, filter, wanted.length]);
        for (const offset of [0, 7, 1500, wanted.length])
          expect(
            (await lists.list('org-1', filter, { after: undefined, offset, limit: 21 })).map(({ id }) => id),
          ).toEqual(wanted.slice(offset, offset + 21));
        const after = known[2600] as Known;
        const behind = known
          .slice(2601)
          .map(({ id }) => id)
          .filter((id) => wanted.includes(id));
        expect((await lists.list('org-1', filter, { after, offset: 0, limit: 201 })).map(({ id }) => id)).toEqual(
          behind.slice(0, 201),
        );
        expect(await lists.count('org-2', filter)).toBe(0);
      }
    }
  });

  it('uses indexes with 1,000 device ids and with a connection', async () => {
    const [large] = fixture.connections;
    const ids = new Set(Array.from({ length: 1000 }, (_, at) => `device-${at}`));
    const { database } = fixture.test;
    const slice = { after: undefined, offset: 0, limit: 51 };
    for (const deviceScope of [
      { ids, connectionIds: new Set<string>() },
      { ids, connectionIds: new Set([small]) },
      { ids: new Set<string>(), connectionIds: new Set([large]) },
    ]) {
      const plan = await getPlan(database, async (db) => {
        const lists = new ScopedDeviceListRepository(db, deviceScope);
        await lists.list('org-1', ALL, slice);
        await lists.count('org-1', ALL);
        await new DeviceScopeRepository(db).findOutOfScope('org-1', deviceScope, [...ids].slice(0, 50));
        await new DeviceScopeRepository(db).listNamedClientDeviceIds('org-1', deviceScope, large);
      });
      expect(plan).not.toMatch(/SCAN (?:d|p|b|reached)\b|Seq Scan on (?:digital_devices|physical_devices)/);
      expect(plan).not.toMatch(/digital_devices_seen/);
      expect(plan).toContain(deviceScope.connectionIds.has(large) ? 'digital_devices_page' : 'digital_devices_id');
      if (deviceScope.connectionIds.size > 0)
        expect(plan).toContain(
          deviceScope.connectionIds.has(large) ? 'physical_devices_device' : 'physical_devices_client',
        );
    }
  });
});

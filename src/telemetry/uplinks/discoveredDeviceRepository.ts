import type { Db, HotStatement } from '../../database';
import { cut } from '../../kernel/shortened';
import type { Source } from '../keys/connectorKeyRepository';

/** A physical device that sent something and is bound to no digital device. */
export interface DiscoveredDevice {
  readonly clientDeviceId: string;
  /** Unix milliseconds. */
  readonly firstSeen: number;
  /** Unix milliseconds. */
  readonly lastSeen: number;
  readonly uplinks: number;
  /** As JSON text; only its beginning where that is long. */
  readonly lastPayload: string;
  readonly isCut: boolean;
}

/** A place in the list of discovered devices, which begins with the one discovered last. By what changes while somebody turns the pages, devices would be missed. */
export interface DiscoveryPlace {
  readonly firstSeen: number;
  readonly clientDeviceId: string;
}

/** A place in their order by when they were seen, the last one first. */
export interface SeenPlace {
  readonly lastSeen: number;
  readonly clientDeviceId: string;
}

/** The most characters kept of a payload, the mark of a cut included. */
export const LONGEST_PAYLOAD = 2048;

// What is cut ends with it; JSON text of an object never does.
const CUT_MARK = '…';

const SEEN: HotStatement = {
  name: 'discoveredDevices.seen',
  sql: () => `
    insert into discovered_devices (connection_id, client_device_id, organization_id, first_seen, last_seen, uplinks, last_payload)
    select c.id, cast(? as text), c.organization_id, cast(? as bigint), cast(? as bigint), 1, cast(? as text) from connections c where c.organization_id = ? and c.id = ?
    on conflict (connection_id, client_device_id) do update set uplinks = discovered_devices.uplinks + 1, last_payload = excluded.last_payload,
      last_seen = case when excluded.last_seen > discovered_devices.last_seen then excluded.last_seen else discovered_devices.last_seen end
    returning uplinks`,
};

const LIST: HotStatement = {
  name: 'discoveredDevices.list',
  sql: () => `
    select d.client_device_id as "clientDeviceId", d.first_seen as "firstSeen", d.last_seen as "lastSeen", d.uplinks, d.last_payload as "lastPayload" from discovered_devices d
    where d.organization_id = ? and d.connection_id = ? and (d.first_seen, d.client_device_id) < (?, ?)
      and not exists (select 1 from physical_devices p where p.connection_id = d.connection_id and p.client_device_id = d.client_device_id)
    order by d.first_seen desc, d.client_device_id desc limit ?`,
};

const WITH_KEYS: HotStatement = {
  name: 'discoveredDevices.withKeys',
  sql: () => `
    select d.client_device_id as "clientDeviceId", d.last_seen as "lastSeen",
      case when exists (select 1 from connector_keys k where k.connection_id = d.connection_id and k.client_device_id = d.client_device_id) then 1 else 0 end as "hasKeys"
    from discovered_devices d where d.organization_id = ? and d.connection_id = ? and (d.last_seen, d.client_device_id) < (?, ?)
    order by d.last_seen desc, d.client_device_id desc limit ? offset ?`,
};

const COUNT: HotStatement = {
  name: 'discoveredDevices.count',
  sql: () => 'select count(*) as devices from discovered_devices d where d.organization_id = ? and d.connection_id = ?',
};

const DROP_OLDEST: HotStatement = {
  name: 'discoveredDevices.dropOldest',
  sql: () => `
    delete from discovered_devices where (connection_id, client_device_id) in (
      select d.connection_id, d.client_device_id from discovered_devices d where d.organization_id = ? and d.connection_id = ? order by d.last_seen, d.client_device_id limit ?)
    returning client_device_id as "clientDeviceId"`,
};

const NEXT_CONNECTION: HotStatement = {
  name: 'discoveredDevices.nextConnection',
  sql: () => `
    select d.connection_id as "connectionId", d.organization_id as "organizationId", c.id from (select connection_id, organization_id from discovered_devices where connection_id > ? order by connection_id limit 1) d
    left join connections c on c.id = d.connection_id`,
};

/** Physical devices that are known by what they sent only. Assumes a connection of `organizationId`. */
export class DiscoveredDeviceRepository {
  constructor(private readonly db: Db) {}

  /** One sent something at `seenAt`, Unix milliseconds. Whether it is new. Only inside a transaction. */
  async seen(organizationId: string, { connectionId, clientDeviceId }: Source, seenAt: number, payload: Readonly<Record<string, unknown>>): Promise<boolean> {
    const [row] = await this.db.all<{ uplinks: number }>(SEEN, [clientDeviceId, seenAt, seenAt, payloadText(payload), organizationId, connectionId]);
    return row?.uplinks === 1;
  }

  /** At most `limit` that are bound to no device, after a place in the list. */
  async list(organizationId: string, connectionId: string, after: DiscoveryPlace | undefined, limit: number): Promise<DiscoveredDevice[]> {
    const { firstSeen, clientDeviceId } = after ?? { firstSeen: Number.MAX_SAFE_INTEGER, clientDeviceId: '' };
    const rows = await this.db.all<Omit<DiscoveredDevice, 'isCut'>>(LIST, [organizationId, connectionId, firstSeen, clientDeviceId, limit]);
    return rows.map((row) => ({ ...row, isCut: row.lastPayload.endsWith(CUT_MARK) }));
  }

  /** How many are kept of a connection, bound by now or not. */
  async count(organizationId: string, connectionId: string): Promise<number> {
    const [row] = await this.db.all<{ devices: number }>(COUNT, [organizationId, connectionId]);
    return row?.devices ?? 0;
  }

  /** At most `limit` of a connection's, bound by now or not, in their order by when they were seen: after a place, or after the first so many. `hasKeys`: connector keys of it are kept. */
  async seenBefore(organizationId: string, connectionId: string, after: SeenPlace | number, limit: number): Promise<(SeenPlace & { readonly hasKeys: boolean })[]> {
    const [place, skipped] = typeof after === 'number' ? [{ lastSeen: Number.MAX_SAFE_INTEGER, clientDeviceId: '' }, after] : [after, 0];
    const rows = await this.db.all<SeenPlace & { hasKeys: number }>(WITH_KEYS, [organizationId, connectionId, place.lastSeen, place.clientDeviceId, limit, skipped]);
    return rows.map((row) => ({ ...row, hasKeys: row.hasKeys === 1 }));
  }

  /** Removes the `surplus` of a connection's that were seen least recently; returns their ids. */
  async dropOldest(organizationId: string, connectionId: string, surplus: number): Promise<string[]> {
    const rows = await this.db.all<{ clientDeviceId: string }>(DROP_OLDEST, [organizationId, connectionId, surplus]);
    return rows.map(({ clientDeviceId }) => clientDeviceId);
  }

  /** The first connection after `after` in the order of their ids that any are kept of, and whether it was deleted; of all organizations. */
  async findConnection(after: string): Promise<{ readonly organizationId: string; readonly connectionId: string; readonly isDeleted: boolean } | undefined> {
    const [row] = await this.db.all<{ organizationId: string; connectionId: string; id: string | null }>(NEXT_CONNECTION, [after]);
    return row && { organizationId: row.organizationId, connectionId: row.connectionId, isDeleted: row.id === null };
  }

  /** Removes at most `limit` of a connection: all if it was deleted, else those that are bound by now. Returns how many they were. */
  async forget(organizationId: string, { connectionId, isDeleted }: { readonly connectionId: string; readonly isDeleted: boolean }, limit: number): Promise<number> {
    const { knex } = this.db;
    const some = knex('discovered_devices as d').where({ 'd.organization_id': organizationId, 'd.connection_id': connectionId }).limit(limit).select('d.client_device_id');
    const bound = knex('physical_devices as p').whereRaw('p.connection_id = d.connection_id and p.client_device_id = d.client_device_id');
    if (!isDeleted) void some.whereExists(bound);
    return await knex('discovered_devices').where({ organization_id: organizationId, connection_id: connectionId }).whereIn('client_device_id', some).delete();
  }
}

function payloadText(payload: Readonly<Record<string, unknown>>): string {
  const text = JSON.stringify(payload);
  return text.length <= LONGEST_PAYLOAD ? text : cut(text, LONGEST_PAYLOAD - CUT_MARK.length) + CUT_MARK;
}

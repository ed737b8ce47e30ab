import type { Db, PreparedStatement } from '../../database';
import { truncate } from '../../kernel/truncate';
import type { Source } from '../keys/connectorKeyRepository';

/** A physical device that sent uplinks and is not bound to a digital device. */
export interface DiscoveredDevice {
  readonly clientDeviceId: string;
  /** Unix milliseconds. */
  readonly firstSeen: number;
  /** Unix milliseconds. */
  readonly lastSeen: number;
  readonly uplinks: number;
  /** JSON text, truncated to MAX_PAYLOAD_LENGTH characters. */
  readonly lastPayload: string;
  readonly truncated: boolean;
  /** Why the last payload could not be read, a code, a colon and a description; empty if it could. */
  readonly lastFailure: string;
}

/**
 * A position in the list of discovered devices, which is sorted by first uplink, latest first. A sort key that changes
 * (such as the last uplink) would skip devices between two pages.
 */
export interface DiscoveryPosition {
  readonly firstSeen: number;
  readonly clientDeviceId: string;
}

/** A position in the list of discovered devices by last uplink, latest first. */
export interface LastSeenPosition {
  readonly lastSeen: number;
  readonly clientDeviceId: string;
}

/** The maximum length of a stored payload in characters, including the truncation mark. */
const MAX_PAYLOAD_LENGTH = 2048;

// Truncated text ends with this mark. The JSON text of an object never does.
const TRUNCATION_MARK = '…';

const UPSERT: PreparedStatement = {
  name: 'discoveredDevices.seen',
  sql: () => `
    insert into discovered_devices (connection_id, client_device_id, organization_id, first_seen, last_seen, uplinks, last_payload, uplink_failure)
    select c.id, cast(? as text), c.organization_id, cast(? as bigint), cast(? as bigint), 1, cast(? as text), cast(? as text) from connections c where c.organization_id = ? and c.id = ?
    on conflict (connection_id, client_device_id) do update set uplinks = discovered_devices.uplinks + 1, last_payload = excluded.last_payload, uplink_failure = excluded.uplink_failure,
      last_seen = case when excluded.last_seen > discovered_devices.last_seen then excluded.last_seen else discovered_devices.last_seen end
    returning uplinks`,
};

const LIST: PreparedStatement = {
  name: 'discoveredDevices.list',
  sql: () => `
    select d.client_device_id as "clientDeviceId", d.first_seen as "firstSeen", d.last_seen as "lastSeen", d.uplinks, d.last_payload as "lastPayload", coalesce(d.uplink_failure, '') as "lastFailure" from discovered_devices d
    where d.organization_id = ? and d.connection_id = ? and (d.first_seen, d.client_device_id) < (?, ?)
      and not exists (select 1 from physical_devices p where p.connection_id = d.connection_id and p.client_device_id = d.client_device_id)
    order by d.first_seen desc, d.client_device_id desc limit ?`,
};

const LIST_BY_LAST_SEEN: PreparedStatement = {
  name: 'discoveredDevices.byLastSeen',
  sql: () => `
    select d.client_device_id as "clientDeviceId", d.last_seen as "lastSeen",
      case when exists (select 1 from connector_keys k where k.connection_id = d.connection_id and k.client_device_id = d.client_device_id) then 1 else 0 end as "hasKeys"
    from discovered_devices d where d.organization_id = ? and d.connection_id = ? and (d.last_seen, d.client_device_id) < (?, ?)
    order by d.last_seen desc, d.client_device_id desc limit ? offset ?`,
};

const COUNT: PreparedStatement = {
  name: 'discoveredDevices.count',
  sql: () => 'select count(*) as devices from discovered_devices d where d.organization_id = ? and d.connection_id = ?',
};

const DELETE_OLDEST: PreparedStatement = {
  name: 'discoveredDevices.deleteOldest',
  sql: () => `
    delete from discovered_devices where (connection_id, client_device_id) in (
      select d.connection_id, d.client_device_id from discovered_devices d where d.organization_id = ? and d.connection_id = ? order by d.last_seen, d.client_device_id limit ?)
    returning client_device_id as "clientDeviceId"`,
};

/** Greater than the time of every uplink: a position with it is before the first item of a list, latest first. */
const AFTER_ALL_TIMES = Number.MAX_SAFE_INTEGER;

const NEXT_CONNECTION: PreparedStatement = {
  name: 'discoveredDevices.nextConnection',
  sql: () => `
    select d.connection_id as "connectionId", d.organization_id as "organizationId", c.id from (select connection_id, organization_id from discovered_devices where connection_id > ? order by connection_id limit 1) d
    left join connections c on c.id = d.connection_id`,
};

/**
 * Stores discovered devices: physical devices that sent uplinks while they were not bound to a digital device. Assumes
 * a connection of `organizationId`.
 */
export class DiscoveredDeviceRepository {
  constructor(private readonly db: Db) {}

  /**
   * Records an uplink of an unbound device at `seenAt`, Unix milliseconds. `failure`: why its payload could not be
   * read; undefined if it could. Returns whether the device is new. Must run inside a transaction.
   */
  async addUplink(
    organizationId: string,
    { connectionId, clientDeviceId }: Source,
    seenAt: number,
    { payload, failure }: { readonly payload: Readonly<Record<string, unknown>>; readonly failure: string | undefined },
  ): Promise<boolean> {
    const [row] = await this.db.all<{ uplinks: number }>(UPSERT, [
      clientDeviceId,
      seenAt,
      seenAt,
      formatPayload(payload),
      failure ?? null,
      organizationId,
      connectionId,
    ]);
    return row?.uplinks === 1;
  }

  /** Lists at most `limit` unbound devices after a position, the most recently discovered first. */
  async list(
    organizationId: string,
    connectionId: string,
    after: DiscoveryPosition | undefined,
    limit: number,
  ): Promise<DiscoveredDevice[]> {
    const { firstSeen, clientDeviceId } = after ?? { firstSeen: AFTER_ALL_TIMES, clientDeviceId: '' };
    const rows = await this.db.all<Omit<DiscoveredDevice, 'truncated'>>(LIST, [
      organizationId,
      connectionId,
      firstSeen,
      clientDeviceId,
      limit,
    ]);
    return rows.map((row) => ({ ...row, truncated: row.lastPayload.endsWith(TRUNCATION_MARK) }));
  }

  /** Counts the stored devices of a connection, including those that were bound since. */
  async count(organizationId: string, connectionId: string): Promise<number> {
    const [row] = await this.db.all<{ devices: number }>(COUNT, [organizationId, connectionId]);
    return row?.devices ?? 0;
  }

  /**
   * Lists at most `limit` devices of a connection by last uplink, latest first, including those that were bound since.
   * `after`: a position, or the number of devices to skip. `hasKeys`: the device has stored connector keys (the latest
   * values of its source paths).
   */
  async listByLastSeen(
    organizationId: string,
    connectionId: string,
    after: LastSeenPosition | number,
    limit: number,
  ): Promise<(LastSeenPosition & { readonly hasKeys: boolean })[]> {
    const isCount = typeof after === 'number';
    const position = isCount ? { lastSeen: AFTER_ALL_TIMES, clientDeviceId: '' } : after;
    const skippedCount = isCount ? after : 0;
    const rows = await this.db.all<LastSeenPosition & { hasKeys: number }>(LIST_BY_LAST_SEEN, [
      organizationId,
      connectionId,
      position.lastSeen,
      position.clientDeviceId,
      limit,
      skippedCount,
    ]);
    return rows.map((row) => ({ ...row, hasKeys: row.hasKeys === 1 }));
  }

  /** Deletes the `surplus` devices of a connection with the least recent uplinks. Returns their ids. */
  async deleteOldest(organizationId: string, connectionId: string, surplus: number): Promise<string[]> {
    const rows = await this.db.all<{ clientDeviceId: string }>(DELETE_OLDEST, [organizationId, connectionId, surplus]);
    return rows.map(({ clientDeviceId }) => clientDeviceId);
  }

  /**
   * Returns the next connection with stored devices after the id `after`, and whether the connection was deleted.
   * Covers all organizations.
   */
  async findNextConnection(
    after: string,
  ): Promise<
    { readonly organizationId: string; readonly connectionId: string; readonly isDeleted: boolean } | undefined
  > {
    const [row] = await this.db.all<{ organizationId: string; connectionId: string; id: string | null }>(
      NEXT_CONNECTION,
      [after],
    );
    return row && { organizationId: row.organizationId, connectionId: row.connectionId, isDeleted: row.id === null };
  }

  /**
   * Deletes at most `limit` devices of a connection: any device if the connection was deleted, otherwise only those
   * that were bound since. Returns how many were deleted.
   */
  async deleteObsolete(
    organizationId: string,
    { connectionId, isDeleted }: { readonly connectionId: string; readonly isDeleted: boolean },
    limit: number,
  ): Promise<number> {
    const { knex } = this.db;
    const obsolete = knex('discovered_devices as d')
      .where({ 'd.organization_id': organizationId, 'd.connection_id': connectionId })
      .limit(limit)
      .select('d.client_device_id');
    const bound = knex('physical_devices as p').whereRaw(
      'p.connection_id = d.connection_id and p.client_device_id = d.client_device_id',
    );
    if (!isDeleted) void obsolete.whereExists(bound); // adds the condition to `obsolete`
    return await knex('discovered_devices')
      .where({ organization_id: organizationId, connection_id: connectionId })
      .whereIn('client_device_id', obsolete)
      .delete();
  }
}

/** Returns the payload as JSON text; a text that is too long is truncated and ends with the truncation mark. */
function formatPayload(payload: Readonly<Record<string, unknown>>): string {
  const text = JSON.stringify(payload);
  return text.length <= MAX_PAYLOAD_LENGTH
    ? text
    : truncate(text, MAX_PAYLOAD_LENGTH - TRUNCATION_MARK.length) + TRUNCATION_MARK;
}

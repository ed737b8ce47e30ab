import type { Db, HotStatement } from '../../database';
import { cut } from '../../kernel/shortened';
import { MOST_PATHS, type Sample } from '../uplinks/flatten';

/** A physical device as a connection knows it; `clientDeviceId` as the connector normalises it. */
export interface Source {
  readonly connectionId: string;
  readonly clientDeviceId: string;
}

/** A value last seen in the uplinks of a physical device. */
export interface ConnectorKey {
  /** The source path. */
  readonly name: string;
  /** A long text is cut after LONGEST_TEXT characters and ends with an ellipsis. */
  readonly value: unknown;
  /** Unix milliseconds. */
  readonly sampledAt: number;
}

/** The most characters kept of a text, the ellipsis of a cut included: 500 paths of a device could hold 500 payloads. */
export const LONGEST_TEXT = 1024;

const LIST: HotStatement = {
  name: 'connectorKeys.list',
  sql: () => 'select k.name, k.value, k.sampled_at from connector_keys k where k.organization_id = ? and k.connection_id = ? and k.client_device_id = ?',
};

const COUNT: HotStatement = {
  name: 'connectorKeys.count',
  sql: () => 'select count(*) as paths from connector_keys k where k.organization_id = ? and k.connection_id = ? and k.client_device_id = ?',
};

const KEEP_NEWEST: HotStatement = {
  name: 'connectorKeys.keepNewest',
  // The limit stands there because SQLite knows no offset without one.
  sql: () => `
    delete from connector_keys where organization_id = ? and connection_id = ? and client_device_id = ? and name in (
      select k.name from connector_keys k where k.connection_id = ? and k.client_device_id = ? order by k.seen_at desc, k.name limit 1000000 offset ${MOST_PATHS})`,
};

const DELETE_UNBOUND: HotStatement = {
  name: 'connectorKeys.deleteUnbound',
  sql: () => `
    delete from connector_keys where organization_id = ? and connection_id = ? and client_device_id = ?
      and not exists (select 1 from physical_devices p where p.connection_id = connector_keys.connection_id and p.client_device_id = connector_keys.client_device_id)`,
};

const NEXT_CONNECTION: HotStatement = {
  name: 'connectorKeys.nextConnection',
  sql: () => `
    select k.connection_id, c.id from (select connection_id from connector_keys where connection_id > ? order by connection_id limit 1) k
    left join connections c on c.id = k.connection_id`,
};

// A statement for each power of two, filled up with nulls, so that few statements stay prepared whatever devices send.
const UPSERTS = new Map<number, HotStatement>([4, 8, 16, 32, 64, 128, 256, 512].map((rows) => [rows, upsertOf(rows)]));

function upsertOf(rows: number): HotStatement {
  const pairs = Array.from({ length: rows }, () => '(cast(? as text), cast(? as text))').join(', ');
  const isNewer = 'excluded.sampled_at >= connector_keys.sampled_at';
  return {
    name: `connectorKeys.upsert${rows}`,
    sql: () => `
      with sample (name, value) as (values ${pairs})
      insert into connector_keys (organization_id, connection_id, client_device_id, name, value, sampled_at, seen_at)
      select cast(? as text), cast(? as text), cast(? as text), sample.name, sample.value, cast(? as bigint), cast(? as bigint) from sample where sample.name is not null
      on conflict (connection_id, client_device_id, name) do update set
        value = case when ${isNewer} then excluded.value else connector_keys.value end,
        sampled_at = case when ${isNewer} then excluded.sampled_at else connector_keys.sampled_at end,
        seen_at = case when excluded.seen_at >= connector_keys.seen_at then excluded.seen_at else connector_keys.seen_at end`,
  };
}

/** What was last seen in the uplinks of physical devices, bound or not. Assumes a connection of `organizationId`. */
export class ConnectorKeyRepository {
  constructor(private readonly db: Db) {}

  /** The keys of a physical device in the order of their names; none for one that was never seen. */
  async list(organizationId: string, source: Source): Promise<ConnectorKey[]> {
    const rows = await this.db.all<{ name: string; value: string; sampled_at: number }>(LIST, [organizationId, source.connectionId, source.clientDeviceId]);
    const keys = rows.map((row) => ({ name: row.name, value: JSON.parse(row.value) as unknown, sampledAt: row.sampled_at }));
    return keys.toSorted((one, other) => (one.name < other.name ? -1 : 1)); // not in SQL: each engine has an order of its own
  }

  /**
   * Sets the values of one uplink, each only if it is not older than what is stored, and keeps the MOST_PATHS paths seen last.
   * At most MOST_PATHS samples, no path twice. Only inside a transaction.
   */
  async store(organizationId: string, source: Source, samples: readonly Sample[], sampledAt: number, seenAt: number): Promise<void> {
    if (samples.length === 0) return;
    const [before] = await this.db.all<{ paths: number }>(COUNT, [organizationId, source.connectionId, source.clientDeviceId]);
    await this.upsert(organizationId, source, samples, sampledAt, seenAt);
    if ((before?.paths ?? 0) + samples.length <= MOST_PATHS) return;
    await this.db.all(KEEP_NEWEST, [organizationId, source.connectionId, source.clientDeviceId, source.connectionId, source.clientDeviceId]);
  }

  /** Removes all keys of a physical device, unless it is bound. */
  async deleteUnbound(organizationId: string, { connectionId, clientDeviceId }: Source): Promise<void> {
    await this.db.all(DELETE_UNBOUND, [organizationId, connectionId, clientDeviceId]);
  }

  /** The first connection after `after` in the order of their ids that keys are kept of, and whether it was deleted; of all organizations. */
  async findConnection(after: string): Promise<{ readonly connectionId: string; readonly isDeleted: boolean } | undefined> {
    const [row] = await this.db.all<{ connection_id: string; id: string | null }>(NEXT_CONNECTION, [after]);
    return row && { connectionId: row.connection_id, isDeleted: row.id === null };
  }

  /** Removes at most `limit` keys of a connection that was deleted, whose id is nobody else's; returns how many they were. */
  async forget(connectionId: string, limit: number): Promise<number> {
    const { knex } = this.db;
    const some = knex('connector_keys').where('connection_id', connectionId).limit(limit).select('connection_id', 'client_device_id', 'name');
    return await knex('connector_keys').whereIn(['connection_id', 'client_device_id', 'name'], some).delete();
  }

  private async upsert(organizationId: string, source: Source, samples: readonly Sample[], sampledAt: number, seenAt: number): Promise<void> {
    // One order for all, so that two uplinks of a device never wait for each other's rows.
    const sorted = samples.toSorted(([one], [other]) => (one < other ? -1 : 1));
    const size = 2 ** Math.max(2, Math.ceil(Math.log2(sorted.length)));
    const statement = UPSERTS.get(size);
    if (!statement) throw new RangeError(`an uplink stores at most ${MOST_PATHS} samples, not ${samples.length}`);
    const pairs = Array.from({ length: size }, (_, at) => sorted[at]).flatMap((sample) => (sample ? [sample[0], JSON.stringify(shown(sample[1]))] : [null, null]));
    await this.db.all(statement, [...pairs, organizationId, source.connectionId, source.clientDeviceId, sampledAt, seenAt]);
  }
}

function shown(value: unknown): unknown {
  return typeof value === 'string' && value.length > LONGEST_TEXT ? `${cut(value, LONGEST_TEXT - 1)}…` : value;
}

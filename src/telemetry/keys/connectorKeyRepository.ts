import type { Db, PreparedStatement } from '../../database';
import { truncate } from '../../kernel/truncate';
import { MAX_PATHS, type Sample } from '../uplinks/flatten';

/** The identity of a physical device on its connection; `clientDeviceId` is normalized by the connector. */
export interface Source {
  readonly connectionId: string;
  readonly clientDeviceId: string;
}

/** The latest value at one source path of a physical device. */
export interface ConnectorKey {
  /** The source path. */
  readonly name: string;
  /** A string longer than MAX_TEXT_LENGTH characters is truncated and ends with an ellipsis. */
  readonly value: unknown;
  /** Unix milliseconds. */
  readonly sampledAt: number;
}

/**
 * The maximum length of a stored string in characters, including the ellipsis. Without it, 500 paths of a device could
 * each hold a whole payload.
 */
const MAX_TEXT_LENGTH = 1024;

const LIST: PreparedStatement = {
  name: 'connectorKeys.list',
  sql: () =>
    'select k.name, k.value, k.sampled_at from connector_keys k where k.organization_id = ? and k.connection_id = ? and k.client_device_id = ?',
};

const COUNT: PreparedStatement = {
  name: 'connectorKeys.count',
  sql: () =>
    'select count(*) as paths from connector_keys k where k.organization_id = ? and k.connection_id = ? and k.client_device_id = ?',
};

const KEEP_NEWEST: PreparedStatement = {
  name: 'connectorKeys.keepNewest',
  // SQLite does not support offset without limit.
  sql: () => `
    delete from connector_keys where organization_id = ? and connection_id = ? and client_device_id = ? and name in (
      select k.name from connector_keys k where k.connection_id = ? and k.client_device_id = ? order by k.seen_at desc, k.name limit 1000000 offset ${MAX_PATHS})`,
};

const DELETE_UNBOUND: PreparedStatement = {
  name: 'connectorKeys.deleteUnbound',
  sql: () => `
    delete from connector_keys where organization_id = ? and connection_id = ? and client_device_id = ?
      and not exists (select 1 from physical_devices p where p.connection_id = connector_keys.connection_id and p.client_device_id = connector_keys.client_device_id)`,
};

const NEXT_CONNECTION: PreparedStatement = {
  name: 'connectorKeys.nextConnection',
  sql: () => `
    select k.connection_id, c.id from (select connection_id from connector_keys where connection_id > ? order by connection_id limit 1) k
    left join connections c on c.id = k.connection_id`,
};

// The number of rows of a statement is a power of two (4, 8, … 512). So at most 8 statements stay prepared, instead of
// one for each number of paths. Unused rows are filled with nulls and store nothing.
const UPSERT_BY_ROW_COUNT = new Map<number, PreparedStatement>(
  [4, 8, 16, 32, 64, 128, 256, 512].map((rowCount) => [rowCount, buildUpsertStatement(rowCount)]),
);

/** Builds the statement that stores the values of at most `rowCount` source paths of one device. */
function buildUpsertStatement(rowCount: number): PreparedStatement {
  const pairs = Array.from({ length: rowCount }, () => '(cast(? as text), cast(? as text))').join(', ');
  const isNewer = 'excluded.sampled_at >= connector_keys.sampled_at';
  return {
    name: `connectorKeys.upsert${rowCount}`,
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

/**
 * Stores connector keys: the latest value at each source path of a physical device, bound or not. Assumes a connection
 * of `organizationId`.
 */
export class ConnectorKeyRepository {
  constructor(private readonly db: Db) {}

  /** Returns the keys of a physical device, sorted by name; an empty list for an unknown device. */
  async list(organizationId: string, source: Source): Promise<ConnectorKey[]> {
    const rows = await this.db.all<{ name: string; value: string; sampled_at: number }>(LIST, [
      organizationId,
      source.connectionId,
      source.clientDeviceId,
    ]);
    const keys = rows.map((row) => ({
      name: row.name,
      value: JSON.parse(row.value) as unknown,
      sampledAt: row.sampled_at,
    }));
    // Not in SQL, because the engines sort text differently.
    return keys.toSorted((left, right) => (left.name < right.name ? -1 : 1));
  }

  /**
   * Stores the values of one uplink, which were sampled at `sampledAt` and received at `seenAt`. A value that was
   * sampled before the stored one of its path is ignored. Only the MAX_PATHS most recently received paths of the device
   * are kept. `samples` has at most MAX_PATHS entries with distinct paths. Must run inside a transaction.
   */
  async store(
    organizationId: string,
    source: Source,
    samples: readonly Sample[],
    sampledAt: number,
    seenAt: number,
  ): Promise<void> {
    if (samples.length === 0) return;
    const [stored] = await this.db.all<{ paths: number }>(COUNT, [
      organizationId,
      source.connectionId,
      source.clientDeviceId,
    ]);
    await this.upsert(organizationId, source, samples, sampledAt, seenAt);
    if ((stored?.paths ?? 0) + samples.length <= MAX_PATHS) return;
    await this.db.all(KEEP_NEWEST, [
      organizationId,
      source.connectionId,
      source.clientDeviceId,
      source.connectionId,
      source.clientDeviceId,
    ]);
  }

  /** Deletes all keys of a physical device, unless it is bound. */
  async deleteUnbound(organizationId: string, { connectionId, clientDeviceId }: Source): Promise<void> {
    await this.db.all(DELETE_UNBOUND, [organizationId, connectionId, clientDeviceId]);
  }

  /**
   * Returns the next connection with stored keys after the id `after`, and whether the connection was deleted. Covers
   * all organizations.
   */
  async findNextConnection(
    after: string,
  ): Promise<{ readonly connectionId: string; readonly isDeleted: boolean } | undefined> {
    const [row] = await this.db.all<{ connection_id: string; id: string | null }>(NEXT_CONNECTION, [after]);
    return row && { connectionId: row.connection_id, isDeleted: row.id === null };
  }

  /** Deletes at most `limit` keys of a deleted connection. Returns how many were deleted. */
  async deleteOfConnection(connectionId: string, limit: number): Promise<number> {
    const { knex } = this.db;
    const selected = knex('connector_keys')
      .where('connection_id', connectionId)
      .limit(limit)
      .select('connection_id', 'client_device_id', 'name');
    return await knex('connector_keys').whereIn(['connection_id', 'client_device_id', 'name'], selected).delete();
  }

  /** Stores the values; for each path, the value with the later sample time is kept. */
  private async upsert(
    organizationId: string,
    source: Source,
    samples: readonly Sample[],
    sampledAt: number,
    seenAt: number,
  ): Promise<void> {
    // Rows are always written in the same order, so that two uplinks of a device cannot deadlock.
    const sorted = samples.toSorted(([left], [right]) => (left < right ? -1 : 1));
    const rowCount = 2 ** Math.max(2, Math.ceil(Math.log2(sorted.length))); // the next power of two, at least 4
    const statement = UPSERT_BY_ROW_COUNT.get(rowCount);
    if (!statement) throw new RangeError(`too many samples in an uplink: at most ${MAX_PATHS} (got ${samples.length})`);
    const pairs = sorted.flatMap(([path, value]): (string | null)[] => [path, JSON.stringify(truncateString(value))]);
    for (let row = sorted.length; row < rowCount; row++) pairs.push(null, null); // unused rows
    await this.db.all(statement, [
      ...pairs,
      organizationId,
      source.connectionId,
      source.clientDeviceId,
      sampledAt,
      seenAt,
    ]);
  }
}

/** Truncates a long string and marks it with an ellipsis; returns other values unchanged. */
function truncateString(value: unknown): unknown {
  return typeof value === 'string' && value.length > MAX_TEXT_LENGTH
    ? `${truncate(value, MAX_TEXT_LENGTH - 1)}…`
    : value;
}

import type { Db, PreparedStatement } from '../../database';

/**
 * Builds the statement that deletes some rows of a table with a connection_id; `columns`: the primary key. `cross join`
 * fixes the join order in SQLite: first the connections of the organization, then the rows of each connection.
 */
const buildRemoval = (table: string, columns: readonly string[]): PreparedStatement => ({
  name: `${table}.deleteBatch`,
  sql: () => `
    delete from ${table} where (${columns.join(', ')}) in (
      select ${columns.map((column) => `k.${column}`).join(', ')} from connections c cross join ${table} k where c.organization_id = ? and k.connection_id = c.id limit ?)
    returning 1 as one`,
});

/** The statements of this repository, in the order in which they run. */
const telemetryRemovalStatements = [
  buildRemoval('connector_keys', ['connection_id', 'client_device_id', 'name']),
  buildRemoval('discovered_devices', ['connection_id', 'client_device_id']),
  buildRemoval('uplinks_seen', ['connection_id', 'uplink_id']),
];

/** Deletes connector keys, discovered devices and uplink ids when their organization is removed. */
export class TelemetryRemovalRepository {
  constructor(private readonly db: Db) {}

  /** Deletes at most `max` rows of the first table that has any. Returns how many were deleted; 0: nothing is left. */
  async deleteBatch(organizationId: string, max: number): Promise<number> {
    for (const statement of telemetryRemovalStatements) {
      const { length } = await this.db.all(statement, [organizationId, max]);
      if (length > 0) return length;
    }
    return 0;
  }
}

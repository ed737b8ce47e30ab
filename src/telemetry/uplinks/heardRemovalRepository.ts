import type { Db, HotStatement } from '../../database';

// `cross join` lets SQLite keep to this order: first the connections of the organization, then what is kept of each.
const ofConnections = (table: string, columns: readonly string[]): HotStatement => ({
  name: `${table}.removeSome`,
  sql: () => `
    delete from ${table} where (${columns.join(', ')}) in (
      select ${columns.map((column) => `k.${column}`).join(', ')} from connections c cross join ${table} k where c.organization_id = ? and k.connection_id = c.id limit ?)
    returning 1 as one`,
});

/** The statements of this repository, for the test of their plans. */
export const heardRemovalStatements = [
  ofConnections('connector_keys', ['connection_id', 'client_device_id', 'name']),
  ofConnections('discovered_devices', ['connection_id', 'client_device_id']),
  ofConnections('uplinks_seen', ['connection_id', 'uplink_id']),
];

/** What was heard on the connections of an organization that goes: the last values, who sent, and the ids of uplinks. */
export class HeardRemovalRepository {
  constructor(private readonly db: Db) {}

  /** Removes at most `most` rows of one kind; how many. */
  async removeSome(organizationId: string, most: number): Promise<number> {
    for (const statement of heardRemovalStatements) {
      const { length } = await this.db.all(statement, [organizationId, most]);
      if (length > 0) return length;
    }
    return 0;
  }
}

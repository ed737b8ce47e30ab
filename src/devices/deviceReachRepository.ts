import type { Db } from '../database';
import type { DeviceReach } from '../kernel/reach';

// PostgreSQL and SQLite both take more values in one statement.
const MOST_VALUES = 500;

/** Tells which devices lie inside the reach of a limited key, now. Assumes a caller allowed to act in `organizationId`. */
export class DeviceReachRepository {
  constructor(private readonly db: Db) {}

  /** Those of these devices that are named, or bound to a connection that is. Of a device that is deleted only the name counts. */
  async inside(organizationId: string, reach: DeviceReach, deviceIds: Iterable<string>): Promise<ReadonlySet<string>> {
    const inside = new Set<string>();
    const others: string[] = [];
    for (const id of deviceIds) {
      if (reach.ids.has(id)) inside.add(id);
      else others.push(id);
    }
    if (reach.connectionIds.size === 0) return inside;
    for (let at = 0; at < others.length; at += MOST_VALUES) {
      const some = others.slice(at, at + MOST_VALUES);
      const rows: { id: string }[] = await this.db
        .knex('physical_devices as p')
        .where('p.organization_id', organizationId)
        .whereIn('p.device_id', some)
        .whereIn('p.connection_id', [...reach.connectionIds])
        .select({ id: 'p.device_id' });
      for (const { id } of rows) inside.add(id);
    }
    return inside;
  }
}

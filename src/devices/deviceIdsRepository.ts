import type { Database, Db } from '../database';

/** Tells which devices there are. */
export class DeviceIdsRepository {
  constructor(private readonly db: Db) {}

  /** Those of the ids that the organization has. */
  async known(organizationId: string, ids: readonly string[]): Promise<ReadonlySet<string>> {
    // With the bare column SQLite would rather read all devices of the organization than look for many ids.
    const query = this.db.knex('digital_devices as d').whereRaw("d.organization_id || '' = ?", [organizationId]).whereIn('d.id', [...ids]);
    const rows = await query.select<{ id: string }[]>('d.id');
    return new Set(rows.map(({ id }) => id));
  }
}

/** How to ask which of some ids are no devices of an organization. */
export function missingDevices(database: Database): (organizationId: string, ids: readonly string[]) => Promise<string[]> {
  const devices = new DeviceIdsRepository(database.db);
  return async (organizationId, ids) => {
    const known = await devices.known(organizationId, ids);
    return ids.filter((id) => !known.has(id));
  };
}

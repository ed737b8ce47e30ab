import type { Db } from './db';

/** Tells which rows of a table there are, by their ids. Assumes a caller allowed to act in `organizationId`. */
export class IdsRepository {
  constructor(
    private readonly db: Db,
    private readonly table: 'digital_devices' | 'commands',
  ) {}

  /** Those of the ids that the organization does not have, in their order. */
  async missing(organizationId: string, ids: readonly string[]): Promise<string[]> {
    // With the bare column SQLite would rather read all rows of the organization than look for many ids.
    const query = this.db.knex(`${this.table} as t`).whereRaw("t.organization_id || '' = ?", [organizationId]).whereIn('t.id', [...ids]);
    const known = new Set(await query.pluck<string[]>('t.id'));
    return ids.filter((id) => !known.has(id));
  }
}

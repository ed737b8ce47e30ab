import type { Db } from './db';

/** Checks which rows of a table exist, by their ids. Assumes a caller allowed to act in `organizationId`. */
export class IdsRepository {
  constructor(
    private readonly db: Db,
    private readonly table: 'digital_devices' | 'commands',
  ) {}

  /** Returns the ids that the organization does not have, in the order of `ids`. */
  async findMissing(organizationId: string, ids: readonly string[]): Promise<string[]> {
    // The `|| ''` hides the column from the index of organizations. With the bare column, SQLite would read all rows of
    // the organization instead of searching for the ids.
    const query = this.db
      .knex(`${this.table} as t`)
      .whereRaw("t.organization_id || '' = ?", [organizationId])
      .whereIn('t.id', [...ids]);
    const existing = new Set(await query.pluck<string[]>('t.id'));
    return ids.filter((id) => !existing.has(id));
  }
}

import type { Db } from '../database';

/** Deletes the sensor templates and normalized keys of a deleted organization, after its sensors. */
export class TemplateRemovalRepository {
  constructor(private readonly db: Db) {}

  /** Deletes at most `max` records and returns how many were deleted. */
  async deleteBatch(organizationId: string, max: number): Promise<number> {
    const removed = await this.deleteFrom('sensor_templates', organizationId, max);
    // Keys only when no template is left, because templates refer to them.
    return removed > 0 ? removed : await this.deleteFrom('normalized_keys', organizationId, max);
  }

  /** Deletes at most `max` of the oldest records of an organization from a table. */
  private async deleteFrom(table: string, owner: string, max: number): Promise<number> {
    const batch = this.db
      .knex(`${table} as r`)
      .where('r.owner', owner)
      .orderBy(['r.created_at', 'r.id'])
      .limit(max)
      .select('r.id');
    return await this.db.knex(table).whereIn('id', batch).delete();
  }
}

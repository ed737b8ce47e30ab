import type { Db } from '../database';

/** The sensor templates and normalized keys of an organization that goes, whose sensors are gone. */
export class TemplateRemovalRepository {
  constructor(private readonly db: Db) {}

  /** Removes at most `most` of them; how many. */
  async removeSome(organizationId: string, most: number): Promise<number> {
    const removed = await this.remove('sensor_templates', organizationId, most);
    return removed > 0 ? removed : await this.remove('normalized_keys', organizationId, most); // templates refer to keys
  }

  private async remove(table: string, owner: string, most: number): Promise<number> {
    const some = this.db.knex(`${table} as r`).where('r.owner', owner).orderBy(['r.created_at', 'r.id']).limit(most).select('r.id');
    return await this.db.knex(table).whereIn('id', some).delete();
  }
}

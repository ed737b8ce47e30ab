import type { Db } from '../database';

/** Deletes the dashboards of a deleted organization. */
export class DashboardRemovalRepository {
  constructor(private readonly db: Db) {}

  /** Deletes at most `max` rows and returns how many were deleted. */
  async deleteBatch(organizationId: string, max: number): Promise<number> {
    const { knex } = this.db;
    // Revisions first, because they are large; the widgets of a dashboard are few.
    const revisions = knex('dashboards as d')
      .join('dashboard_revisions as r', 'r.dashboard_id', 'd.id')
      .where('d.organization_id', organizationId)
      .limit(max)
      .select('r.dashboard_id', 'r.revision');
    const removedRevisions = await knex('dashboard_revisions')
      .whereIn(['dashboard_id', 'revision'], revisions)
      .delete();
    if (removedRevisions > 0) return removedRevisions;
    const dashboards = knex('dashboards as d').where('d.organization_id', organizationId).limit(max).select('d.id');
    const removed = await knex('dashboards').whereIn('id', dashboards).delete();
    return removed > 0 ? removed : await knex('starter_dashboards').where('organization_id', organizationId).delete();
  }
}

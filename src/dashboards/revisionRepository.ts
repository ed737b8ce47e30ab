import type { Knex } from 'knex';
import type { Db } from '../database';
import { MAX_REVISIONS, type DashboardContent, type WidgetInput } from './dashboard';

/** A stored revision without its content. */
export interface Revision {
  readonly revision: number;
  readonly userId: string;
  readonly message: string;
  /** Unix milliseconds. */
  readonly createdAt: number;
}

/** Stores the last MAX_REVISIONS contents of each dashboard. */
export class RevisionRepository {
  constructor(private readonly db: Db) {}

  /** Adds a revision, and deletes the oldest one if there are too many. `content`: JSON. */
  async add(organizationId: string, dashboardId: string, revision: Revision, content: string): Promise<void> {
    await this.db.knex('dashboard_revisions').insert({
      organization_id: organizationId,
      dashboard_id: dashboardId,
      revision: revision.revision,
      content,
      user_id: revision.userId,
      message: revision.message,
      created_at: revision.createdAt,
    });
    const kept = await this.query(organizationId, dashboardId)
      .orderBy('revision', 'desc')
      .limit(MAX_REVISIONS)
      .pluck<number[]>('revision');
    await this.query(organizationId, dashboardId)
      .where('revision', '<', kept.at(-1) ?? 0)
      .delete();
  }

  /** Returns the stored revisions, newest first. */
  async list(organizationId: string, dashboardId: string): Promise<Revision[]> {
    return await this.query(organizationId, dashboardId).orderBy('revision', 'desc').select<Revision[]>({
      revision: 'revision',
      userId: 'user_id',
      message: 'message',
      createdAt: 'created_at',
    });
  }

  /** Returns the content of a stored revision; undefined if it is not stored. */
  async find(
    organizationId: string,
    dashboardId: string,
    revision: number,
  ): Promise<DashboardContent<WidgetInput> | undefined> {
    const row = await this.query(organizationId, dashboardId)
      .where({ revision })
      .first<{ content: string } | undefined>('content');
    return row && (JSON.parse(row.content) as DashboardContent<WidgetInput>);
  }

  private query(organizationId: string, dashboardId: string): Knex.QueryBuilder {
    return this.db.knex('dashboard_revisions').where({ organization_id: organizationId, dashboard_id: dashboardId });
  }
}

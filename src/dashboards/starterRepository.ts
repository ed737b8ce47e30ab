import type { Db } from '../database';

/** A thing that gets a starter dashboard: a connection, or a device model. */
interface StarterSubject {
  readonly id: string;
  readonly name: string;
}

/** A starter dashboard that was created, even if its dashboard was deleted later. */
interface CreatedStarter {
  readonly starterKey: string;
  readonly dashboardId: string;
}

/** Stores which starter dashboards were created, and lists what gets one. */
export class StarterRepository {
  constructor(private readonly db: Db) {}

  /** Returns all starter dashboards that were created. */
  async list(organizationId: string): Promise<CreatedStarter[]> {
    return await this.db
      .knex('starter_dashboards')
      .where('organization_id', organizationId)
      .select<CreatedStarter[]>({ starterKey: 'starter_key', dashboardId: 'dashboard_id' });
  }

  /** Returns the id of the dashboard that was created for a starter key; undefined if there was none. */
  async findDashboardId(organizationId: string, starterKey: string): Promise<string | undefined> {
    const row = await this.db
      .knex('starter_dashboards')
      .where({ organization_id: organizationId, starter_key: starterKey })
      .first<{ dashboard_id: string } | undefined>('dashboard_id');
    return row?.dashboard_id;
  }

  /** Notes which dashboard was created for a starter key. */
  async set(organizationId: string, { starterKey, dashboardId }: CreatedStarter): Promise<void> {
    await this.db
      .knex('starter_dashboards')
      .insert({ organization_id: organizationId, starter_key: starterKey, dashboard_id: dashboardId })
      .onConflict(['organization_id', 'starter_key'])
      .merge(['dashboard_id']);
  }

  /** Returns the connections, oldest first, at most `limit`. */
  async listConnections(organizationId: string, limit: number): Promise<StarterSubject[]> {
    return await this.db
      .knex('connections')
      .where('organization_id', organizationId)
      .orderBy(['created_at', 'id'])
      .limit(limit)
      .select<StarterSubject[]>('id', 'name');
  }

  /** Returns the device models that devices of the organization have, by name, at most `limit`. */
  async listModels(organizationId: string, limit: number): Promise<StarterSubject[]> {
    // Starts from the models, because there are far fewer than devices; an index finds a device of each profile.
    const rows = await this.db
      .knex('device_models as m')
      .whereExists(
        this.db
          .knex('physical_devices as p')
          .join('device_profiles as f', 'f.id', 'p.profile_id')
          .where('p.organization_id', organizationId)
          .whereRaw('f.device_model_id = m.id')
          .select('p.id'),
      )
      .orderBy(['m.brand_name', 'm.model_name', 'm.id'])
      .limit(limit)
      .select<{ id: string; brand: string; model: string }[]>({
        id: 'm.id',
        brand: 'm.brand_name',
        model: 'm.model_name',
      });
    return rows.map(({ id, brand, model }) => ({ id, name: `${brand} ${model}` }));
  }
}

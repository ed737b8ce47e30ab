import type { Knex } from 'knex';
import type { Db } from '../database';
import type { SiteDevice } from './siteRepository';

/** A thing that gets a starter dashboard: a connection, or a device model. */
export interface StarterSubject {
  readonly id: string;
  readonly name: string;
}

/** A starter dashboard that was created, even if its dashboard was deleted later. */
export interface CreatedStarter {
  readonly starterKey: string;
  readonly dashboardId: string;
}

/** Stores which starter dashboards were created, and reads what they are made of. */
export class StarterRepository {
  constructor(private readonly db: Db) {}

  /** Returns all starter dashboards that were created. */
  async list(organizationId: string): Promise<CreatedStarter[]> {
    return await this.db
      .knex('starter_dashboards')
      .where('organization_id', organizationId)
      .select<CreatedStarter[]>({ starterKey: 'starter_key', dashboardId: 'dashboard_id' });
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

  /** Returns the oldest devices, at most `limit`. `connectionId`: only devices that are bound to it. */
  async listDevices(organizationId: string, limit: number, connectionId?: string): Promise<SiteDevice[]> {
    if (connectionId !== undefined)
      return (await this.db
        .knex('physical_devices as p')
        .join('digital_devices as d', 'd.id', 'p.device_id')
        .where({ 'p.connection_id': connectionId, 'd.organization_id': organizationId })
        .orderBy(['p.connection_id', 'p.client_device_id'])
        .limit(limit)
        .select({ id: 'd.id', name: 'd.name', clientDeviceId: 'p.client_device_id' })) as SiteDevice[];
    return (await this.db
      .knex('digital_devices as d')
      .leftJoin('physical_devices as p', 'p.device_id', 'd.id')
      .where('d.organization_id', organizationId)
      .orderBy(['d.created_at', 'd.id'])
      .limit(limit)
      .select({ id: 'd.id', name: 'd.name', clientDeviceId: 'p.client_device_id' })) as SiteDevice[];
  }

  /** Returns the device models that devices of the organization have, by name, at most `limit`. */
  async listModels(organizationId: string, limit: number): Promise<StarterSubject[]> {
    // Starts from the models, because there are far fewer than devices; an index finds a device of each profile.
    const rows = await this.db
      .knex('device_models as m')
      .whereExists(this.queryBound(organizationId).whereRaw('f.device_model_id = m.id').select('p.id'))
      .orderBy(['m.brand_name', 'm.model_name', 'm.id'])
      .limit(limit)
      .select<{ id: string; brand: string; model: string }[]>({
        id: 'm.id',
        brand: 'm.brand_name',
        model: 'm.model_name',
      });
    return rows.map(({ id, brand, model }) => ({ id, name: `${brand} ${model}` }));
  }

  /** Returns devices of a model, at most `limit`. */
  async listDevicesOfModel(organizationId: string, modelId: string, limit: number): Promise<SiteDevice[]> {
    return (await this.queryBound(organizationId)
      .join('digital_devices as d', 'd.id', 'p.device_id')
      .where('f.device_model_id', modelId)
      .limit(limit)
      .select({ id: 'd.id', name: 'd.name', clientDeviceId: 'p.client_device_id' })) as SiteDevice[];
  }

  /** Selects the physical devices `p` with their profiles `f`. */
  private queryBound(organizationId: string): Knex.QueryBuilder {
    return this.db
      .knex('physical_devices as p')
      .join('device_profiles as f', 'f.id', 'p.profile_id')
      .where('p.organization_id', organizationId);
  }
}

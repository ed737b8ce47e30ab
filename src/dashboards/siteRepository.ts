import { setImmediate as yieldToEventLoop } from 'node:timers/promises';
import type { Knex } from 'knex';
import { normalizeForSearch, type Db } from '../database';
import type { ValueType } from '../sensorTemplates';
import { splitIntoBatches } from '../kernel/splitIntoBatches';
import { readInParts } from './readInParts';

/** A sensor of a device. */
export interface SiteSensor {
  readonly sensorId: string;
  readonly deviceId: string;
  /** The normalized key of its template. */
  readonly keyName: string;
  readonly valueType: ValueType;
  /** A UCUM code, or empty. */
  readonly unit: string;
}

/** A device, as dashboards name it. */
export interface SiteDevice {
  readonly id: string;
  readonly name: string;
  /** Null if the device is not bound. */
  readonly clientDeviceId: string | null;
}

// Each name is searched on its own. SQLite reads all names of the organization for a name of one or two characters.
const MAX_NAMES = 20;

/** Reads the devices and sensors that dashboards refer to. */
export class SiteRepository {
  constructor(private readonly db: Db) {}

  /** Returns the sensors with these ids. */
  async findSensors(organizationId: string, ids: readonly string[]): Promise<SiteSensor[]> {
    return await readInParts(
      ids,
      async (part) => (await this.querySensors(organizationId).whereIn('s.id', part)) as SiteSensor[],
    );
  }

  /** Returns the sensors of these devices, in the order of each device. */
  async listSensorsOfDevices(organizationId: string, deviceIds: readonly string[]): Promise<SiteSensor[]> {
    return await readInParts(
      deviceIds,
      async (part) =>
        (await this.querySensors(organizationId)
          .whereIn('s.device_id', part)
          .orderBy(['s.device_id', 's.position'])) as SiteSensor[],
    );
  }

  /** Returns the devices with these ids. */
  async findDevices(organizationId: string, ids: readonly string[]): Promise<SiteDevice[]> {
    return await readInParts(
      ids,
      async (part) => (await this.queryDevicesById(organizationId).whereIn('d.id', part)) as SiteDevice[],
    );
  }

  /** Returns the devices that are bound to physical devices with these ids, on any connection, by clientDeviceId. */
  async findByClientDeviceIds(
    organizationId: string,
    clientDeviceIds: readonly string[],
  ): Promise<Map<string, SiteDevice[]>> {
    const connections = this.db.knex('connections as c').where('c.organization_id', organizationId).select('c.id');
    const devices = await readInParts(
      clientDeviceIds,
      async (part) =>
        (await this.queryDevices()
          .whereIn('p.connection_id', connections)
          .whereIn('p.client_device_id', part)) as SiteDevice[],
    );
    return Map.groupBy(devices, ({ clientDeviceId }) => clientDeviceId ?? '');
  }

  /** Returns the devices with these names (case-insensitive), by normalized name; at most two of each. */
  async findByNames(organizationId: string, names: readonly string[]): Promise<Map<string, SiteDevice[]>> {
    const { knex, dialect } = this.db;
    // The search index finds the candidates of one name.
    const queryName = (folded: string): Knex.QueryBuilder => {
      const named = this.queryDevices()
        .where({ 'd.organization_id': organizationId, 'd.name_folded': folded })
        .limit(2);
      return knex.from(dialect.whereNameContains(named, folded).as('n')).select('*');
    };
    const devices: SiteDevice[] = [];
    for (const part of splitIntoBatches([...new Set(names.map(normalizeForSearch))], MAX_NAMES)) {
      const [first, ...others] = part.map(queryName) as [Knex.QueryBuilder, ...Knex.QueryBuilder[]];
      devices.push(...((await first.unionAll(others)) as SiteDevice[]));
      await yieldToEventLoop(); // a part takes a few milliseconds
    }
    return Map.groupBy(devices, ({ name }) => normalizeForSearch(name));
  }

  /** Returns the oldest devices, at most `limit`. */
  async listDevices(organizationId: string, limit: number): Promise<SiteDevice[]> {
    return (await this.queryDevices()
      .where('d.organization_id', organizationId)
      .orderBy(['d.created_at', 'd.id'])
      .limit(limit)) as SiteDevice[];
  }

  /** Returns the devices that are bound to a connection, by clientDeviceId, at most `limit`. */
  async listDevicesOfConnection(organizationId: string, connectionId: string, limit: number): Promise<SiteDevice[]> {
    return (await this.queryDevices()
      .where({ 'p.connection_id': connectionId, 'd.organization_id': organizationId })
      .orderBy(['p.connection_id', 'p.client_device_id'])
      .limit(limit)) as SiteDevice[];
  }

  /** Returns the devices of a model that were bound first, at most `limit`. */
  async listDevicesOfModel(organizationId: string, modelId: string, limit: number): Promise<SiteDevice[]> {
    const firstBound = this.db
      .knex('physical_devices as b')
      .join('device_profiles as f', 'f.id', 'b.profile_id')
      .where({ 'b.organization_id': organizationId, 'f.device_model_id': modelId })
      .orderBy('b.id')
      .limit(limit)
      .select('b.device_id');
    return (await this.queryDevices().whereIn('d.id', firstBound).orderBy('p.id')) as SiteDevice[];
  }

  /** Returns the commands of these devices. */
  async listCommands(
    organizationId: string,
    deviceIds: readonly string[],
  ): Promise<{ deviceId: string; foldedName: string }[]> {
    return await readInParts(
      deviceIds,
      async (part) =>
        await this.db
          .knex('commands as c')
          .where('c.organization_id', organizationId)
          .whereIn('c.device_id', part)
          .select<{ deviceId: string; foldedName: string }[]>({ deviceId: 'c.device_id', foldedName: 'c.name_folded' }),
    );
  }

  /** Returns the normalized names of those of these connections (case-insensitive) that exist. */
  async findConnectionNames(organizationId: string, names: readonly string[]): Promise<string[]> {
    return await readInParts(
      names.map(normalizeForSearch),
      async (part) =>
        await this.db
          .knex('connections as c')
          .where('c.organization_id', organizationId)
          .whereIn('c.name_folded', part)
          .pluck<string[]>('c.name_folded'),
    );
  }

  private querySensors(organizationId: string): Knex.QueryBuilder {
    return this.db
      .knex('sensors as s')
      .join('sensor_templates as t', 't.id', 's.sensor_template_id')
      .join('normalized_keys as k', 'k.id', 't.key_name_id')
      .where('s.organization_id', organizationId)
      .select({
        sensorId: 's.id',
        deviceId: 's.device_id',
        keyName: 'k.name',
        valueType: 't.value_type',
        unit: 't.unit_measurement_id',
      });
  }

  private queryDevicesById(organizationId: string): Knex.QueryBuilder {
    // The `|| ''` hides the column from the index of organizations, whose rows SQLite would all read (see
    // IdsRepository).
    return this.queryDevices().whereRaw("d.organization_id || '' = ?", [organizationId]);
  }

  private queryDevices(): Knex.QueryBuilder {
    return this.db
      .knex('digital_devices as d')
      .leftJoin('physical_devices as p', 'p.device_id', 'd.id')
      .select({ id: 'd.id', name: 'd.name', clientDeviceId: 'p.client_device_id' });
  }
}

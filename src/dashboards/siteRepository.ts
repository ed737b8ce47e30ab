import type { Knex } from 'knex';
import { normalizeForSearch, type Db } from '../database';
import type { ValueType } from '../sensorTemplates';
import { splitIntoBatches } from '../kernel/splitIntoBatches';

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

// Queries with many ids run in parts, because a statement has a limited number of parameters.
const MAX_IDS = 500;

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

  /** Returns the devices that are bound to a physical device with this id, on any connection; at most two. */
  async findByClientDeviceId(organizationId: string, clientDeviceId: string): Promise<SiteDevice[]> {
    return (await this.queryDevices()
      .whereIn(
        'p.connection_id',
        this.db.knex('connections as c').where('c.organization_id', organizationId).select('c.id'),
      )
      .where('p.client_device_id', clientDeviceId)
      .limit(2)) as SiteDevice[];
  }

  /** Returns the devices with this name (case-insensitive); at most two. */
  async findByName(organizationId: string, name: string): Promise<SiteDevice[]> {
    const folded = normalizeForSearch(name);
    const query = this.queryDevices()
      .where('d.organization_id', organizationId)
      .where('d.name_folded', folded)
      .limit(2);
    // The search index finds the candidates.
    return (await this.db.dialect.whereNameContains(query, folded)) as SiteDevice[];
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
    // The `|| ''` hides the column from the index of organizations, whose rows SQLite would all read (see IdsRepository).
    return this.queryDevices().whereRaw("d.organization_id || '' = ?", [organizationId]);
  }

  private queryDevices(): Knex.QueryBuilder {
    return this.db
      .knex('digital_devices as d')
      .leftJoin('physical_devices as p', 'p.device_id', 'd.id')
      .select({ id: 'd.id', name: 'd.name', clientDeviceId: 'p.client_device_id' });
  }
}

async function readInParts<Row>(ids: readonly string[], read: (part: string[]) => Promise<Row[]>): Promise<Row[]> {
  const rows: Row[] = [];
  for (const part of splitIntoBatches(ids, MAX_IDS)) rows.push(...(await read([...part])));
  return rows;
}

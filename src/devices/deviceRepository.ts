import { normalizeForSearch, type Db, type Dialect, type PreparedStatement } from '../database';
import { notFound } from '../kernel/errors';
import { isDeviceInScope, type DeviceScope } from '../kernel/resourceScope';
import { parseDeviceImages, getDeviceImagesSql } from '../media';
import {
  computeSeenHour,
  type DataSendingInterval,
  type Device,
  type IntervalUnit,
  type Sensor,
  type SensorMapping,
} from './device';
import { ALL_DEVICES, getBoundCounterName, DeviceCounterRepository } from './deviceCounterRepository';
import { parseDecoderWarnings, parseFailure } from './uplinkReport';

/** What a device has when it is created. */
type DeviceRecord = Pick<Device, 'id' | 'name' | 'createdAt'>;

interface DeviceRow {
  readonly id: string;
  readonly organization_id: string;
  readonly name: string;
  readonly last_seen_at: number | null;
  readonly interval_unit: IntervalUnit | null;
  readonly interval_value: number | null;
  readonly revision: number;
  readonly created_at: number;
  readonly updated_at: number;
  readonly physical_id: string | null;
  readonly client_device_id: string;
  readonly connection_id: string;
  readonly configuration: string;
  /** JSON array of numbers. */
  readonly uplink_gaps: string;
  readonly reported_class: string | null;
  readonly network_decodes: number | null;
  /** JSON: UplinkFailureRecord and DecoderWarnings. */
  readonly uplink_failure: string | null;
  readonly decoder_warnings: string | null;
  readonly profile_interval: number | null;
  readonly bound_at: number;
  readonly binding_updated_at: number;
  /** JSON arrays of domain objects. */
  readonly sensors: string;
  readonly mappings: string;
  /** Input of parseDeviceImages. */
  readonly images: string;
}

const GET: PreparedStatement = {
  name: 'devices.get',
  sql: (dialect) => `
    select d.id, d.organization_id, d.name, d.last_seen_at, d.interval_unit, d.interval_value, d.revision, d.created_at, d.updated_at,
      p.id as physical_id, p.client_device_id, p.connection_id, p.configuration, p.uplink_gaps, p.reported_class, p.network_decodes, p.uplink_failure, p.decoder_warnings, p.created_at as bound_at, p.updated_at as binding_updated_at,
      f.uplink_interval as profile_interval,
      ${getSensorsSql(dialect)} as sensors, ${getMappingsSql(dialect)} as mappings, ${getDeviceImagesSql(dialect)} as images
    from digital_devices d left join physical_devices p on p.device_id = d.id left join device_profiles f on f.id = p.profile_id
    where d.organization_id = ? and d.id = ?`,
};

const VERSION: PreparedStatement = {
  name: 'devices.version',
  sql: () => 'select d.revision, d.last_seen_at from digital_devices d where d.organization_id = ? and d.id = ?',
};

const LOCK: PreparedStatement = {
  name: 'devices.lock',
  sql: (dialect) => `select d.id from digital_devices d where d.organization_id = ? and d.id = ? ${dialect.forUpdate}`,
};

/** Returns the SQL of the sensors of the device `d` as a JSON array of Sensor. */
function getSensorsSql(dialect: Dialect): string {
  const sensor = dialect.jsonObject({
    id: 's.id',
    sensorTemplateId: 's.sensor_template_id',
    createdAt: 's.created_at',
    updatedAt: 's.updated_at',
  });
  return dialect.jsonArray(sensor, 'sensors s where s.device_id = d.id', 's.position');
}

/** Returns the SQL of the mappings of the device `d` as a JSON array of SensorMapping. */
function getMappingsSql(dialect: Dialect): string {
  const mapping = dialect.jsonObject({
    id: 'm.id',
    sensorId: 'm.sensor_id',
    sourcePath: 'm.source_path',
    createdAt: 'm.created_at',
    updatedAt: 'm.updated_at',
  });
  return dialect.jsonArray(mapping, 'sensor_mappings m where m.device_id = d.id', 'm.position');
}

/** Stores digital devices. Assumes validated input and a caller who may act in `organizationId`. */
export class DeviceRepository {
  private readonly counters: DeviceCounterRepository;

  constructor(private readonly db: Db) {
    this.counters = new DeviceCounterRepository(db);
  }

  /** Returns the whole device. Throws `device_not_found`, also for a device outside the scope of a restricted key. */
  async get(organizationId: string, id: string, deviceScope?: DeviceScope): Promise<Device> {
    const device = await this.find(organizationId, id);
    if (!device || !isDeviceInScope(deviceScope, id, device.physicalDevice?.connectionId)) throw notFound('device', id);
    return device;
  }

  /** Reads the whole device with binding, mappings, sensors and images in one statement. */
  async find(organizationId: string, id: string): Promise<Device | undefined> {
    const [row] = await this.db.all<DeviceRow>(GET, [organizationId, id]);
    return row && deviceFromRow(row);
  }

  /** Whether the device has not changed since it was read. */
  async isUnchanged(
    organizationId: string,
    id: string,
    { revision, lastSeenAt }: Pick<Device, 'revision' | 'lastSeenAt'>,
  ): Promise<boolean> {
    const [row] = await this.db.all<Pick<DeviceRow, 'revision' | 'last_seen_at'>>(VERSION, [organizationId, id]);
    return row?.revision === revision && (row.last_seen_at ?? undefined) === lastSeenAt;
  }

  /** Locks the device until the end of the transaction, if there is one. */
  async lockRow(organizationId: string, id: string): Promise<void> {
    await this.db.all(LOCK, [organizationId, id]);
  }

  /**
   * Returns and locks the whole device until the end of the transaction. With `deviceScope` it checks again whether the
   * device is still in the scope of a restricted key. Throws like `get`.
   */
  async lock(organizationId: string, id: string, deviceScope?: DeviceScope): Promise<Device> {
    await this.lockRow(organizationId, id);
    return await this.get(organizationId, id, deviceScope);
  }

  /** Adds a device, and counts it. Its binding, sensors and images are added separately. */
  async create(organizationId: string, device: DeviceRecord): Promise<void> {
    await this.db.knex('digital_devices').insert({
      id: device.id,
      organization_id: organizationId,
      name: device.name,
      name_folded: normalizeForSearch(device.name),
      revision: 1,
      seen_hour: computeSeenHour(device.createdAt), // until it is seen, the hour of its creation
      created_at: device.createdAt,
      updated_at: device.createdAt,
    });
    await this.counters.change(organizationId, ALL_DEVICES, 1);
  }

  /** Returns the ids of at most `limit` devices, oldest first. */
  async listOldestIds(organizationId: string, limit: number): Promise<string[]> {
    const rows: { id: string }[] = await this.db
      .knex('digital_devices as d')
      .where('d.organization_id', organizationId)
      .orderBy(['d.created_at', 'd.id'])
      .limit(limit)
      .select('d.id');
    return rows.map(({ id }) => id);
  }

  /** Sets name and interval, and increments the revision. */
  async update(
    organizationId: string,
    id: string,
    fields: { name: string; dataSendingInterval: DataSendingInterval | undefined },
    now: number,
  ): Promise<void> {
    await this.queryDevice(organizationId, id).update({
      name: fields.name,
      name_folded: normalizeForSearch(fields.name),
      interval_unit: fields.dataSendingInterval?.unit ?? null,
      interval_value: fields.dataSendingInterval?.value ?? null,
      revision: this.db.knex.raw('revision + 1'),
      updated_at: now,
    });
  }

  /** Increments the revision after a change of the device's sensors or mappings. */
  async incrementRevision(organizationId: string, id: string, now: number): Promise<void> {
    await this.queryDevice(organizationId, id).update({ revision: this.db.knex.raw('revision + 1'), updated_at: now });
  }

  /** Deletes a locked device and everything that belongs to it. */
  async delete(organizationId: string, { id, physicalDevice }: Pick<Device, 'id' | 'physicalDevice'>): Promise<void> {
    await this.queryDevice(organizationId, id).delete();
    await this.counters.change(organizationId, ALL_DEVICES, -1);
    if (physicalDevice)
      await this.counters.change(organizationId, getBoundCounterName(physicalDevice.connectionId), -1);
  }

  private queryDevice(organizationId: string, id: string) {
    return this.db.knex('digital_devices as d').where('d.organization_id', organizationId).where('d.id', id);
  }
}

function deviceFromRow(row: DeviceRow): Device {
  return {
    id: row.id,
    organizationId: row.organization_id,
    name: row.name,
    lastSeenAt: row.last_seen_at ?? undefined,
    physicalDevice: row.physical_id === null ? undefined : physicalDeviceFromRow(row, row.physical_id),
    sensors: JSON.parse(row.sensors) as Sensor[],
    images: parseDeviceImages(row.images),
    dataSendingInterval:
      row.interval_unit && row.interval_value ? { unit: row.interval_unit, value: row.interval_value } : undefined,
    createdAt: row.created_at,
    updatedAt: row.updated_at,
    revision: row.revision,
  };
}

/** Converts the columns of the binding of a device. `id`: that of the physical device. */
function physicalDeviceFromRow(row: DeviceRow, id: string): Device['physicalDevice'] {
  return {
    id,
    clientDeviceId: row.client_device_id,
    connectionId: row.connection_id,
    configuration: JSON.parse(row.configuration) as Record<string, unknown>,
    sensorMappings: JSON.parse(row.mappings) as SensorMapping[],
    uplinkGaps: JSON.parse(row.uplink_gaps) as number[],
    reportedClass: row.reported_class ?? undefined,
    networkDecodes: row.network_decodes === null ? undefined : row.network_decodes === 1,
    lastUplinkFailure: parseFailure(row.uplink_failure),
    lastDecoderWarnings: parseDecoderWarnings(row.decoder_warnings),
    profileInterval: row.profile_interval ?? undefined,
    createdAt: row.bound_at,
    updatedAt: row.binding_updated_at,
  };
}

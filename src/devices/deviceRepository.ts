import { foldName, type Db, type Dialect, type HotStatement } from '../database';
import { notFound } from '../kernel/errors';
import { isDeviceInside, type DeviceReach } from '../kernel/reach';
import { imagesFromJson, imagesOfDeviceSql } from '../media';
import { seenHour, type DataSendingInterval, type Device, type IntervalUnit, type Sensor, type SensorMapping } from './device';
import { ALL_DEVICES, boundTo, DeviceCounterRepository } from './deviceCounterRepository';

/** What a device is made of beside its binding, sensors, mappings and pictures. */
export type DeviceRecord = Pick<Device, 'id' | 'name' | 'createdAt'>;

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
  readonly profile_interval: number | null;
  readonly bound_at: number;
  readonly binding_updated_at: number;
  /** JSON arrays whose items are the domain's own objects. */
  readonly sensors: string;
  readonly mappings: string;
  /** For imagesFromJson. */
  readonly images: string;
}

const GET: HotStatement = {
  name: 'devices.get',
  sql: (dialect) => `
    select d.id, d.organization_id, d.name, d.last_seen_at, d.interval_unit, d.interval_value, d.revision, d.created_at, d.updated_at,
      p.id as physical_id, p.client_device_id, p.connection_id, p.configuration, p.uplink_gaps, p.reported_class, p.created_at as bound_at, p.updated_at as binding_updated_at,
      f.uplink_interval as profile_interval,
      ${sensorsOf(dialect)} as sensors, ${mappingsOf(dialect)} as mappings, ${imagesOfDeviceSql(dialect)} as images
    from digital_devices d left join physical_devices p on p.device_id = d.id left join device_profiles f on f.id = p.profile_id
    where d.organization_id = ? and d.id = ?`,
};

const VERSION: HotStatement = {
  name: 'devices.version',
  sql: () => 'select d.revision, d.last_seen_at from digital_devices d where d.organization_id = ? and d.id = ?',
};

const LOCK: HotStatement = {
  name: 'devices.lock',
  sql: (dialect) => `select d.id from digital_devices d where d.organization_id = ? and d.id = ? ${dialect.forUpdate}`,
};

function sensorsOf(dialect: Dialect): string {
  const sensor = dialect.jsonObject({ id: 's.id', sensorTemplateId: 's.sensor_template_id', createdAt: 's.created_at', updatedAt: 's.updated_at' });
  return dialect.jsonArray(sensor, 'sensors s where s.device_id = d.id', 's.position');
}

function mappingsOf(dialect: Dialect): string {
  const mapping = dialect.jsonObject({ id: 'm.id', sensorId: 'm.sensor_id', sourcePath: 'm.source_path', createdAt: 'm.created_at', updatedAt: 'm.updated_at' });
  return dialect.jsonArray(mapping, 'sensor_mappings m where m.device_id = d.id', 'm.position');
}

/** Digital devices by themselves. Assumes validated input and a caller allowed to act in `organizationId`. */
export class DeviceRepository {
  private readonly counters: DeviceCounterRepository;

  constructor(private readonly db: Db) {
    this.counters = new DeviceCounterRepository(db);
  }

  /** The whole device. Throws `device_not_found`, also for one that lies outside the reach of a limited key. */
  async get(organizationId: string, id: string, reach?: DeviceReach): Promise<Device> {
    const device = await this.find(organizationId, id);
    if (!device || !isDeviceInside(reach, id, device.physicalDevice?.connectionId)) throw notFound('device', id);
    return device;
  }

  /** The whole device: binding, mappings, sensors and pictures, in one statement. */
  async find(organizationId: string, id: string): Promise<Device | undefined> {
    const [row] = await this.db.all<DeviceRow>(GET, [organizationId, id]);
    return row && deviceFromRow(row);
  }

  /** Whether the device is still what it was when it was read. */
  async isAt(organizationId: string, id: string, { revision, lastSeenAt }: Pick<Device, 'revision' | 'lastSeenAt'>): Promise<boolean> {
    const [row] = await this.db.all<Pick<DeviceRow, 'revision' | 'last_seen_at'>>(VERSION, [organizationId, id]);
    return row?.revision === revision && (row.last_seen_at ?? undefined) === lastSeenAt;
  }

  /** Nobody else changes the device until the end of the transaction, if there is one. */
  async hold(organizationId: string, id: string): Promise<void> {
    await this.db.all(LOCK, [organizationId, id]);
  }

  /** The whole device, which nobody else changes until the end of the transaction. With the reach of a limited key it may have left that since the gate looked. Throws as get. */
  async lock(organizationId: string, id: string, reach?: DeviceReach): Promise<Device> {
    await this.hold(organizationId, id);
    return await this.get(organizationId, id, reach);
  }

  /** Adds a device without binding and sensors, and counts it. */
  async create(organizationId: string, device: DeviceRecord): Promise<void> {
    await this.db.knex('digital_devices').insert({
      id: device.id,
      organization_id: organizationId,
      name: device.name,
      name_folded: foldName(device.name),
      revision: 1,
      seen_hour: seenHour(device.createdAt),
      created_at: device.createdAt,
      updated_at: device.createdAt,
    });
    await this.counters.change(organizationId, ALL_DEVICES, 1);
  }

  /** The ids of at most `limit` devices, the oldest first. */
  async oldest(organizationId: string, limit: number): Promise<string[]> {
    const rows: { id: string }[] = await this.db.knex('digital_devices as d').where('d.organization_id', organizationId).orderBy(['d.created_at', 'd.id']).limit(limit).select('d.id');
    return rows.map(({ id }) => id);
  }

  /** Sets name and interval, and counts the change: a new revision. */
  async update(organizationId: string, id: string, fields: { name: string; dataSendingInterval: DataSendingInterval | undefined }, now: number): Promise<void> {
    await this.one(organizationId, id).update({
      name: fields.name,
      name_folded: foldName(fields.name),
      interval_unit: fields.dataSendingInterval?.unit ?? null,
      interval_value: fields.dataSendingInterval?.value ?? null,
      revision: this.db.knex.raw('revision + 1'),
      updated_at: now,
    });
  }

  /** Counts a change of the device's sensors or mappings: a new revision. */
  async touch(organizationId: string, id: string, now: number): Promise<void> {
    await this.one(organizationId, id).update({ revision: this.db.knex.raw('revision + 1'), updated_at: now });
  }

  /** Deletes a device that is locked, with all that hangs on it. */
  async delete(organizationId: string, { id, physicalDevice }: Pick<Device, 'id' | 'physicalDevice'>): Promise<void> {
    await this.one(organizationId, id).delete();
    await this.counters.change(organizationId, ALL_DEVICES, -1);
    if (physicalDevice) await this.counters.change(organizationId, boundTo(physicalDevice.connectionId), -1);
  }

  private one(organizationId: string, id: string) {
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
    images: imagesFromJson(row.images),
    dataSendingInterval: row.interval_unit && row.interval_value ? { unit: row.interval_unit, value: row.interval_value } : undefined,
    createdAt: row.created_at,
    updatedAt: row.updated_at,
    revision: row.revision,
  };
}

function physicalDeviceFromRow(row: DeviceRow, id: string): Device['physicalDevice'] {
  return {
    id,
    clientDeviceId: row.client_device_id,
    connectionId: row.connection_id,
    configuration: JSON.parse(row.configuration) as Record<string, unknown>,
    sensorMappings: JSON.parse(row.mappings) as SensorMapping[],
    uplinkGaps: JSON.parse(row.uplink_gaps) as number[],
    reportedClass: row.reported_class ?? undefined,
    profileInterval: row.profile_interval ?? undefined,
    createdAt: row.bound_at,
    updatedAt: row.binding_updated_at,
  };
}

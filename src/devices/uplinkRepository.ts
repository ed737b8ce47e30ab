import type { Db, HotStatement } from '../database';
import type { ValueType } from '../sensorTemplates';
import { REMEMBERED_UPLINKS } from './uplinkGaps';

/** Which digital device a physical device is bound to. */
export interface Binding {
  readonly deviceId: string;
  readonly physicalDeviceId: string;
  /** When its last uplinks were received, oldest first; Unix milliseconds. */
  readonly recentUplinks: readonly number[];
}

/** A sensor that values of uplinks go to. */
export interface MappedSensor {
  readonly sensorId: string;
  readonly sourcePath: string;
  readonly valueType: ValueType;
}

const FIND_BINDING: HotStatement = {
  name: 'uplinks.findBinding',
  sql: () => `
    select p.device_id as "deviceId", p.id as "physicalDeviceId", p.recent_uplinks as "recentUplinks"
    from physical_devices p where p.organization_id = ? and p.connection_id = ? and p.client_device_id = ?`,
};

const MAPPED: HotStatement = {
  name: 'uplinks.mappedSensors',
  sql: () => `
    select m.sensor_id as "sensorId", m.source_path as "sourcePath", t.value_type as "valueType"
    from sensor_mappings m join sensors s on s.id = m.sensor_id join sensor_templates t on t.id = s.sensor_template_id
    where m.organization_id = ? and m.device_id = ? order by m.position`,
};

const TOUCH_LAST_SEEN: HotStatement = {
  name: 'uplinks.touchLastSeen',
  sql: () => 'update digital_devices set last_seen_at = ? where organization_id = ? and id = ? and (last_seen_at is null or last_seen_at < ?)',
};

const REMEMBER: HotStatement = {
  name: 'uplinks.remember',
  sql: () => 'update physical_devices set recent_uplinks = ? where organization_id = ? and id = ?',
};

/** What an uplink reads and changes of the device that it comes from. Assumes a connection of `organizationId`. */
export class UplinkRepository {
  constructor(private readonly db: Db) {}

  /** The digital device that a physical device is bound to; `clientDeviceId` as the connector normalises it. */
  async findBinding(organizationId: string, connectionId: string, clientDeviceId: string): Promise<Binding | undefined> {
    const [row] = await this.db.all<Omit<Binding, 'recentUplinks'> & { recentUplinks: string }>(FIND_BINDING, [organizationId, connectionId, clientDeviceId]);
    return row && { ...row, recentUplinks: JSON.parse(row.recentUplinks) as number[] };
  }

  /** Where the device's values go, in the order of its mappings. */
  async mappedSensors(organizationId: string, deviceId: string): Promise<MappedSensor[]> {
    return await this.db.all<MappedSensor>(MAPPED, [organizationId, deviceId]);
  }

  /** Sets when the device was last seen, never backwards, and not as a change of the device; remembers when the uplink was received. Only inside a transaction. */
  async received(organizationId: string, { deviceId, physicalDeviceId, recentUplinks }: Binding, receivedAt: number): Promise<void> {
    // The device first, as whoever deletes it does.
    await this.db.all(TOUCH_LAST_SEEN, [receivedAt, organizationId, deviceId, receivedAt]);
    const remembered = [...recentUplinks, receivedAt].toSorted((one, other) => one - other).slice(-REMEMBERED_UPLINKS);
    await this.db.all(REMEMBER, [JSON.stringify(remembered), organizationId, physicalDeviceId]);
  }
}

import type { Db, HotStatement } from '../database';
import type { ValueType } from '../sensorTemplates';
import { type UplinkRhythm, type UplinkTimes, withUplink } from './uplinkGaps';

/** Which digital device a physical device is bound to. */
export interface Binding {
  readonly deviceId: string;
  readonly physicalDeviceId: string;
  readonly rhythm: UplinkRhythm;
}

interface BindingRow {
  readonly deviceId: string;
  readonly physicalDeviceId: string;
  /** JSON: UplinkTimes. */
  readonly lastUplink: string | null;
  /** JSON array of numbers. */
  readonly uplinkGaps: string;
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
    select p.device_id as "deviceId", p.id as "physicalDeviceId", p.last_uplink as "lastUplink", p.uplink_gaps as "uplinkGaps"
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
  sql: () => 'update physical_devices set last_uplink = ?, uplink_gaps = ? where organization_id = ? and id = ?',
};

/** What an uplink reads and changes of the device that it comes from. Assumes a connection of `organizationId`. */
export class UplinkRepository {
  constructor(private readonly db: Db) {}

  /** The digital device that a physical device is bound to; `clientDeviceId` as the connector normalises it. */
  async findBinding(organizationId: string, connectionId: string, clientDeviceId: string): Promise<Binding | undefined> {
    const [row] = await this.db.all<BindingRow>(FIND_BINDING, [organizationId, connectionId, clientDeviceId]);
    if (!row) return undefined;
    const last = row.lastUplink === null ? undefined : (JSON.parse(row.lastUplink) as UplinkTimes);
    return { deviceId: row.deviceId, physicalDeviceId: row.physicalDeviceId, rhythm: { last, gaps: JSON.parse(row.uplinkGaps) as number[] } };
  }

  /** Where the device's values go, in the order of its mappings. */
  async mappedSensors(organizationId: string, deviceId: string): Promise<MappedSensor[]> {
    return await this.db.all<MappedSensor>(MAPPED, [organizationId, deviceId]);
  }

  /** Sets when the device was last seen, never backwards, and not as a change of the device; remembers how far the uplink is from the last one. Only inside a transaction. */
  async received(organizationId: string, { deviceId, physicalDeviceId, rhythm }: Binding, { ownTime, clock, receivedAt }: UplinkTimes): Promise<void> {
    const seenAt = Math.floor(receivedAt);
    // The device first, as whoever deletes it does.
    await this.db.all(TOUCH_LAST_SEEN, [seenAt, organizationId, deviceId, seenAt]);
    const next = withUplink(rhythm, { ownTime, clock, receivedAt: seenAt });
    if (next) await this.db.all(REMEMBER, [JSON.stringify(next.last), JSON.stringify(next.gaps), organizationId, physicalDeviceId]);
  }
}

import { variablesOf } from '../connections';
import type { Db, HotStatement } from '../database';
import type { ValueType } from '../sensorTemplates';
import { seenHour } from './device';
import { type UplinkRhythm, type UplinkTimes, withUplink } from './uplinkGaps';

/** Which digital device a physical device is bound to, and where its values go. */
export interface Binding {
  readonly deviceId: string;
  readonly physicalDeviceId: string;
  readonly rhythm: UplinkRhythm;
  /** LoRaWAN: the class that its last uplink told. */
  readonly reportedClass: string | undefined;
  /** In the order of the device's mappings. */
  readonly mapped: readonly MappedSensor[];
}

/** What reads the bytes that a physical device sends. */
export interface DeviceDecoder {
  readonly codecId: string;
  /** Of the codec; another one once an import changed it. */
  readonly hash: string;
  /** Those of the device's configuration. */
  readonly variables: Readonly<Record<string, string>>;
}

/** What an uplink says about the physical device itself. */
export interface ReceivedUplink extends UplinkTimes {
  /** It waited somewhere, nobody knows how long: it tells nothing about how often the device sends. */
  readonly isBuffered: boolean;
  /** LoRaWAN: the class that the device has now; undefined: it does not say. */
  readonly deviceClass: string | undefined;
}

interface BindingRow {
  readonly deviceId: string;
  readonly physicalDeviceId: string;
  /** JSON: UplinkTimes. */
  readonly lastUplink: string | null;
  /** JSON array of numbers. */
  readonly uplinkGaps: string;
  readonly reportedClass: string | null;
  /** JSON array of MappedSensor. */
  readonly mapped: string;
}

interface DecoderRow {
  readonly codecId: string;
  readonly hash: string;
  /** JSON. */
  readonly configuration: string;
}

/** A sensor that values of uplinks go to. */
export interface MappedSensor {
  readonly sensorId: string;
  readonly sourcePath: string;
  readonly valueType: ValueType;
}

const MAPPED = 'sensor_mappings m join sensors s on s.id = m.sensor_id join sensor_templates t on t.id = s.sensor_template_id where m.device_id = p.device_id';

const FIND_BINDING: HotStatement = {
  name: 'uplinks.findBinding',
  sql: (dialect) => `
    select p.device_id as "deviceId", p.id as "physicalDeviceId", p.last_uplink as "lastUplink", p.uplink_gaps as "uplinkGaps", p.reported_class as "reportedClass",
      ${dialect.jsonArray(dialect.jsonObject({ sensorId: 'm.sensor_id', sourcePath: 'm.source_path', valueType: 't.value_type' }), MAPPED, 'm.position')} as mapped
    from physical_devices p where p.organization_id = ? and p.connection_id = ? and p.client_device_id = ?`,
};

const FIND_DECODER: HotStatement = {
  name: 'uplinks.findDecoder',
  sql: () => `
    select c.id as "codecId", c.hash, p.configuration from physical_devices p join device_profiles f on f.id = p.profile_id join device_codecs c on c.id = f.codec_id
    where p.organization_id = ? and p.connection_id = ? and p.client_device_id = ? and c.decodes_uplinks = 1`,
};

// In the same hour nothing changes that an index holds.
const TOUCH_WITHIN_HOUR: HotStatement = {
  name: 'uplinks.touchWithinHour',
  sql: () => 'update digital_devices set last_seen_at = ? where organization_id = ? and id = ? and seen_hour = ? and last_seen_at < ? returning 1 as one',
};

const TOUCH_LAST_SEEN: HotStatement = {
  name: 'uplinks.touchLastSeen',
  sql: () => 'update digital_devices set last_seen_at = ?, seen_hour = ? where organization_id = ? and id = ? and (last_seen_at is null or last_seen_at < ?)',
};

const REMEMBER: HotStatement = {
  name: 'uplinks.remember',
  sql: () => 'update physical_devices set last_uplink = ?, uplink_gaps = ?, reported_class = ? where organization_id = ? and id = ?',
};

/** What an uplink reads and changes of the device that it comes from. Assumes a connection of `organizationId`. */
export class UplinkRepository {
  constructor(private readonly db: Db) {}

  /** The digital device that a physical device is bound to; `clientDeviceId` as the connector normalises it. */
  async findBinding(organizationId: string, connectionId: string, clientDeviceId: string): Promise<Binding | undefined> {
    const [row] = await this.db.all<BindingRow>(FIND_BINDING, [organizationId, connectionId, clientDeviceId]);
    return row && bindingFromRow(row);
  }

  /** The decoder of the profile that a physical device has; undefined: it is bound to none, or to one without. */
  async findDecoder(organizationId: string, connectionId: string, clientDeviceId: string): Promise<DeviceDecoder | undefined> {
    const [row] = await this.db.all<DecoderRow>(FIND_DECODER, [organizationId, connectionId, clientDeviceId]);
    return row && { codecId: row.codecId, hash: row.hash, variables: variablesOf(JSON.parse(row.configuration) as Record<string, unknown>) };
  }

  /** Sets when the device was last seen, never backwards, and not as a change of the device; remembers how far the uplink is from the last one, and its class. Only inside a transaction. */
  async received(organizationId: string, { deviceId, physicalDeviceId, rhythm, reportedClass }: Binding, uplink: ReceivedUplink): Promise<void> {
    const { ownTime, clock, deviceClass = reportedClass } = uplink;
    const seenAt = Math.floor(uplink.receivedAt);
    // The device first, as whoever deletes it does.
    await this.touch(organizationId, deviceId, seenAt);
    const next = uplink.isBuffered ? undefined : withUplink(rhythm, { ownTime, clock, receivedAt: seenAt });
    if (!next && deviceClass === reportedClass) return;
    const { last, gaps } = next ?? rhythm;
    await this.db.all(REMEMBER, [last ? JSON.stringify(last) : null, JSON.stringify(gaps), deviceClass ?? null, organizationId, physicalDeviceId]);
  }

  private async touch(organizationId: string, deviceId: string, seenAt: number): Promise<void> {
    const hour = seenHour(seenAt);
    const touched = await this.db.all(TOUCH_WITHIN_HOUR, [seenAt, organizationId, deviceId, hour, seenAt]);
    if (touched.length === 0) await this.db.all(TOUCH_LAST_SEEN, [seenAt, hour, organizationId, deviceId, seenAt]);
  }
}

function bindingFromRow({ deviceId, physicalDeviceId, lastUplink, uplinkGaps, reportedClass, mapped }: BindingRow): Binding {
  const last = lastUplink === null ? undefined : (JSON.parse(lastUplink) as UplinkTimes);
  const rhythm = { last, gaps: JSON.parse(uplinkGaps) as number[] };
  return { deviceId, physicalDeviceId, rhythm, reportedClass: reportedClass ?? undefined, mapped: JSON.parse(mapped) as MappedSensor[] };
}

import { getVariables } from '../connections';
import type { Db, PreparedStatement } from '../database';
import type { ValueType } from '../sensorTemplates';
import { computeSeenHour } from './device';
import { type UplinkHistory, type UplinkTimes, addUplink } from './uplinkGaps';
import { formatDecoderWarnings, formatFailure, parseFailure, type UplinkFailureRecord } from './uplinkReport';

/** The digital device that a physical device is bound to, and the sensors that its values go to. */
export interface Binding {
  readonly deviceId: string;
  readonly physicalDeviceId: string;
  readonly uplinkHistory: UplinkHistory;
  /** LoRaWAN: the device class of its last uplink. */
  readonly reportedClass: string | undefined;
  /** LoRaWAN: whether the network server decoded its last payload; undefined before the first payload. */
  readonly networkDecodes: boolean | undefined;
  /** The last uplink that could not be read or decoded. */
  readonly failure: UplinkFailureRecord | undefined;
  /** In the order of the device's mappings. */
  readonly mapped: readonly MappedSensor[];
}

/** The codec that decodes the payload of a physical device. */
export interface DeviceDecoder {
  readonly codecId: string;
  /** Hash of the codec. It changes when an import changes the codec. */
  readonly hash: string;
  /** The variables of the device's configuration. */
  readonly variables: Readonly<Record<string, string>>;
}

/** What an uplink reports about the physical device itself. */
interface ReceivedUplink extends UplinkTimes {
  /** The uplink was buffered for an unknown time, so it does not count for the sending interval. */
  readonly isBuffered: boolean;
  /** LoRaWAN: the current class of the device; undefined if not reported. */
  readonly deviceClass: string | undefined;
  /** LoRaWAN: whether the network server decoded the payload; undefined if there is no payload. */
  readonly isDecodedByNetwork: boolean | undefined;
  /** When the uplink arrived, with a fraction (MonotonicTimestamps). `receivedAt` is when the device was there. */
  readonly arrivedAt: number;
  /** Why it could not be read or decoded; undefined if it could, or has no content. */
  readonly failure: string | undefined;
  /** Whether it has values of the device. */
  readonly isReadable: boolean;
  /** What its decoder warned about. */
  readonly decoderWarnings: readonly string[];
}

interface BindingRow {
  readonly deviceId: string;
  readonly physicalDeviceId: string;
  /** JSON: UplinkTimes. */
  readonly lastUplink: string | null;
  /** JSON array of numbers. */
  readonly uplinkGaps: string;
  readonly reportedClass: string | null;
  readonly networkDecodes: number | null;
  /** JSON: UplinkFailureRecord. */
  readonly failure: string | null;
  /** JSON array of MappedSensor. */
  readonly mapped: string;
}

interface DecoderRow {
  readonly codecId: string;
  readonly hash: string;
  /** JSON. */
  readonly configuration: string;
}

/** A sensor that receives values of uplinks. */
export interface MappedSensor {
  readonly sensorId: string;
  readonly sourcePath: string;
  readonly valueType: ValueType;
}

const MAPPED =
  'sensor_mappings m join sensors s on s.id = m.sensor_id join sensor_templates t on t.id = s.sensor_template_id where m.device_id = p.device_id';

const FIND_BINDING: PreparedStatement = {
  name: 'uplinks.findBinding',
  sql: (dialect) => `
    select p.device_id as "deviceId", p.id as "physicalDeviceId", p.last_uplink as "lastUplink", p.uplink_gaps as "uplinkGaps", p.reported_class as "reportedClass", p.network_decodes as "networkDecodes", p.uplink_failure as failure,
      ${dialect.jsonArray(dialect.jsonObject({ sensorId: 'm.sensor_id', sourcePath: 'm.source_path', valueType: 't.value_type' }), MAPPED, 'm.position')} as mapped
    from physical_devices p where p.organization_id = ? and p.connection_id = ? and p.client_device_id = ?`,
};

const FIND_DECODER: PreparedStatement = {
  name: 'uplinks.findDecoder',
  sql: () => `
    select c.id as "codecId", c.hash, p.configuration from physical_devices p join device_profiles f on f.id = p.profile_id join device_codecs c on c.id = f.codec_id
    where p.organization_id = ? and p.connection_id = ? and p.client_device_id = ? and c.decodes_uplinks = 1`,
};

// Within the same hour, no indexed column changes.
const TOUCH_WITHIN_HOUR: PreparedStatement = {
  name: 'uplinks.touchWithinHour',
  sql: () =>
    'update digital_devices set last_seen_at = ? where organization_id = ? and id = ? and seen_hour = ? and last_seen_at < ? returning 1 as one',
};

const TOUCH_LAST_SEEN: PreparedStatement = {
  name: 'uplinks.touchLastSeen',
  sql: () =>
    'update digital_devices set last_seen_at = ?, seen_hour = ? where organization_id = ? and id = ? and (last_seen_at is null or last_seen_at < ?)',
};

const UPDATE_UPLINK_STATE: PreparedStatement = {
  name: 'uplinks.updateState',
  sql: () =>
    'update physical_devices set last_uplink = ?, uplink_gaps = ?, reported_class = ?, network_decodes = ? where organization_id = ? and id = ?',
};

const UPDATE_FAILURE: PreparedStatement = {
  name: 'uplinks.updateFailure',
  sql: () => 'update physical_devices set uplink_failure = ? where organization_id = ? and id = ?',
};

const UPDATE_DECODER_WARNINGS: PreparedStatement = {
  name: 'uplinks.updateDecoderWarnings',
  sql: () => 'update physical_devices set decoder_warnings = ? where organization_id = ? and id = ?',
};

const FIND_NETWORK_DECODES: PreparedStatement = {
  name: 'uplinks.networkDecodes',
  sql: () => 'select network_decodes from physical_devices where organization_id = ? and id = ?',
};

/** Reads and updates the device of an uplink. Assumes a connection of `organizationId`. */
export class UplinkRepository {
  constructor(private readonly db: Db) {}

  /** Finds the digital device that a physical device is bound to. `clientDeviceId` is normalized by the connector. */
  async findBinding(
    organizationId: string,
    connectionId: string,
    clientDeviceId: string,
  ): Promise<Binding | undefined> {
    const [row] = await this.db.all<BindingRow>(FIND_BINDING, [organizationId, connectionId, clientDeviceId]);
    return row && bindingFromRow(row);
  }

  /**
   * Finds the decoder of the physical device's profile; undefined if the device is not bound or its profile has no
   * decoder.
   */
  async findDecoder(
    organizationId: string,
    connectionId: string,
    clientDeviceId: string,
  ): Promise<DeviceDecoder | undefined> {
    const [row] = await this.db.all<DecoderRow>(FIND_DECODER, [organizationId, connectionId, clientDeviceId]);
    return (
      row && {
        codecId: row.codecId,
        hash: row.hash,
        variables: getVariables(JSON.parse(row.configuration) as Record<string, unknown>),
      }
    );
  }

  /** Whether the network server decoded the last payload of a physical device; also false before the first payload. */
  async networkDecodes(organizationId: string, physicalDeviceId: string): Promise<boolean> {
    const [row] = await this.db.all<{ network_decodes: number | null }>(FIND_NETWORK_DECODES, [
      organizationId,
      physicalDeviceId,
    ]);
    return row?.network_decodes === 1;
  }

  /**
   * Updates the last-seen time (never backwards), the gap to the last uplink, the device class, and what was wrong with
   * the uplink, without a new revision. Call only inside a transaction.
   */
  async recordUplink(organizationId: string, binding: Binding, uplink: ReceivedUplink): Promise<void> {
    const { deviceId, physicalDeviceId, uplinkHistory, reportedClass, networkDecodes } = binding;
    // The class and the decoding stay as they were if this uplink does not report them.
    const { ownTime, clock, deviceClass = reportedClass, isDecodedByNetwork: decodes = networkDecodes } = uplink;
    const seenAt = Math.floor(uplink.receivedAt);
    // Lock the device first, in the same order as a deletion does.
    await this.updateLastSeen(organizationId, deviceId, seenAt);
    await this.updateReport(organizationId, binding, uplink);
    const next = uplink.isBuffered ? undefined : addUplink(uplinkHistory, { ownTime, clock, receivedAt: seenAt });
    if (!next && deviceClass === reportedClass && decodes === networkDecodes) return;
    const { last, gaps } = next ?? uplinkHistory;
    const values = [
      last ? JSON.stringify(last) : null,
      JSON.stringify(gaps),
      deviceClass ?? null,
      numberOrNull(decodes),
    ];
    await this.db.all(UPDATE_UPLINK_STATE, [...values, organizationId, physicalDeviceId]);
  }

  /**
   * Stores why the uplink could not be read, or that it could although the last one could not, and the warnings of its
   * decoder. Runs no statement for an uplink with which nothing is wrong, after another one.
   */
  private async updateReport(
    organizationId: string,
    { physicalDeviceId, failure: lastFailure }: Binding,
    { arrivedAt: receivedAt, failure: reason, isReadable, decoderWarnings: warnings }: ReceivedUplink,
  ): Promise<void> {
    const isResolvedNow = isReadable && lastFailure?.isResolved === false;
    const resolved = isResolvedNow ? { ...lastFailure, isResolved: true } : undefined;
    const failure = reason === undefined ? resolved : { receivedAt, reason, isResolved: false };
    if (failure) await this.db.all(UPDATE_FAILURE, [formatFailure(failure), organizationId, physicalDeviceId]);
    if (warnings.length > 0)
      await this.db.all(UPDATE_DECODER_WARNINGS, [
        formatDecoderWarnings({ receivedAt, warnings }),
        organizationId,
        physicalDeviceId,
      ]);
  }

  /**
   * Sets the last-seen time, never backwards. Most uplinks are in the same hour as the one before; that update is
   * cheaper, because no indexed column changes.
   */
  private async updateLastSeen(organizationId: string, deviceId: string, seenAt: number): Promise<void> {
    const hour = computeSeenHour(seenAt);
    const touched = await this.db.all(TOUCH_WITHIN_HOUR, [seenAt, organizationId, deviceId, hour, seenAt]);
    if (touched.length === 0) await this.db.all(TOUCH_LAST_SEEN, [seenAt, hour, organizationId, deviceId, seenAt]);
  }
}

/** Converts a flag to a column value; null: unknown. */
function numberOrNull(flag: boolean | undefined): number | null {
  return flag === undefined ? null : Number(flag);
}

function bindingFromRow({
  lastUplink,
  uplinkGaps,
  reportedClass,
  networkDecodes,
  failure,
  mapped,
  ...ids
}: BindingRow): Binding {
  const last = lastUplink === null ? undefined : (JSON.parse(lastUplink) as UplinkTimes);
  const uplinkHistory = { last, gaps: JSON.parse(uplinkGaps) as number[] };
  const decodes = networkDecodes === null ? undefined : networkDecodes === 1;
  return {
    ...ids,
    uplinkHistory,
    reportedClass: reportedClass ?? undefined,
    networkDecodes: decodes,
    failure: parseFailure(failure),
    mapped: JSON.parse(mapped) as MappedSensor[],
  };
}

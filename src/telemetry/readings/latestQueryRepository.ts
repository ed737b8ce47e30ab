import type { Db } from '../../database';
import type { JsonValue } from '../../kernel/jsonValue';
import { type DecoderWarnings, parseDecoderWarnings, parseFailure, type UplinkFailureRecord } from '../../devices';
import { notFound } from '../../kernel/errors';
import type { ValueType } from '../../sensorTemplates';
import { RETAINED } from './latestReadingRepository';
import { getTimeSource, type ReadingTimeSource } from './storedReading';

/** A sensor with its latest value. */
export interface SensorWithLatest {
  readonly sensorId: string;
  readonly deviceId: string;
  /** Undefined for a sensor without values. */
  readonly last: LastValue | undefined;
  /**
   * The last uplink of its device, if it had no value for this sensor because it could not be read or decoded.
   */
  readonly noValue: Pick<UplinkFailureRecord, 'receivedAt' | 'reason'> | undefined;
  /** The last warnings that the decoder of its device returned; undefined for a sensor without a mapping. */
  readonly decoderWarnings: DecoderWarnings | undefined;
}

/** The latest value of a sensor. */
export interface LastValue {
  readonly valueType: ValueType;
  readonly value: JsonValue;
  /** The time that the device sent with the value, integer Unix milliseconds; undefined if it sent none. */
  readonly deviceTime: number | undefined;
  /** Who reported `deviceTime`; undefined if not known. */
  readonly timeSource: ReadingTimeSource | undefined;
  /**
   * Unix milliseconds, may have a fraction, because arrival times define an order even within a millisecond
   * (MonotonicTimestamps).
   */
  readonly receivedAt: number;
  /** Whether it came as a retained message of a broker. */
  readonly isRetained: boolean;
}

interface LatestRow {
  readonly sensorId: string;
  readonly deviceId: string;
  readonly valueType: ValueType;
  readonly value: string | null;
  readonly deviceTime: number | null;
  readonly timeSource: number | null;
  readonly receivedAt: number | null;
  /** JSON: UplinkFailureRecord. Null if there is none, or if the sensor has no mapping. */
  readonly failure: string | null;
  /** JSON: DecoderWarnings. Null if there are none, or if the sensor has no mapping. */
  readonly decoderWarnings: string | null;
  readonly buffered: number | null;
}

/** Reads the latest values of sensors. */
export class LatestQueryRepository {
  constructor(private readonly db: Db) {}

  /** Lists the latest values of these sensors, in the given order. Throws `sensor_not_found`. */
  async listBySensors(organizationId: string, sensorIds: readonly string[]): Promise<SensorWithLatest[]> {
    const rows: LatestRow[] = await this.querySensors(organizationId).whereIn('s.id', [...sensorIds]);
    const rowBySensor = new Map(rows.map((row) => [row.sensorId, row]));
    return sensorIds.map((id) => {
      const row = rowBySensor.get(id);
      if (!row) throw notFound('sensor', id);
      return toSensorWithLatest(row);
    });
  }

  /**
   * Lists the latest values of all sensors of these devices, in the given order of devices and the order of sensors on
   * their device. Reads at most `limit` sensors: the caller rejects a query that has that many. Throws
   * `device_not_found`.
   */
  async listByDevices(
    organizationId: string,
    deviceIds: readonly string[],
    limit: number,
  ): Promise<SensorWithLatest[]> {
    const existing: { id: string }[] = await this.db
      .knex('digital_devices as d')
      .where('d.organization_id', organizationId)
      .whereIn('d.id', [...deviceIds])
      .select('d.id');
    const missingId = deviceIds.find((id) => !existing.some((device) => device.id === id));
    if (missingId !== undefined) throw notFound('device', missingId);
    const rows: LatestRow[] = await this.querySensors(organizationId)
      .whereIn('s.device_id', [...deviceIds])
      .orderBy(['s.device_id', 's.position'])
      .limit(limit);
    // The sort is stable, so the sensors of a device stay in their order.
    const indexByDevice = new Map(deviceIds.map((id, index) => [id, index]));
    return rows
      .map(toSensorWithLatest)
      .toSorted((left, right) => (indexByDevice.get(left.deviceId) ?? 0) - (indexByDevice.get(right.deviceId) ?? 0));
  }

  /**
   * Builds the query for the sensors of an organization with their latest readings; sensors without a reading have null
   * columns, and those without a mapping nothing of the physical device. Callers add the condition for the sensors: the
   * aliases are `s` (sensor), `t` (template), `l` (reading).
   */
  private querySensors(organizationId: string) {
    return this.db
      .knex('sensors as s')
      .innerJoin('sensor_templates as t', 't.id', 's.sensor_template_id')
      .leftJoin('latest_readings as l', 'l.sensor_id', 's.id')
      .leftJoin('sensor_mappings as m', (join) => join.on('m.device_id', 's.device_id').andOn('m.sensor_id', 's.id'))
      .leftJoin('physical_devices as p', 'p.device_id', 'm.device_id')
      .where('s.organization_id', organizationId)
      .select({
        sensorId: 's.id',
        deviceId: 's.device_id',
        valueType: 't.value_type',
        value: 'l.value',
        deviceTime: 'l.own_time',
        timeSource: 'l.time_source',
        receivedAt: 'l.received_at',
        failure: 'p.uplink_failure',
        decoderWarnings: 'p.decoder_warnings',
        buffered: 'l.buffered',
      });
  }
}

/** Converts a row; `last` is undefined if the sensor has no reading. */
function toSensorWithLatest({ sensorId, deviceId, ...row }: LatestRow): SensorWithLatest {
  const failure = parseFailure(row.failure);
  const isOfLastUplink = failure?.isResolved === false && (row.receivedAt ?? 0) < failure.receivedAt;
  const noValue = isOfLastUplink ? failure : undefined;
  const sensor = { sensorId, deviceId, noValue, decoderWarnings: parseDecoderWarnings(row.decoderWarnings) };
  if (row.value === null) return { ...sensor, last: undefined };
  const value = JSON.parse(row.value) as JsonValue;
  return {
    ...sensor,
    last: {
      valueType: getValueType(row.valueType, value),
      value,
      deviceTime: row.deviceTime ?? undefined,
      timeSource: getTimeSource(row.timeSource),
      receivedAt: row.receivedAt ?? 0,
      isRetained: row.buffered === RETAINED,
    },
  };
}

/**
 * Returns the type of a value. A value that was stored before the sensor template changed may not have the type of the
 * template; then this is the type of the value itself.
 */
function getValueType(valueType: ValueType, value: JsonValue): ValueType {
  if (valueType === 'json') return 'json';
  if (typeof value === 'number') return valueType === 'integer' && Number.isSafeInteger(value) ? 'integer' : 'number';
  if (typeof value === 'boolean') return 'boolean';
  return typeof value === 'string' ? 'string' : 'json';
}

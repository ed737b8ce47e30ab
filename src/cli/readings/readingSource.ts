import { Readable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { status } from '@grpc/grpc-js';
import type { Json, JsonClient } from '../call/jsonClient';
import { isServiceError, toWireError } from '../call/wireError';
import type { ExportedSensor } from './rows';

/** The devices, sensors and time range to export; all devices of the organization if both lists are empty. */
interface ExportQuery {
  readonly deviceIds: readonly string[];
  readonly sensorIds: readonly string[];
  /** Inclusive, Unix milliseconds. */
  readonly from: number;
  /** Exclusive, Unix milliseconds. */
  readonly to: number;
}

/** A device and its exported sensors. */
interface ExportedDevice {
  readonly name: string;
  readonly sensors: readonly ExportedSensor[];
}

/** A device as the server returns it. */
interface DeviceResponse {
  readonly id: string;
  readonly name: string;
  readonly sensors: readonly { readonly id: string; readonly sensorTemplateId: string }[];
}

/** What remains to be read of a batch of sensors, which the server returns one sensor after the other. */
interface RemainingReadings {
  readonly sensorIds: readonly string[];
  /** The last reading that was read of the first sensor; undefined if none was. */
  readonly lastReading: Json | undefined;
}

const SENSOR_BATCH_SIZE = 50;
const QUERY_LATEST_BATCH_SIZE = 200;
const DEVICE_BATCH_SIZE = 200;
const PAGE_SIZE = 5000;
// A server needs a few seconds to restart.
const RETRY_DELAYS_MS = [500, 1000, 2000, 4000, 8000];

/** Dependencies of ReadingSource. */
interface SourceOptions {
  readonly client: Pick<JsonClient, 'call'>;
  /** Aborts all calls and waits. */
  readonly signal: AbortSignal;
  /** Called for each sensor that was deleted before all its readings were read. */
  readonly onSensorDeleted: (sensorId: string) => void;
}

/** Reads the exported data from a running server, page by page. */
export class ReadingSource {
  private readonly columnsByTemplateId = new Map<string, { key: string; unit: string }>();

  private constructor(
    private readonly options: SourceOptions,
    private readonly query: ExportQuery,
  ) {}

  /** Loads the sensor templates. All methods reject with the ServiceError of a failed call. */
  static async open(options: SourceOptions, query: ExportQuery): Promise<ReadingSource> {
    const source = new ReadingSource(options, query);
    const { unitMeasurements } = (await source.call('SensorTemplateService/ListUnitMeasurements', {})) as {
      unitMeasurements: { id: string; symbol: string }[];
    };
    const { sensorTemplates } = (await source.call('SensorTemplateService/ListSensorTemplates', {})) as {
      sensorTemplates: { id: string; keyName: string; unitMeasurementId: string }[];
    };
    const symbolByUnitId = new Map(unitMeasurements.map(({ id, symbol }) => [id, symbol]));
    for (const { id, keyName, unitMeasurementId } of sensorTemplates)
      source.columnsByTemplateId.set(id, { key: keyName, unit: symbolByUnitId.get(unitMeasurementId) ?? '' });
    return source;
  }

  /** Returns the devices to export and their number: all, or those that the query names or whose sensors it names. */
  async getDevices(): Promise<{ readonly count: number; readonly devices: AsyncIterable<ExportedDevice> }> {
    const { deviceIds, sensorIds } = this.query;
    if (deviceIds.length + sensorIds.length === 0) {
      const { total } = await this.call('DigitalDeviceService/ListDigitalDevices', { limit: 1 });
      return { count: Number(total), devices: this.listAllDevices() };
    }
    const sensorIdsByDeviceId = await this.findSensorIdsByDeviceId(sensorIds);
    const ids = [...new Set([...deviceIds, ...sensorIdsByDeviceId.keys()])];
    return {
      count: ids.length,
      devices: await this.loadNamedDevices(
        ids,
        (id, sensorId) => deviceIds.includes(id) || (sensorIdsByDeviceId.get(id)?.has(sensorId) ?? false),
      ),
    };
  }

  /**
   * Reads the readings of sensors of one device, page by page. If a sensor is deleted during the export, its remaining
   * readings are missing.
   */
  async *readReadings(sensors: readonly ExportedSensor[]): AsyncGenerator<readonly Json[]> {
    const ids = sensors.map(({ sensorId }) => sensorId);
    for (let offset = 0; offset < ids.length; offset += SENSOR_BATCH_SIZE)
      yield* this.readBatch(ids.slice(offset, offset + SENSOR_BATCH_SIZE));
  }

  /**
   * Reads the readings of at most SENSOR_BATCH_SIZE sensors, page by page. The server rejects a request that names a
   * deleted sensor, so after a deletion the reading continues without that sensor, after the last reading.
   */
  private async *readBatch(ids: readonly string[]): AsyncGenerator<readonly Json[]> {
    let remaining = ids;
    let lastReading: Json | undefined;
    while (remaining.length > 0) {
      try {
        for await (const page of this.readPages(remaining, lastReading)) {
          yield page;
          lastReading = page.at(-1) ?? lastReading;
        }
        return;
      } catch (error) {
        const deletedId = getDeletedSensor(error);
        if (deletedId === undefined || !remaining.includes(deletedId)) throw error;
        ({ sensorIds: remaining, lastReading } = this.dropDeletedSensor(deletedId, remaining, lastReading));
      }
    }
  }

  /**
   * Returns what remains to be read after a sensor was deleted: the sensors from that of the last reading on, without
   * the deleted one. Reports the deletion unless all readings of the sensor were read before.
   */
  private dropDeletedSensor(
    deletedId: string,
    sensorIds: readonly string[],
    lastReading: Json | undefined,
  ): RemainingReadings {
    const unfinished = sensorIds.slice(lastReading ? sensorIds.indexOf(String(lastReading['sensorId'])) : 0);
    if (unfinished.includes(deletedId)) this.options.onSensorDeleted(deletedId);
    return {
      sensorIds: unfinished.filter((id) => id !== deletedId),
      lastReading: unfinished[0] === deletedId ? undefined : lastReading,
    };
  }

  /**
   * Reads all pages of these sensors, one sensor after the other. `lastReading`: where an earlier attempt stopped
   * within the first sensor; undefined: start at its beginning.
   */
  private async *readPages(ids: readonly string[], lastReading: Json | undefined): AsyncGenerator<readonly Json[]> {
    const [first = '', ...others] = ids;
    if (lastReading)
      for await (const page of this.readRange([first], String(lastReading['time'])))
        yield page.filter((reading) => isAfter(reading, lastReading));
    const unread = lastReading ? others : ids;
    if (unread.length > 0) yield* this.readRange(unread, new Date(this.query.from).toISOString());
  }

  /** Reads the readings of these sensors from a time (ISO 8601) to the end of the export, page by page. */
  private async *readRange(sensorIds: readonly string[], from: string): AsyncGenerator<readonly Json[]> {
    let pageToken = '';
    do {
      const to = new Date(this.query.to).toISOString();
      const page = (await this.call('SensorQueryService/QueryRange', {
        sensorIds,
        from,
        to,
        pageSize: PAGE_SIZE,
        pageToken,
      })) as { readings: Json[]; nextPageToken: string };
      yield page.readings;
      pageToken = page.nextPageToken;
    } while (pageToken !== '');
  }

  /** Lists all devices of the organization, page by page. */
  private async *listAllDevices(): AsyncGenerator<ExportedDevice> {
    let pageToken = '';
    do {
      const page = (await this.call('DigitalDeviceService/ListDigitalDevices', {
        limit: DEVICE_BATCH_SIZE,
        pageToken,
      })) as { devices: DeviceResponse[]; nextPageToken: string };
      for (const device of page.devices) yield this.toExportedDevice(device, () => true);
      pageToken = page.nextPageToken;
    } while (pageToken !== '');
  }

  /** Loads all devices first, so that an unknown device is reported before anything is written. */
  private async loadNamedDevices(
    ids: readonly string[],
    isWanted: (deviceId: string, sensorId: string) => boolean,
  ): Promise<AsyncIterable<ExportedDevice>> {
    const devices: ExportedDevice[] = [];
    for (const id of ids)
      devices.push(
        this.toExportedDevice(
          (await this.call('DigitalDeviceService/GetDigitalDevice', { id })) as unknown as DeviceResponse,
          (sensorId) => isWanted(id, sensorId),
        ),
      );
    return Readable.from(devices);
  }

  /** Converts a device, with the wanted sensors only. */
  private toExportedDevice(
    { id: deviceId, name, sensors }: DeviceResponse,
    isWanted: (sensorId: string) => boolean,
  ): ExportedDevice {
    const selected = sensors.filter(({ id }) => isWanted(id));
    return {
      name,
      sensors: selected.map(({ id, sensorTemplateId }) => ({
        deviceId,
        deviceName: name,
        sensorId: id,
        ...(this.columnsByTemplateId.get(sensorTemplateId) ?? { key: '', unit: '' }),
      })),
    };
  }

  /** Groups sensors by their device. QueryLatest is used only because it returns the device of each sensor. */
  private async findSensorIdsByDeviceId(sensorIds: readonly string[]): Promise<Map<string, Set<string>>> {
    const sensorIdsByDeviceId = new Map<string, Set<string>>();
    for (let offset = 0; offset < sensorIds.length; offset += QUERY_LATEST_BATCH_SIZE) {
      const { sensors } = (await this.call('SensorQueryService/QueryLatest', {
        sensorIds: sensorIds.slice(offset, offset + QUERY_LATEST_BATCH_SIZE),
      })) as { sensors: { sensorId: string; deviceId: string }[] };
      for (const { sensorId, deviceId } of sensors)
        sensorIdsByDeviceId.set(deviceId, (sensorIdsByDeviceId.get(deviceId) ?? new Set()).add(sensorId));
    }
    return sensorIdsByDeviceId;
  }

  /** Calls a method with retries. Only read methods are called, so a retry is safe. */
  private async call(name: string, request: Json): Promise<Json> {
    const { client, signal } = this.options;
    for (const delayMs of RETRY_DELAYS_MS) {
      try {
        return await client.call(name, request, signal);
      } catch (error) {
        const retryMs = getRetryDelayMs(error, delayMs);
        if (signal.aborted || retryMs === undefined) throw error;
        await sleep(retryMs, undefined, { signal });
      }
    }
    // The last attempt: its error is final.
    return await client.call(name, request, signal);
  }
}

/**
 * Returns the delay in milliseconds before a failed call is retried; undefined if it must not be retried. `delayMs`:
 * the shortest delay. RESOURCE_EXHAUSTED without a time to wait is final: the message is too large.
 */
function getRetryDelayMs(error: unknown, delayMs: number): number | undefined {
  if (!isServiceError(error)) return undefined;
  if (error.code === status.UNAVAILABLE) return delayMs;
  const { retryAfterSeconds } = toWireError(error);
  return error.code === status.RESOURCE_EXHAUSTED && retryAfterSeconds !== undefined
    ? Math.max(delayMs, retryAfterSeconds * 1000)
    : undefined;
}

/** Returns the id of the sensor that the server did not find; undefined for other errors. */
function getDeletedSensor(error: unknown): string | undefined {
  const wire = isServiceError(error) ? toWireError(error) : undefined;
  return wire?.reason === 'sensor_not_found' ? wire.metadata['sensor_id'] : undefined;
}

/** Whether a reading comes after another one of the same sensor, by time and sequence. */
function isAfter(reading: Json, other: Json): boolean {
  const [time, otherTime] = [String(reading['time']), String(other['time'])];
  return time === otherTime
    ? Number(reading['sequence']) > Number(other['sequence'])
    : Date.parse(time) > Date.parse(otherTime);
}

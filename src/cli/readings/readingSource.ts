import { setTimeout as sleep } from 'node:timers/promises';
import { status } from '@grpc/grpc-js';
import type { Json, JsonClient } from '../call/jsonClient';
import type { ExportedSensor } from './rows';

/** What is exported; empty lists: all devices of the organization. */
export interface ExportQuery {
  readonly deviceIds: readonly string[];
  readonly sensorIds: readonly string[];
  /** Inclusive, Unix milliseconds. */
  readonly from: number;
  /** Exclusive, Unix milliseconds. */
  readonly to: number;
}

/** A device and those of its sensors that are exported. */
export interface ExportedDevice {
  readonly name: string;
  readonly sensors: readonly ExportedSensor[];
}

interface DeviceAnswer {
  readonly id: string;
  readonly name: string;
  readonly sensors: readonly { readonly id: string; readonly sensorTemplateId: string }[];
}

const SENSORS_AT_ONCE = 50;
const LATEST_AT_ONCE = 200;
const DEVICES_AT_ONCE = 200;
const PAGE = 10_000;
// A server that is started anew is there again after some seconds.
const RETRIES_MS = [500, 1000, 2000, 4000, 8000];

/** Reads what is exported from a running server, a page at a time. */
export class ReadingSource {
  private readonly templates = new Map<string, { key: string; unit: string }>();

  private constructor(
    private readonly client: JsonClient,
    private readonly query: ExportQuery,
  ) {}

  /** Learns what the sensors measure. Rejects with the ServiceError of a failed call, here and below. */
  static async open(client: JsonClient, query: ExportQuery): Promise<ReadingSource> {
    const source = new ReadingSource(client, query);
    const { unitMeasurements } = (await source.call('SensorTemplateService/ListUnitMeasurements', {})) as { unitMeasurements: { id: string; symbol: string }[] };
    const { sensorTemplates } = (await source.call('SensorTemplateService/ListSensorTemplates', {})) as { sensorTemplates: { id: string; keyName: string; unitMeasurementId: string }[] };
    const symbols = new Map(unitMeasurements.map(({ id, symbol }) => [id, symbol]));
    for (const { id, keyName, unitMeasurementId } of sensorTemplates) source.templates.set(id, { key: keyName, unit: symbols.get(unitMeasurementId) ?? '' });
    return source;
  }

  /** How many devices there are, and each of them when it is its turn. */
  async devices(): Promise<{ readonly count: number; readonly devices: AsyncIterable<ExportedDevice> }> {
    const { deviceIds, sensorIds } = this.query;
    if (deviceIds.length + sensorIds.length === 0) {
      const { total } = await this.call('DigitalDeviceService/ListDigitalDevices', { limit: 1 });
      return { count: Number(total), devices: this.all() };
    }
    const sensors = await this.devicesOf(sensorIds);
    const ids = [...new Set([...deviceIds, ...sensors.keys()])];
    return { count: ids.length, devices: this.named(ids, (id, sensorId) => deviceIds.includes(id) || (sensors.get(id)?.has(sensorId) ?? false)) };
  }

  /** The readings of sensors of one device, a page at a time. */
  async *readings(sensors: readonly ExportedSensor[]): AsyncGenerator<readonly Json[]> {
    const span = { from: new Date(this.query.from).toISOString(), to: new Date(this.query.to).toISOString(), pageSize: PAGE };
    for (let at = 0; at < sensors.length; at += SENSORS_AT_ONCE) {
      const sensorIds = sensors.slice(at, at + SENSORS_AT_ONCE).map(({ sensorId }) => sensorId);
      let pageToken = '';
      do {
        const page = (await this.call('SensorQueryService/QueryRange', { sensorIds, ...span, pageToken })) as { readings: Json[]; nextPageToken: string };
        yield page.readings;
        pageToken = page.nextPageToken;
      } while (pageToken !== '');
    }
  }

  private async *all(): AsyncGenerator<ExportedDevice> {
    let pageToken = '';
    do {
      const page = (await this.call('DigitalDeviceService/ListDigitalDevices', { limit: DEVICES_AT_ONCE, pageToken })) as { devices: DeviceAnswer[]; nextPageToken: string };
      for (const device of page.devices) yield this.exported(device, () => true);
      pageToken = page.nextPageToken;
    } while (pageToken !== '');
  }

  private async *named(ids: readonly string[], isWanted: (deviceId: string, sensorId: string) => boolean): AsyncGenerator<ExportedDevice> {
    for (const id of ids) yield this.exported((await this.call('DigitalDeviceService/GetDigitalDevice', { id })) as unknown as DeviceAnswer, (sensorId) => isWanted(id, sensorId));
  }

  private exported({ id: deviceId, name, sensors }: DeviceAnswer, isWanted: (sensorId: string) => boolean): ExportedDevice {
    const wanted = sensors.filter(({ id }) => isWanted(id));
    return { name, sensors: wanted.map(({ id, sensorTemplateId }) => ({ deviceId, deviceName: name, sensorId: id, ...(this.templates.get(sensorTemplateId) ?? { key: '', unit: '' }) })) };
  }

  /** The devices of sensors, each with those of them that it has. */
  private async devicesOf(sensorIds: readonly string[]): Promise<Map<string, Set<string>>> {
    const devices = new Map<string, Set<string>>();
    for (let at = 0; at < sensorIds.length; at += LATEST_AT_ONCE) {
      const { sensors } = (await this.call('SensorQueryService/QueryLatest', { sensorIds: sensorIds.slice(at, at + LATEST_AT_ONCE) })) as { sensors: { sensorId: string; deviceId: string }[] };
      for (const { sensorId, deviceId } of sensors) devices.set(deviceId, (devices.get(deviceId) ?? new Set()).add(sensorId));
    }
    return devices;
  }

  /** A call that only reads may be made again. */
  private async call(name: string, request: Json): Promise<Json> {
    for (const wait of RETRIES_MS) {
      try {
        return await this.client.call(name, request);
      } catch (error) {
        if ((error as { code?: unknown }).code !== status.UNAVAILABLE) throw error;
        await sleep(wait);
      }
    }
    return await this.client.call(name, request);
  }
}

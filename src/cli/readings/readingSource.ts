import { Readable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { status } from '@grpc/grpc-js';
import type { Json, JsonClient } from '../call/jsonClient';
import { isServiceError, wireErrorOf } from '../call/wireError';
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
const PAGE = 5000;
// A server that is started anew is there again after some seconds.
const RETRIES_MS = [500, 1000, 2000, 4000, 8000];

/** What it reads with. */
export interface SourceOptions {
  readonly client: Pick<JsonClient, 'call'>;
  /** Ends all calls and waiting. */
  readonly end: AbortSignal;
  /** Hears of each sensor that was deleted before all its readings were read. */
  readonly onGone: (sensorId: string) => void;
}

/** Reads what is exported from a running server, a page at a time. */
export class ReadingSource {
  private readonly templates = new Map<string, { key: string; unit: string }>();

  private constructor(
    private readonly options: SourceOptions,
    private readonly query: ExportQuery,
  ) {}

  /** Learns what the sensors measure. Rejects with the ServiceError of a failed call, here and below. */
  static async open(options: SourceOptions, query: ExportQuery): Promise<ReadingSource> {
    const source = new ReadingSource(options, query);
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
    return { count: ids.length, devices: await this.named(ids, (id, sensorId) => deviceIds.includes(id) || (sensors.get(id)?.has(sensorId) ?? false)) };
  }

  /** The readings of sensors of one device, a page at a time. Of a sensor that is deleted meanwhile what was read before. */
  async *readings(sensors: readonly ExportedSensor[]): AsyncGenerator<readonly Json[]> {
    const ids = sensors.map(({ sensorId }) => sensorId);
    for (let at = 0; at < ids.length; at += SENSORS_AT_ONCE) yield* this.readingsOf(ids.slice(at, at + SENSORS_AT_ONCE));
  }

  private async *readingsOf(ids: readonly string[]): AsyncGenerator<readonly Json[]> {
    let left = ids;
    let last: Json | undefined;
    while (left.length > 0) {
      try {
        for await (const page of this.pages(left, last)) {
          yield page;
          last = page.at(-1) ?? last;
        }
        return;
      } catch (error) {
        const gone = goneSensor(error);
        if (gone === undefined || !left.includes(gone)) throw error;
        left = left.slice(placeOf(last, left));
        if (left.includes(gone)) this.options.onGone(gone);
        if (left[0] === gone) last = undefined;
        left = left.filter((id) => id !== gone);
      }
    }
  }

  /** All pages of some sensors; with a last reading those after it: it is of the first sensor. */
  private async *pages(ids: readonly string[], last: Json | undefined): AsyncGenerator<readonly Json[]> {
    const [first = '', ...others] = ids;
    if (last) for await (const page of this.range([first], String(last['time']))) yield page.filter((reading) => isAfter(reading, last));
    const left = last ? others : ids;
    if (left.length > 0) yield* this.range(left, new Date(this.query.from).toISOString());
  }

  private async *range(sensorIds: readonly string[], from: string): AsyncGenerator<readonly Json[]> {
    let pageToken = '';
    do {
      const to = new Date(this.query.to).toISOString();
      const page = (await this.call('SensorQueryService/QueryRange', { sensorIds, from, to, pageSize: PAGE, pageToken })) as { readings: Json[]; nextPageToken: string };
      yield page.readings;
      pageToken = page.nextPageToken;
    } while (pageToken !== '');
  }

  private async *all(): AsyncGenerator<ExportedDevice> {
    let pageToken = '';
    do {
      const page = (await this.call('DigitalDeviceService/ListDigitalDevices', { limit: DEVICES_AT_ONCE, pageToken })) as { devices: DeviceAnswer[]; nextPageToken: string };
      for (const device of page.devices) yield this.exported(device, () => true);
      pageToken = page.nextPageToken;
    } while (pageToken !== '');
  }

  /** All of them at once, so that one that is not there is told before anything is written. */
  private async named(ids: readonly string[], isWanted: (deviceId: string, sensorId: string) => boolean): Promise<AsyncIterable<ExportedDevice>> {
    const devices: ExportedDevice[] = [];
    for (const id of ids) devices.push(this.exported((await this.call('DigitalDeviceService/GetDigitalDevice', { id })) as unknown as DeviceAnswer, (sensorId) => isWanted(id, sensorId)));
    return Readable.from(devices);
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
    const { client, end } = this.options;
    for (const wait of RETRIES_MS) {
      try {
        return await client.call(name, request, end);
      } catch (error) {
        const again = retryAfter(error, wait);
        if (end.aborted || again === undefined) throw error;
        await sleep(again, undefined, { signal: end });
      }
    }
    return await client.call(name, request, end);
  }
}

/** When a failed call may be made again, in milliseconds; undefined: never. */
function retryAfter(error: unknown, wait: number): number | undefined {
  if (!isServiceError(error)) return undefined;
  if (error.code === status.UNAVAILABLE) return wait;
  const { retryAfterSeconds } = wireErrorOf(error);
  return error.code === status.RESOURCE_EXHAUSTED && retryAfterSeconds !== undefined ? Math.max(wait, retryAfterSeconds * 1000) : undefined;
}

function goneSensor(error: unknown): string | undefined {
  const wire = isServiceError(error) ? wireErrorOf(error) : undefined;
  return wire?.reason === 'sensor_not_found' ? wire.metadata['sensor_id'] : undefined;
}

function placeOf(last: Json | undefined, ids: readonly string[]): number {
  return last ? ids.indexOf(String(last['sensorId'])) : 0;
}

/** Whether a reading of the same sensor comes after another one in the order of a range. */
function isAfter(reading: Json, last: Json): boolean {
  const [time, lastTime] = [String(reading['time']), String(last['time'])];
  return time === lastTime ? Number(reading['sequence']) > Number(last['sequence']) : Date.parse(time) > Date.parse(lastTime);
}

import type { ClientReadableStream, ServiceError } from '@grpc/grpc-js';
import type { Database } from '../../src/database';
import * as wire from '../../src/gen/sensorquery/v1/sensor_query_service';
import { newId } from '../../src/kernel/ids';
import type { JsonValue } from '../../src/kernel/jsonValue';
import { Cursors } from '../../src/kernel/pages';
import { toTimestamp } from '../../src/kernel/timestamps';
import type { ValueType } from '../../src/sensorTemplates';
import { SensorQueries, sensorQueryHandlers } from '../../src/telemetry';
import { columnsOf } from '../../src/telemetry/readings/storedReading';
import { type DeviceRoom, startDeviceRoom } from '../support/deviceRoom';
import { call, callFails, headers, seen, startEdge, type SeenError } from '../support/edge';
import type { TestEngine } from '../support/engines';

/** A time and what was shown then. */
export type Shown = readonly [time: number, value: JsonValue];

type Asked<Request> = { [Field in keyof Request]?: Request[Field] };
type Method<Request, Response> = ((fields: Asked<Request>, as?: string) => Promise<Response>) & { fails(fields: Asked<Request>, as?: string): Promise<SeenError> };

/** A server of the rooms devices and telemetry with SensorQueryService, and how to fill it. */
export interface QueryRoom {
  readonly devices: DeviceRoom;
  readonly database: Database;
  readonly latest: Method<wire.QueryLatestRequest, wire.QueryLatestResponse>;
  readonly range: Method<wire.QueryRangeRequest, wire.QueryRangeResponse>;
  readonly aggregate: Method<wire.QueryAggregateRequest, wire.QueryAggregateResponse>;
  stream(fields?: Asked<wire.StreamReadingsRequest>, as?: string): ClientReadableStream<wire.StreamReadingsResponse>;
  streamFails(fields: Asked<wire.StreamReadingsRequest>): Promise<SeenError>;
  /** The id of a sensor template of this type. */
  template(valueType: ValueType): Promise<string>;
  /** A device with sensors of these types, of org-1 unless said. */
  device(types: readonly ValueType[], organizationId?: string): Promise<{ readonly deviceId: string; readonly sensorIds: readonly string[] }>;
  /** A sensor of a device of its own. */
  sensor(valueType?: ValueType, organizationId?: string): Promise<string>;
  /** Puts readings into the database, in this order; the position of each is that of its place. Returns the number of the series. */
  store(sensorId: string, valueType: ValueType, readings: readonly Shown[], organizationId?: string): Promise<number>;
  stop(): Promise<void>;
}

const ROWS_AT_ONCE = 100;

/** Starts it on a database of its own. */
export async function startQueryRoom(engine: TestEngine): Promise<QueryRoom> {
  const devices = await startDeviceRoom(engine);
  const { database } = devices.test;
  const queries = new SensorQueries({ database, clock: devices.clock, cursors: new Cursors(Buffer.alloc(32)), positions: devices.positions });
  const edge = await startEdge((server) => server.add(wire.SensorQueryServiceService, sensorQueryHandlers(queries)));
  for (const organizationId of ['org-1', 'org-2']) edge.keys.add(organizationId, { organizationId });
  const client = edge.client(wire.SensorQueryServiceClient);
  const templates = new Map<ValueType, string>();
  let positions = 0;
  const template: QueryRoom['template'] = async (valueType) => {
    const id = templates.get(valueType) ?? (await insertTemplate(database, valueType));
    templates.set(valueType, id);
    return id;
  };
  const device: QueryRoom['device'] = async (types, organizationId = 'org-1') => {
    const deviceId = newId();
    await database.db.knex('digital_devices').insert({ id: deviceId, organization_id: organizationId, name: deviceId, name_folded: deviceId, revision: 1, created_at: 0, updated_at: 0 });
    const sensors = [];
    for (const [position, valueType] of types.entries()) {
      sensors.push({ id: newId(), organization_id: organizationId, device_id: deviceId, sensor_template_id: await template(valueType), position, created_at: 0, updated_at: 0 });
    }
    for (let at = 0; at < sensors.length; at += ROWS_AT_ONCE) await database.db.knex('sensors').insert(sensors.slice(at, at + ROWS_AT_ONCE));
    return { deviceId, sensorIds: sensors.map(({ id }) => id) };
  };
  const open: QueryRoom['stream'] = (fields = {}, as = 'org-1') => client.streamReadings(wire.StreamReadingsRequest.fromPartial(fields as never), headers(keyOf(as)));
  return {
    devices, database, device, template,
    latest: method(wire.QueryLatestRequest, client.queryLatest.bind(client)),
    range: method(wire.QueryRangeRequest, client.queryRange.bind(client)),
    aggregate: method(wire.QueryAggregateRequest, client.queryAggregate.bind(client)),
    stream: open,
    streamFails: async (fields) => await new Promise((resolve) => open(fields).on('error', (error: ServiceError) => resolve(seen(error))).resume()),
    sensor: async (valueType = 'number', organizationId = 'org-1') => (await device([valueType], organizationId)).sensorIds[0] ?? '',
    store: async (sensorId, valueType, readings, organizationId = 'org-1') => {
      const number = await seriesOf(database, sensorId, organizationId);
      const rows = readings.map(([time, value]) => ({ series: number, time, position: (positions += 1), ...columnsOf(valueType, value) }));
      for (let at = 0; at < rows.length; at += ROWS_AT_ONCE) await database.db.knex('readings').insert(rows.slice(at, at + ROWS_AT_ONCE));
      return number;
    },
    stop: async () => {
      await edge.stop();
      await devices.stop();
    },
  };
}

/** A time in a request. */
export function at(time: number): { seconds: number; nanos: number } {
  return toTimestamp(time);
}

/** What a reading holds. */
export function valueOf(reading: wire.Reading | undefined): unknown {
  return reading?.value?.value;
}

async function insertTemplate({ db }: Database, valueType: ValueType): Promise<string> {
  const id = newId();
  const key = await db.knex('normalized_keys').first<{ id: string }>('id');
  await db.knex('sensor_templates').insert({ id, owner: 'system', key_name_id: key.id, sensor_type: valueType, value_type: valueType, unit_measurement_id: '', description: '', created_at: 0, updated_at: 0 });
  return id;
}

async function seriesOf({ db }: Database, sensorId: string, organizationId: string): Promise<number> {
  const known = await db.knex('reading_series').where({ sensor_id: sensorId }).first<{ number: number } | undefined>('number');
  if (known) return known.number;
  const [made] = await db.knex('reading_series').insert({ sensor_id: sensorId, organization_id: organizationId }).returning<{ number: number }[]>('number');
  return made?.number ?? 0;
}

function method<Request, Response>(type: { fromPartial(fields: never): Request }, unary: Parameters<typeof call<Request, Response>>[0]): Method<Request, Response> {
  const succeeds = async (fields: Asked<Request>, as = 'org-1'): Promise<Response> => await call(unary, type.fromPartial(fields as never), keyOf(as));
  const fails = async (fields: Asked<Request>, as = 'org-1'): Promise<SeenError> => await callFails(unary, type.fromPartial(fields as never), keyOf(as));
  return Object.assign(succeeds, { fails });
}

function keyOf(organizationId: string): Record<string, string> {
  return { 'x-api-key': organizationId, 'x-organization-id': organizationId };
}

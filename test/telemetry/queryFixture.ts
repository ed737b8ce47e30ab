import type { ClientReadableStream, ServiceError } from '@grpc/grpc-js';
import type { Database } from '../../src/database';
import * as wire from '../../src/gen/sensorquery/v1/sensor_query_service';
import * as widgets from '../../src/gen/widget/v2/widget_service';
import { newId } from '../../src/kernel/ids';
import type { JsonValue } from '../../src/kernel/jsonValue';
import { Cursors } from '../../src/kernel/pages';
import { toTimestamp } from '../../src/kernel/timestamps';
import type { ValueType } from '../../src/sensorTemplates';
import { SensorQueries, sensorQueryHandlers, WidgetData, widgetDataHandlers } from '../../src/telemetry';
import { toColumns } from '../../src/telemetry/readings/storedReading';
import { type DeviceFixture, startDeviceFixture } from '../support/deviceFixture';
import { call, callFails, headers, parseError, startEdge, type GrpcErrorInfo } from '../support/edge';
import type { TestEngine } from '../support/engines';

/** The time and value of a reading. */
export type TimedValue = readonly [time: number, value: JsonValue];

type RequestFields<Request> = { [Field in keyof Request]?: Request[Field] };
type Method<Request, Response> = ((fields: RequestFields<Request>, as?: string) => Promise<Response>) & {
  fails(fields: RequestFields<Request>, as?: string): Promise<GrpcErrorInfo>;
};

/** A server with devices, telemetry, SensorQueryService and QueryWidgetData, and functions to add data. */
export interface QueryFixture {
  readonly devices: DeviceFixture;
  readonly database: Database;
  readonly latest: Method<wire.QueryLatestRequest, wire.QueryLatestResponse>;
  readonly range: Method<wire.QueryRangeRequest, wire.QueryRangeResponse>;
  readonly aggregate: Method<wire.QueryAggregateRequest, wire.QueryAggregateResponse>;
  readonly widgetData: Method<widgets.QueryWidgetDataRequest, widgets.QueryWidgetDataResponse>;
  stream(
    fields?: RequestFields<wire.StreamReadingsRequest>,
    as?: string,
  ): ClientReadableStream<wire.StreamReadingsResponse>;
  streamFails(fields: RequestFields<wire.StreamReadingsRequest>): Promise<GrpcErrorInfo>;
  /** Returns the id of a sensor template of this type. */
  template(valueType: ValueType): Promise<string>;
  /** Creates a device with sensors of these types, by default in org-1. */
  device(
    types: readonly ValueType[],
    organizationId?: string,
  ): Promise<{ readonly deviceId: string; readonly sensorIds: readonly string[] }>;
  /** Creates a sensor on a new device. */
  sensor(valueType?: ValueType, organizationId?: string): Promise<string>;
  /** Stores readings in this order, with increasing positions. Returns the number of the series. */
  store(
    sensorId: string,
    valueType: ValueType,
    readings: readonly TimedValue[],
    organizationId?: string,
  ): Promise<number>;
  stop(): Promise<void>;
}

const ROW_BATCH_SIZE = 100;

/** Starts the fixture on a new database. */
export async function startQueryFixture(engine: TestEngine): Promise<QueryFixture> {
  const devices = await startDeviceFixture(engine);
  const { database } = devices.test;
  const queries = new SensorQueries({
    database,
    clock: devices.clock,
    cursors: new Cursors(Buffer.alloc(32)),
    positions: devices.positions,
  });
  const { queryWidgetData } = widgets.WidgetServiceService; // the other methods are those of another module
  const edge = await startEdge((server) => {
    server.addService(wire.SensorQueryServiceService, sensorQueryHandlers(queries));
    server.addService({ queryWidgetData }, widgetDataHandlers(new WidgetData({ database, clock: devices.clock })));
  });
  for (const organizationId of ['org-1', 'org-2']) edge.keys.add(organizationId, { organizationId });
  const client = edge.client(wire.SensorQueryServiceClient);
  const widgetClient = edge.client(widgets.WidgetServiceClient);
  const templates = new Map<ValueType, string>();
  let positions = 0;
  const template: QueryFixture['template'] = async (valueType) => {
    const id = templates.get(valueType) ?? (await insertTemplate(database, valueType));
    templates.set(valueType, id);
    return id;
  };
  const device: QueryFixture['device'] = async (types, organizationId = 'org-1') => {
    const deviceId = newId();
    await database.db.knex('digital_devices').insert({
      id: deviceId,
      organization_id: organizationId,
      name: deviceId,
      name_folded: deviceId,
      revision: 1,
      created_at: 0,
      updated_at: 0,
    });
    const sensors = [];
    for (const [position, valueType] of types.entries()) {
      sensors.push({
        id: newId(),
        organization_id: organizationId,
        device_id: deviceId,
        sensor_template_id: await template(valueType),
        position,
        created_at: 0,
        updated_at: 0,
      });
    }
    for (let at = 0; at < sensors.length; at += ROW_BATCH_SIZE)
      await database.db.knex('sensors').insert(sensors.slice(at, at + ROW_BATCH_SIZE));
    return { deviceId, sensorIds: sensors.map(({ id }) => id) };
  };
  const open: QueryFixture['stream'] = (fields = {}, as = 'org-1') =>
    client.streamReadings(wire.StreamReadingsRequest.fromPartial(fields as never), headers(getKey(as)));
  return {
    devices,
    database,
    device,
    template,
    latest: method(wire.QueryLatestRequest, client.queryLatest.bind(client)),
    range: method(wire.QueryRangeRequest, client.queryRange.bind(client)),
    aggregate: method(wire.QueryAggregateRequest, client.queryAggregate.bind(client)),
    widgetData: method(widgets.QueryWidgetDataRequest, widgetClient.queryWidgetData.bind(widgetClient)),
    stream: open,
    streamFails: async (fields) =>
      await new Promise((resolve) =>
        open(fields)
          .on('error', (error: ServiceError) => resolve(parseError(error)))
          .resume(),
      ),
    sensor: async (valueType = 'number', organizationId = 'org-1') =>
      (await device([valueType], organizationId)).sensorIds[0] ?? '',
    store: async (sensorId, valueType, readings, organizationId = 'org-1') => {
      const number = await getSeries(database, sensorId, organizationId);
      const rows = readings.map(([time, value]) => ({
        series: number,
        time,
        position: (positions += 1),
        ...toColumns(valueType, value),
      }));
      for (let at = 0; at < rows.length; at += ROW_BATCH_SIZE)
        await database.db.knex('readings').insert(rows.slice(at, at + ROW_BATCH_SIZE));
      return number;
    },
    stop: async () => {
      await edge.stop();
      await devices.stop();
    },
  };
}

/** Returns a time as it appears in a request. */
export function at(time: number): { seconds: number; nanos: number } {
  return toTimestamp(time);
}

/** Returns the value of a reading. */
export function getValue(reading: wire.Reading | undefined): unknown {
  return reading?.value?.value;
}

async function insertTemplate({ db }: Database, valueType: ValueType): Promise<string> {
  const id = newId();
  const key = await db.knex('normalized_keys').first<{ id: string }>('id');
  await db.knex('sensor_templates').insert({
    id,
    owner: 'system',
    key_name_id: key.id,
    sensor_type: valueType,
    value_type: valueType,
    unit_measurement_id: '',
    description: '',
    created_at: 0,
    updated_at: 0,
  });
  return id;
}

async function getSeries({ db }: Database, sensorId: string, organizationId: string): Promise<number> {
  const known = await db
    .knex('reading_series')
    .where({ sensor_id: sensorId })
    .first<{ number: number } | undefined>('number');
  if (known) return known.number;
  const [created] = await db
    .knex('reading_series')
    .insert({ sensor_id: sensorId, organization_id: organizationId })
    .returning<{ number: number }[]>('number');
  return created?.number ?? 0;
}

function method<Request, Response>(
  type: { fromPartial(fields: never): Request },
  unary: Parameters<typeof call<Request, Response>>[0],
): Method<Request, Response> {
  const succeeds = async (fields: RequestFields<Request>, as = 'org-1'): Promise<Response> =>
    await call(unary, type.fromPartial(fields as never), getKey(as));
  const fails = async (fields: RequestFields<Request>, as = 'org-1'): Promise<GrpcErrorInfo> =>
    await callFails(unary, type.fromPartial(fields as never), getKey(as));
  return Object.assign(succeeds, { fails });
}

function getKey(organizationId: string): Record<string, string> {
  return { 'x-api-key': organizationId, 'x-organization-id': organizationId };
}

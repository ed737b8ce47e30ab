import { GetDigitalDeviceRequest } from '../../src/gen/digitaldevice/v2/digital_device_service';
import { ListExecutionsRequest, PreviewEncoderRequest, WatchExecutionsRequest } from '../../src/gen/actuator_command/v2/actuator_command_service';
import { QueryLatestRequest, StreamReadingsRequest } from '../../src/gen/sensorquery/v1/sensor_query_service';
import { png } from '../../test/media/pictures';
import { usualEncoder } from '../bench/encoders';
import { DEVICES } from '../bench/fleet';
import { COMMANDS } from '../bench/site';
import { type GrpcClient, openStream } from './grpcClient';
import type { Work } from './pacer';
import type { Random } from './random';
import type { SoakSite } from './site';
import { CANCELLED, STREAM_MS, type Rates } from './standardLoad';

const READINGS = '/sensorquery.v1.SensorQueryService';
const ENCODER = usualEncoder(16 * 1024);
const ENDLESS = 'function encodeDownlink() { for (;;) {} }';
const HOSTILE = 0.1;
const PICTURE_PIXELS = 640;
/** Drawn once: the machine's time goes to the server. */
const PICTURES = [1, 2, 3, 4].map((tint) => png(PICTURE_PIXELS, PICTURE_PIXELS, (x, y) => [(x * y) % 256, (x + tint) % 256, y % 256, 255]));

/** Works of a site, at these rates. */
export function worksOf(site: SoakSite, grpc: GrpcClient, rates: Rates, random: Random): readonly Work[] {
  return [
    { name: 'uplinks over MQTT', perSecond: rates.mqttUplinks, once: async () => await site.mqttUplink() },
    { name: 'uplinks of a gateway', perSecond: rates.gatewayUplinks, once: async () => await site.gatewayUplink() },
    { name: 'executions', perSecond: rates.executions, once: async () => await execute(site, random) },
    { name: 'reads over gRPC', perSecond: rates.grpcReads, once: async () => await readGrpc(site, grpc, random) },
    { name: 'reads over REST', perSecond: rates.restReads, once: async () => await readRest(site, random) },
    { name: 'streams', perSecond: rates.streams, once: async () => await stream(site, random) },
    { name: 'previews of encoders', perSecond: rates.previews, once: async () => await preview(site, grpc, random) },
    { name: 'pictures', perSecond: rates.pictures, once: async () => await picture(site, random) },
    { name: 'keys', perSecond: rates.keys, once: async () => await key(site) },
    { name: 'connections', perSecond: rates.connections, once: async () => await connection(site, random) },
    { name: 'changes of devices', perSecond: rates.changes, once: async () => await change(site, random) },
  ];
}

async function execute(site: SoakSite, random: Random): Promise<void> {
  const isCancelled = random.chance(CANCELLED);
  const executionId = await site.execute();
  if (isCancelled) await site.rest.json('POST', `/api/v2/actuator-executions/${executionId}:cancel`, {}, [200, 409]); // 409: it has left already
}

async function readGrpc({ valves, meters }: SoakSite, grpc: GrpcClient, random: Random): Promise<void> {
  const { deviceId: id } = random.oneOf(valves);
  const kind = random.next();
  if (kind < 0.5) return void (await grpc.ask(`${DEVICES}/GetDigitalDevice`, GetDigitalDeviceRequest.encode(GetDigitalDeviceRequest.fromPartial({ id })).finish()));
  if (kind < 0.7) return void (await grpc.ask(`${COMMANDS}/ListExecutions`, ListExecutionsRequest.encode(ListExecutionsRequest.fromPartial({ id })).finish()));
  await grpc.ask(`${READINGS}/QueryLatest`, QueryLatestRequest.encode(QueryLatestRequest.fromPartial({ sensorIds: [...random.oneOf(meters).sensors] })).finish());
}

async function readRest({ rest, valves, meters }: SoakSite, random: Random): Promise<void> {
  const kind = random.next();
  if (kind < 0.3) return void (await rest.json('GET', '/api/v2/devices'));
  if (kind < 0.7) return void (await rest.json('GET', `/api/v2/devices/${random.oneOf(valves).deviceId}`));
  const [from, to] = [new Date(Date.now() - 60_000).toISOString(), new Date().toISOString()];
  await rest.json('GET', `/api/v2/readings?sensorIds=${random.oneOf(meters).counter}&from=${from}&to=${to}`);
}

/** Half of them are ended by the client in peace, half by a connection that breaks. */
async function stream({ server, meters }: SoakSite, random: Random): Promise<void> {
  const readings = { path: `${READINGS}/StreamReadings`, message: StreamReadingsRequest.encode(StreamReadingsRequest.fromPartial({ sensorIds: [...random.oneOf(meters).sensors] })).finish() };
  const executions = { path: `${COMMANDS}/WatchExecutions`, message: WatchExecutionsRequest.encode(WatchExecutionsRequest.fromPartial({})).finish() };
  const { path, message } = random.chance(0.5) ? readings : executions;
  await openStream(server, path, message, random.next() * 2 * STREAM_MS, random.chance(0.5));
}

async function preview({ valves }: SoakSite, grpc: GrpcClient, random: Random): Promise<void> {
  const customEncoder = random.chance(HOSTILE) ? ENDLESS : ENCODER;
  const request = PreviewEncoderRequest.fromPartial({ id: random.oneOf(valves).deviceId, customEncoder, params: { setting: 'setting3', value: Math.floor(random.next() * 90), keep: true } });
  await grpc.ask(`${COMMANDS}/PreviewEncoder`, PreviewEncoderRequest.encode(request).finish());
}

async function picture({ rest }: SoakSite, random: Random): Promise<void> {
  const { body } = await rest.ask('POST', '/api/v2/media', { type: 'image/png', bytes: random.oneOf(PICTURES) });
  const { id } = JSON.parse(body.toString()) as { id: string };
  await rest.ask('GET', `/api/v2/media/${id}/content?variant=thumbnail`);
  await rest.ask('DELETE', `/api/v2/media/${id}`, undefined, [200, 204]);
}

async function key({ rest, server }: SoakSite): Promise<void> {
  const { apiKey, key: made } = await rest.json<{ apiKey: { id: string }; key: string }>('POST', '/api/v2/api-keys', { name: 'Soak', scopes: ['devices:read'] });
  const its = { organizationId: server.key.organizationId, apiKey: made };
  await rest.ask('GET', '/api/v2/who-am-i', undefined, [200], its);
  await rest.json('POST', `/api/v2/api-keys/${apiKey.id}/revoke`, {});
  await rest.ask('GET', '/api/v2/who-am-i', undefined, [401], its);
}

async function connection({ rest, brokerUrl }: SoakSite, random: Random): Promise<void> {
  const configuration = { url: brokerUrl, uplinkTopic: 'soak/{clientDeviceId}/up' };
  const { id } = await rest.json<{ id: string }>('POST', '/api/v2/connections', { connectorId: 'mqtt', name: `Soak ${random.next()}`, configuration });
  await rest.json('PATCH', `/api/v2/connections/${id}`, { configuration: { ...configuration, uplinkTopic: 'soak/{clientDeviceId}/values' } });
  await rest.ask('DELETE', `/api/v2/connections/${id}`, undefined, [200, 204]);
}

async function change({ rest, valves }: SoakSite, random: Random): Promise<void> {
  await rest.json('PATCH', `/api/v2/devices/${random.oneOf(valves).deviceId}`, { name: `Valve ${Math.floor(random.next() * 1e6)}` });
}

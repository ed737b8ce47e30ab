import { GetDigitalDeviceRequest } from '../../src/gen/digitaldevice/v2/digital_device_service';
import {
  ListExecutionsRequest,
  PreviewEncoderRequest,
  WatchExecutionsRequest,
} from '../../src/gen/actuator_command/v2/actuator_command_service';
import { QueryLatestRequest, StreamReadingsRequest } from '../../src/gen/sensorquery/v1/sensor_query_service';
import { png } from '../../test/media/sampleImages';
import { createEncoder } from '../bench/encoders';
import { DEVICES } from '../bench/fleet';
import { COMMANDS } from '../bench/site';
import { type GrpcClient, openStream } from './grpcClient';
import type { Work } from './pacer';
import type { Random } from './random';
import type { SoakSite } from './site';
import { CANCELLED_SHARE, STREAM_MS, type Rates } from './standardLoad';

const READINGS = '/sensorquery.v1.SensorQueryService';
const ENCODER = createEncoder(16 * 1024);
const ENDLESS = 'function encodeDownlink() { for (;;) {} }';
const HOSTILE_SHARE = 0.1;
const IMAGE_PIXELS = 640;
/** Created once, so that the CPU time is left to the server. */
const IMAGES = [1, 2, 3, 4].map((tint) =>
  png(IMAGE_PIXELS, IMAGE_PIXELS, (x, y) => [(x * y) % 256, (x + tint) % 256, y % 256, 255]),
);

/** Lists the operations on a site, at these rates. */
export function listWorks(site: SoakSite, grpc: GrpcClient, rates: Rates, random: Random): readonly Work[] {
  return [
    { name: 'uplinks over MQTT', perSecond: rates.mqttUplinks, run: async () => await site.sendMqttUplink() },
    { name: 'uplinks of a gateway', perSecond: rates.gatewayUplinks, run: async () => await site.sendGatewayUplink() },
    { name: 'executions', perSecond: rates.executions, run: async () => await execute(site, random) },
    { name: 'reads over gRPC', perSecond: rates.grpcReads, run: async () => await readGrpc(site, grpc, random) },
    { name: 'reads over REST', perSecond: rates.restReads, run: async () => await readRest(site, random) },
    { name: 'streams', perSecond: rates.streams, run: async () => await runStream(site, random) },
    {
      name: 'previews of encoders',
      perSecond: rates.previews,
      run: async () => await previewEncoder(site, grpc, random),
    },
    { name: 'images', perSecond: rates.images, run: async () => await uploadImage(site, random) },
    { name: 'keys', perSecond: rates.keys, run: async () => await useNewKey(site) },
    { name: 'connections', perSecond: rates.connections, run: async () => await changeConnection(site, random) },
    { name: 'changes of devices', perSecond: rates.changes, run: async () => await renameDevice(site, random) },
  ];
}

async function execute(site: SoakSite, random: Random): Promise<void> {
  const isCancelled = random.chance(CANCELLED_SHARE);
  const executionId = await site.execute();
  if (isCancelled)
    await site.rest.requestJson('POST', `/api/v2/actuator-executions/${executionId}:cancel`, {}, [200, 409]); // 409: it was already sent
}

async function readGrpc({ valves, meters }: SoakSite, grpc: GrpcClient, random: Random): Promise<void> {
  const { deviceId: id } = random.pickOne(valves);
  const kind = random.next();
  if (kind < 0.5)
    return void (await grpc.call(
      `${DEVICES}/GetDigitalDevice`,
      GetDigitalDeviceRequest.encode(GetDigitalDeviceRequest.fromPartial({ id })).finish(),
    ));
  if (kind < 0.7)
    return void (await grpc.call(
      `${COMMANDS}/ListExecutions`,
      ListExecutionsRequest.encode(ListExecutionsRequest.fromPartial({ id })).finish(),
    ));
  await grpc.call(
    `${READINGS}/QueryLatest`,
    QueryLatestRequest.encode(
      QueryLatestRequest.fromPartial({ sensorIds: [...random.pickOne(meters).sensors] }),
    ).finish(),
  );
}

async function readRest({ rest, valves, meters }: SoakSite, random: Random): Promise<void> {
  const kind = random.next();
  if (kind < 0.3) return void (await rest.requestJson('GET', '/api/v2/devices'));
  if (kind < 0.7) return void (await rest.requestJson('GET', `/api/v2/devices/${random.pickOne(valves).deviceId}`));
  const [from, to] = [new Date(Date.now() - 60_000).toISOString(), new Date().toISOString()];
  await rest.requestJson('GET', `/api/v2/readings?sensorIds=${random.pickOne(meters).counter}&from=${from}&to=${to}`);
}

/** Runs a stream. Half of the streams are closed cleanly by the client, half by breaking the connection. */
async function runStream({ server, meters }: SoakSite, random: Random): Promise<void> {
  const readings = {
    path: `${READINGS}/StreamReadings`,
    message: StreamReadingsRequest.encode(
      StreamReadingsRequest.fromPartial({ sensorIds: [...random.pickOne(meters).sensors] }),
    ).finish(),
  };
  const executions = {
    path: `${COMMANDS}/WatchExecutions`,
    message: WatchExecutionsRequest.encode(WatchExecutionsRequest.fromPartial({})).finish(),
  };
  const { path, message } = random.chance(0.5) ? readings : executions;
  await openStream(server, path, message, random.next() * 2 * STREAM_MS, random.chance(0.5));
}

async function previewEncoder({ valves }: SoakSite, grpc: GrpcClient, random: Random): Promise<void> {
  const customEncoder = random.chance(HOSTILE_SHARE) ? ENDLESS : ENCODER;
  const request = PreviewEncoderRequest.fromPartial({
    id: random.pickOne(valves).deviceId,
    customEncoder,
    params: { setting: 'setting3', value: Math.floor(random.next() * 90), keep: true },
  });
  await grpc.call(`${COMMANDS}/PreviewEncoder`, PreviewEncoderRequest.encode(request).finish());
}

async function uploadImage({ rest }: SoakSite, random: Random): Promise<void> {
  const { body } = await rest.request('POST', '/api/v2/media', { type: 'image/png', bytes: random.pickOne(IMAGES) });
  const { id } = JSON.parse(body.toString()) as { id: string };
  await rest.request('GET', `/api/v2/media/${id}/content?variant=thumbnail`);
  await rest.request('DELETE', `/api/v2/media/${id}`, undefined, [200, 204]);
}

async function useNewKey({ rest, server }: SoakSite): Promise<void> {
  const { apiKey, key: made } = await rest.requestJson<{ apiKey: { id: string }; key: string }>(
    'POST',
    '/api/v2/api-keys',
    {
      name: 'Soak',
      scopes: ['devices:read'],
    },
  );
  const newKey = { organizationId: server.key.organizationId, apiKey: made };
  await rest.request('GET', '/api/v2/who-am-i', undefined, [200], newKey);
  await rest.requestJson('POST', `/api/v2/api-keys/${apiKey.id}/revoke`, {});
  await rest.request('GET', '/api/v2/who-am-i', undefined, [401], newKey);
}

async function changeConnection({ rest, brokerUrl }: SoakSite, random: Random): Promise<void> {
  const configuration = { url: brokerUrl, uplinkTopic: 'soak/{clientDeviceId}/up' };
  const { id } = await rest.requestJson<{ id: string }>('POST', '/api/v2/connections', {
    connectorId: 'mqtt',
    name: `Soak ${random.next()}`,
    configuration,
  });
  await rest.requestJson('PATCH', `/api/v2/connections/${id}`, {
    configuration: { ...configuration, uplinkTopic: 'soak/{clientDeviceId}/values' },
  });
  await rest.request('DELETE', `/api/v2/connections/${id}`, undefined, [200, 204]);
}

async function renameDevice({ rest, valves }: SoakSite, random: Random): Promise<void> {
  await rest.requestJson('PATCH', `/api/v2/devices/${random.pickOne(valves).deviceId}`, {
    name: `Valve ${Math.floor(random.next() * 1e6)}`,
  });
}

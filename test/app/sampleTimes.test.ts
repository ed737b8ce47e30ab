import { connectAsync, type MqttClient } from 'mqtt';
import { APPLICATION, DEV_EUI, startBroker, type TestBroker } from '../connections/chirpStackFixture';
import { TestGateway } from '../executions/testGateway';
import { GatewayServiceClient } from '../../src/gen/gateway/v1/gateway_service';
import { newId } from '../../src/kernel/ids';
import { engines } from '../support/engines';
import { HttpClient, type JsonObject } from '../support/http';
import { as, startTestApp, type TestApp } from '../support/testApp';
import { pollUntil } from '../support/waitUntil';

const SAMPLED_AT = '2026-11-28T17:54:37.000Z';
/** What devices send, and the time of the reading; `received`: the time of receipt. */
const TIMES: readonly (readonly [sent: unknown, time: string])[] = [
  ['2026-11-28T17:54:37Z', SAMPLED_AT],
  ['20261128T175437Z', SAMPLED_AT],
  ['2026-11-28T19:54:37+02', SAMPLED_AT],
  ['2026-11-28T19:54:37+0200', SAMPLED_AT],
  ['2026-11-28T17:54:37,250Z', '2026-11-28T17:54:37.250Z'],
  [1_795_888_477, SAMPLED_AT],
  [1_795_888_477_000, SAMPLED_AT],
  [1_795_888_477_000_000, SAMPLED_AT],
  [1_795_888_477_000_000_000, SAMPLED_AT],
  ['1795888477', SAMPLED_AT],
  ['2026-02-30T00:00:00Z', 'received'],
  ['2026-11-28T17:54:37', 'received'],
  ['2026-11-28', 'received'],
  ['20261128175437', 'received'],
  ['soon', 'received'],
  ['2999-01-01T00:00:00Z', 'received'],
  [12, 'received'],
  [undefined, 'received'],
];

const HOUR_MS = 3_600_000;

interface ReadingJson {
  readonly time: string;
  readonly receivedAt: string;
  readonly timeSource?: string;
  readonly number: number;
}

/** Returns the time and its source as the table TIMES has them. */
function describeTime({ time, receivedAt, timeSource }: ReadingJson): string {
  if (timeSource !== 'received') return `${time} ${timeSource ?? 'unknown'}`;
  const isNearReceipt = Math.abs(Date.parse(time) - Date.parse(receivedAt)) < HOUR_MS;
  return isNearReceipt ? 'received' : `${time} is not the time of receipt`;
}

describe.each(engines())('the time of a sample, on $name', (engine) => {
  let server: TestApp;
  let http: HttpClient;
  let broker: TestBroker;
  let device: MqttClient;
  beforeAll(async () => {
    broker = await startBroker();
    device = await connectAsync(broker.url);
    server = await startTestApp(engine);
    http = new HttpClient(server.app.addresses.http ?? '', server.app.ca ?? '', as(server.key, server.organizationId));
  });
  afterAll(async () => {
    http.close();
    await server.stop();
    await device.endAsync();
    await broker.stop();
  });

  /** Creates a connection and waits until it is connected. */
  async function connect(connectorId: string, configuration: JsonObject): Promise<string> {
    const body = {
      connectorId,
      name: newId(),
      configuration: { url: broker.url, protocol: '3.1.1', ...configuration },
    };
    const { id } = await http.call<{ id: string }>('POST', '/api/v2/connections', body);
    await pollUntil(
      async () => await http.call<{ status: { state: string } }>('GET', `/api/v2/connections/${id}`),
      ({ status }) => status.state === 'connected' || status.state === 'degraded',
    );
    return id;
  }

  /** Creates a device with one sensor of numbers. Returns the id of the sensor. */
  async function addSensor(connectionId: string, clientDeviceId: string, sourcePath: string): Promise<string> {
    const { id } = await http.call<{ id: string }>('POST', '/api/v2/devices', {
      name: clientDeviceId,
      physicalDevice: { connectionId, clientDeviceId },
    });
    const { sensorTemplates } = await http.call<{ sensorTemplates: { id: string; keyName: string }[] }>(
      'GET',
      '/api/v2/devices/sensor-templates',
    );
    const template = sensorTemplates.find(({ keyName }) => keyName === 'valve_position');
    const { sensors } = await http.call<{ sensors: { id: string }[] }>('POST', `/api/v2/devices/${id}/sensors`, {
      sensorTemplateIds: [template?.id],
    });
    const sensorId = sensors[0]?.id ?? '';
    await http.call('PUT', `/api/v2/devices/${id}/sensor-mappings`, { mappings: [{ sensorId, sourcePath }] });
    return sensorId;
  }

  /** Returns the readings of a sensor in the order of their values, when there are this many. */
  async function getReadings(sensorId: string, count: number): Promise<ReadingJson[]> {
    const query = new URLSearchParams({
      sensorIds: sensorId,
      from: '2000-01-01T00:00:00Z',
      to: '2999-01-01T00:00:00Z',
    });
    const { readings } = await pollUntil(
      async () => await http.call<{ readings: ReadingJson[] }>('GET', `/api/v2/readings?${query.toString()}`),
      (page) => page.readings.length === count,
    );
    return readings.toSorted((left, right) => left.number - right.number);
  }

  /** Returns the warnings about received data of a connection, when the first one has this count. */
  async function getDataWarnings(connectionId: string, count: number): Promise<JsonObject[]> {
    const path = `/api/v2/connections/${connectionId}`;
    const { status } = await pollUntil(
      async () => await http.call<{ status: { dataWarnings: JsonObject[] } }>('GET', path),
      (connection) => Number(connection.status.dataWarnings[0]?.['count']) >= count,
    );
    return status.dataWarnings;
  }

  it('is understood in every form, or marked as the time of receipt, over MQTT', async () => {
    const connectionId = await connect('mqtt', { uplinkTopic: `${engine.name}/{clientDeviceId}/up`, timePath: 'at' });
    const sensorId = await addSensor(connectionId, 'valve', 'position');
    for (const [position, [at]] of TIMES.entries())
      await device.publishAsync(`${engine.name}/valve/up`, JSON.stringify({ position, at }), { qos: 1 });
    const readings = await getReadings(sensorId, TIMES.length);
    expect(readings.map(describeTime)).toEqual(
      TIMES.map(([, time]) => (time === 'received' ? 'received' : `${new Date(time).toISOString()} device`)),
    );
    const { sensors } = await http.call<{ sensors: { reading: ReadingJson }[] }>(
      'GET',
      `/api/v2/readings:latest?sensorIds=${sensorId}`,
    );
    expect(sensors[0]?.reading).toMatchObject({ number: TIMES.length - 1, timeSource: 'received' });
    expect(await getDataWarnings(connectionId, 7)).toMatchObject([
      {
        code: 'sample_times_unreadable',
        count: 7, // not the message without a time
        topic: `${engine.name}/valve/up`,
        clientDeviceId: 'valve',
        reason: expect.stringMatching(/^time_before_2000: /),
        example: '12',
      },
    ]);
    expect(server.log.of('mqtt.sample_time_unreadable')[0]).toMatchObject({
      connection_id: connectionId,
      reasons: [{ topic: `${engine.name}/valve/up`, client_device_id: 'valve' }],
    });
  });

  it('without an offset is in the time zone of the connection', async () => {
    const connectionId = await connect('mqtt', {
      uplinkTopic: `${engine.name}/rome/{clientDeviceId}/up`,
      timePath: 'at',
      timeZone: 'Europe/Rome',
    });
    const sensorId = await addSensor(connectionId, 'roman-valve', 'position');
    const sent = ['2026-11-28T18:54:37', '2026-07-28T19:54:37', '2026-10-25T02:30:00', '2026-03-29T02:30:00'];
    for (const [position, at] of sent.entries())
      await device.publishAsync(`${engine.name}/rome/roman-valve/up`, JSON.stringify({ position, at }), { qos: 1 });
    expect((await getReadings(sensorId, sent.length)).map(describeTime)).toEqual([
      `${SAMPLED_AT} device`,
      '2026-07-28T17:54:37.000Z device',
      'received',
      'received',
    ]);
    expect(await getDataWarnings(connectionId, 2)).toMatchObject([
      { count: 2, reason: expect.stringMatching(/^time_impossible: /), example: '"2026-03-29T02:30:00"' },
    ]);
  });

  it('is understood in every form over ChirpStack, whose event is not lost', async () => {
    const connectionId = await connect('chirpstack', { applicationId: APPLICATION, encoding: 'json' });
    const sensorId = await addSensor(connectionId, DEV_EUI, 'object.position');
    const texts = TIMES.filter(([sent]) => typeof sent === 'string' || sent === undefined);
    for (const [position, [time]] of texts.entries())
      await device.publishAsync(
        `application/${APPLICATION}/device/${DEV_EUI}/event/up`,
        JSON.stringify({
          deduplicationId: newId(),
          time,
          deviceInfo: { applicationId: APPLICATION, devEui: DEV_EUI },
          fCnt: position,
          fPort: 1,
          object: { position },
        }),
        { qos: 1 },
      );
    const readings = await getReadings(sensorId, texts.length);
    expect(readings.map(describeTime)).toEqual(
      texts.map(([, time]) => (time === 'received' ? 'received' : `${new Date(time).toISOString()} network`)),
    );
    expect(await getDataWarnings(connectionId, 6)).toMatchObject([
      { code: 'sample_times_unreadable', count: 6, clientDeviceId: DEV_EUI, example: '"2999-01-01T00:00:00Z"' },
    ]);
  });

  it('is that of the gateway over gRPC', async () => {
    const { id } = await http.call<{ id: string }>('POST', '/api/v2/connections', {
      connectorId: 'gateway',
      name: newId(),
    });
    const sensorId = await addSensor(id, 'valve', 'position');
    const gateway = await TestGateway.attach(
      { gateways: server.client(GatewayServiceClient) },
      { connectionId: id, headers: as(server.key, server.organizationId) },
    );
    const times = [Date.parse(SAMPLED_AT), 12, Date.parse('2999-01-01T00:00:00Z'), undefined];
    for (const [position, time] of times.entries())
      await gateway.uplink('valve', { position }, time === undefined ? {} : { time });
    expect((await getReadings(sensorId, times.length)).map(describeTime)).toEqual([
      `${SAMPLED_AT} gateway`,
      'received',
      'received',
      'received',
    ]);
    expect(await getDataWarnings(id, 2)).toMatchObject([
      {
        code: 'sample_times_unreadable',
        count: 2,
        topic: '',
        clientDeviceId: 'valve',
        example: '"2999-01-01T00:00:00.000Z"',
      },
    ]);
    await gateway.cut();
  });
});

import { randomBytes } from 'node:crypto';
import { connectAsync, type MqttClient } from 'mqtt';
import { GatewayServiceClient, UplinkOutcome } from '../../src/gen/gateway/v1/gateway_service';
import { newId } from '../../src/kernel/ids';
import { APPLICATION, DEV_EUI, startBroker, type TestBroker } from '../connections/chirpStackFixture';
import { TestGateway } from '../executions/testGateway';
import { ChirpStackServer } from '../support/chirpStack/chirpStackServer';
import { engines } from '../support/engines';
import { HttpClient, type JsonObject } from '../support/http';
import { importDecoder } from '../support/importedProfiles';
import { TestClock } from '../support/testClock';
import { as, startTestApp, type TestApp } from '../support/testApp';
import { pollUntil } from '../support/waitUntil';

/** A device with one sensor per path. */
interface BoundDevice {
  readonly id: string;
  readonly clientDeviceId: string;
  /** Returns the sensors as QueryLatest shows them, by source path. */
  readonly latest: () => Promise<Record<string, LatestReading>>;
  /** Returns the physical device of GetDigitalDevice. */
  readonly physical: () => Promise<JsonObject>;
}

interface LatestReading {
  readonly reading?: { readonly number?: number; readonly integer?: string };
  readonly refused?: { readonly count: number; readonly lastValue: string; readonly sourcePath: string };
  readonly noValue?: { readonly time: string; readonly reason: string };
  readonly decoderWarnings?: { readonly time: string; readonly warnings: readonly string[] };
}

interface Status {
  readonly state: string;
  readonly warnings: readonly string[];
  readonly dataWarnings: readonly JsonObject[];
}

const ENCODINGS = ['protobuf', 'json'] as const;
type Encoding = (typeof ENCODINGS)[number];

/** The complete server with connections of all types. */
describe.each(engines())('data that is nearly right, on $name', (engine) => {
  let server: TestApp;
  let http: HttpClient;
  let gateways: GatewayServiceClient;
  let broker: TestBroker;
  let sender: MqttClient;
  let mqttId: string;
  let templates: Readonly<Record<'number' | 'integer' | 'json', string>>;

  beforeAll(async () => {
    broker = await startBroker();
    server = await startTestApp(engine);
    http = new HttpClient(server.app.addresses.http ?? '', server.app.ca ?? '', as(server.key, server.organizationId));
    gateways = server.client(GatewayServiceClient);
    sender = await connectAsync(broker.url);
    mqttId = await connectMqtt();
    const { id: keyNameId } = await http.call<{ id: string }>(
      'POST',
      '/api/v2/devices/sensor-templates/normalized-keys',
      { name: 'nearly_right' },
    );
    const create = async (valueType: string): Promise<string> =>
      (
        await http.call<{ id: string }>('POST', '/api/v2/devices/sensor-templates', {
          keyNameId,
          sensorType: valueType,
          valueType,
        })
      ).id;
    templates = { number: await create('number'), integer: await create('integer'), json: await create('json') };
  });
  afterAll(async () => {
    await sender.endAsync();
    http.close();
    await server.stop();
    await broker.stop();
  });

  async function connect(connectorId: string, configuration: JsonObject = {}): Promise<string> {
    const { id } = await http.call<{ id: string }>('POST', '/api/v2/connections', {
      connectorId,
      name: newId(),
      configuration,
    });
    if (connectorId !== 'gateway')
      await pollUntil(
        async () => await getStatus(id),
        ({ state }) => state !== 'connecting',
      );
    return id;
  }
  const connectMqtt = async (uplinkTopic = 'site/{clientDeviceId}/up'): Promise<string> =>
    await connect('mqtt', { url: broker.url, protocol: '3.1.1', uplinkTopic });
  /** Starts a ChirpStack with one device and connects to it. */
  async function connectChirpStack(encoding: Encoding, devEui = DEV_EUI): Promise<[ChirpStackServer, string]> {
    const network = new ChirpStackServer({ url: broker.url, applicationId: APPLICATION, encoding });
    network.addDevice(devEui);
    await network.start();
    const settings = { url: broker.url, protocol: '3.1.1', applicationId: APPLICATION, encoding };
    return [network, await connect('chirpstack', settings)];
  }
  const importProfile = async (decoder: string): Promise<string> =>
    await importDecoder(server.database.database, new TestClock(), decoder, `m-${newId()}`);
  const getStatus = async (id: string): Promise<Status> =>
    (await http.call<{ status: Status }>('GET', `/api/v2/connections/${id}`)).status;
  const waitForUnreadable = async (id: string): Promise<Status> =>
    await pollUntil(
      async () => await getStatus(id),
      ({ warnings }) => warnings.includes('uplinks_unreadable'),
    );

  /** Binds a device with one sensor for each path. */
  async function bind(
    connectionId: string,
    mappings: Readonly<Record<string, 'number' | 'integer' | 'json'>>,
    { clientDeviceId = newId(), profileId = undefined as string | undefined } = {},
  ): Promise<BoundDevice> {
    const configuration = profileId === undefined ? {} : { profileId };
    const { id } = await http.call<{ id: string }>('POST', '/api/v2/devices', {
      name: clientDeviceId,
      physicalDevice: { connectionId, clientDeviceId, configuration },
    });
    const pathBySensor = new Map<string, string>();
    for (const [path, type] of Object.entries(mappings)) {
      const { sensors } = await http.call<{ sensors: { id: string }[] }>('POST', `/api/v2/devices/${id}/sensors`, {
        sensorTemplateIds: [templates[type]],
      });
      pathBySensor.set(sensors.at(-1)?.id ?? '', path);
    }
    await http.call('PUT', `/api/v2/devices/${id}/sensor-mappings`, {
      mappings: [...pathBySensor].map(([sensorId, sourcePath]) => ({ sensorId, sourcePath })),
    });
    return {
      id,
      clientDeviceId,
      latest: async () => {
        const { sensors } = await http.call<{ sensors: (LatestReading & { sensorId: string })[] }>(
          'GET',
          `/api/v2/readings:latest?deviceIds=${id}`,
        );
        return Object.fromEntries(sensors.map((one) => [pathBySensor.get(one.sensorId), one]));
      },
      physical: async () =>
        (await http.call<{ physicalDevice: JsonObject }>('GET', `/api/v2/devices/${id}`)).physicalDevice,
    };
  }
  /** Publishes a message of a device. */
  async function publish(device: BoundDevice, payload: string | Buffer): Promise<void> {
    await sender.publishAsync(`site/${device.clientDeviceId}/up`, payload, { qos: 1 });
  }

  describe('over MQTT', () => {
    it.each([
      ['{"temperature":nan,"humidity":40}', 'nan'],
      ['{"temperature":NaN,"humidity":40}', 'NaN'],
      ['{"temperature":Infinity,"humidity":40}', 'Infinity'],
      ['{"temperature":-inf,"humidity":40}', '-inf'],
      ['{"temperature":1e400,"humidity":40}', '1e400'],
      ['{"temperature":None,"humidity":40}', 'None'],
    ])('%s: the number is refused, and the rest is stored', async (payload, sent) => {
      const device = await bind(mqttId, { temperature: 'number', humidity: 'number' });
      const before = await getStatus(mqttId);
      await publish(device, payload);
      expect(await pollUntil(device.latest, ({ humidity }) => humidity?.reading !== undefined)).toMatchObject({
        temperature: { refused: { count: 1, lastValue: sent, sourcePath: 'temperature' } },
        humidity: { reading: { number: 40 } },
      });
      const { temperature } = await device.latest();
      expect([temperature?.reading, temperature?.noValue]).toEqual([undefined, undefined]);
      expect(await getStatus(mqttId)).toMatchObject({ warnings: before.warnings });
    });

    it.each(['{"temperature":null,"on":True,"humidity":40,}', '{"humidity":40}\0'])('%j is read', async (payload) => {
      const device = await bind(mqttId, { temperature: 'number', humidity: 'number' });
      await publish(device, payload);
      const { temperature } = await pollUntil(device.latest, ({ humidity }) => humidity?.reading?.number === 40);
      expect([temperature?.reading, temperature?.refused]).toEqual([undefined, undefined]);
    });

    it('a large integer is refused as it was sent, and is only rounded for a sensor of type number', async () => {
      const device = await bind(mqttId, { exact: 'integer', rounded: 'number' });
      await publish(device, '{"exact":9007199254740993,"rounded":9007199254740993}');
      expect(await pollUntil(device.latest, ({ rounded }) => rounded?.reading !== undefined)).toMatchObject({
        exact: { refused: { lastValue: '9007199254740993' } },
        rounded: { reading: { number: 9007199254740992 } },
      });
    });

    it('a value of type json keeps what can be read', async () => {
      const device = await bind(mqttId, { data: 'json' });
      await publish(device, '{"data":{"t":nan,"h":[40]}}');
      expect(await pollUntil(device.latest, ({ data }) => data?.reading !== undefined)).toMatchObject({
        data: { reading: { json: { t: null, h: [40] } }, refused: { lastValue: 'nan' } },
      });
    });

    it.each([
      ['{"temperature":21.5,"humid', /^json_incomplete: /],
      ["{'temperature':21.5}", /^json_invalid: /],
      [Buffer.from([1, 2, 255]), /^not_json: /],
    ])('%s is kept as bytes and reported, until the device can be read again', async (payload, reason) => {
      const id = await connectMqtt();
      const device = await bind(id, { temperature: 'number', humidity: 'number' });
      await publish(device, '{"temperature":20,"humidity":30}');
      await pollUntil(device.latest, ({ humidity }) => humidity?.reading?.number === 30);
      expect(await getStatus(id)).toMatchObject({
        warnings: expect.not.arrayContaining(['uplinks_unreadable']) as unknown,
      });

      await publish(device, payload);
      const noValue = { reason: expect.stringMatching(reason) as string };
      expect(await pollUntil(device.latest, ({ humidity }) => humidity?.noValue !== undefined)).toMatchObject({
        temperature: { reading: { number: 20 }, noValue },
        humidity: { reading: { number: 30 }, noValue },
      });
      expect((await device.physical())['lastUplinkFailure']).toMatchObject({ ...noValue, resolved: false });
      const status = await waitForUnreadable(id);
      expect(status).toMatchObject({
        state: 'degraded',
        dataWarnings: [
          {
            code: 'uplinks_unreadable',
            count: 1,
            topic: `site/${device.clientDeviceId}/up`,
            clientDeviceId: device.clientDeviceId,
            ...noValue,
            example: typeof payload === 'string' ? payload : '0x0102ff',
          },
        ],
      });
      expect(server.log.of('mqtt.uplink_unreadable')).toContainEqual(
        expect.objectContaining({ connection_id: id, total: 1 }),
      );
      const { checks } = await http.call<{ checks: JsonObject[] }>('POST', '/api/v2/connections:test', { id });
      expect(checks.at(-1)).toMatchObject({ name: 'uplinks_unreadable', outcome: 'warning' });

      await publish(device, '{"temperature":21}');
      const { humidity } = await pollUntil(device.latest, ({ temperature }) => temperature?.reading?.number === 21);
      expect(humidity?.noValue).toBeUndefined(); // the last uplink was read
      expect((await device.physical())['lastUplinkFailure']).toMatchObject({ ...noValue, resolved: true });
    });

    it('a device that is expected to send bytes causes no warning', async () => {
      const id = await connectMqtt();
      const decoder = 'function decodeUplink({ bytes }) { return { data: { level: bytes[0] } }; }';
      const profileId = await importProfile(decoder);
      const decoded = await bind(id, { 'object.level': 'number' }, { profileId });
      const raw = await bind(id, { bytes: 'json' });
      const unmapped = await bind(id, {});
      for (const device of [raw, unmapped, decoded]) await publish(device, Buffer.from('{"\u0001'));
      await pollUntil(decoded.latest, (found) => found['object.level']?.reading?.number === 0x7b);
      await pollUntil(raw.latest, (found) => found['bytes']?.reading !== undefined);
      expect((await getStatus(id)).dataWarnings).toEqual([]);
      expect((await decoded.latest())['object.level']).not.toHaveProperty('noValue');
    });

    it('text that is not UTF-8 is reported, and the rest is stored', async () => {
      const id = await connectMqtt();
      const device = await bind(id, { temperature: 'number' });
      await publish(device, Buffer.from('{"unit":"\u00b0C","temperature":21}', 'latin1'));
      const { temperature } = await pollUntil(device.latest, (found) => found['temperature']?.reading?.number === 21);
      expect(temperature).not.toHaveProperty('noValue');
      const { dataWarnings } = await waitForUnreadable(id);
      expect(dataWarnings).toMatchObject([{ reason: expect.stringMatching(/^text_not_utf8: /) as string }]);
    });

    it('JSON that is not an object is reported for a device whose sensors are mapped to fields', async () => {
      const id = await connectMqtt();
      const device = await bind(id, { t: 'number' });
      const whole = await bind(id, { value: 'json' });
      const unmapped = await bind(id, {});
      const payloads = ['"{\\"t\\":21}"', '[21]', 'nan', 'null', '"ERR"'];
      for (const sender of [whole, unmapped, device]) for (const payload of payloads) await publish(sender, payload);
      const { dataWarnings } = await pollUntil(
        async () => await getStatus(id),
        ({ dataWarnings: [warning] }) => warning?.['count'] === payloads.length,
      );
      const reason = expect.stringMatching(/^not_an_object: /) as string;
      expect(dataWarnings).toMatchObject([
        { code: 'uplinks_unreadable', clientDeviceId: device.clientDeviceId, reason, example: '"ERR"' },
      ]);
      expect((await device.latest())['t']).toMatchObject({ noValue: { reason } });
      expect((await whole.latest())['value']).not.toHaveProperty('noValue');
      await publish(device, '{"t":21}');
      await pollUntil(device.latest, ({ t }) => t?.reading?.number === 21);
      expect((await device.latest())['t']).not.toHaveProperty('noValue');
    });

    it('a device that is not bound is reported too', async () => {
      const id = await connectMqtt('new/{clientDeviceId}/up');
      await sender.publishAsync('new/meter-1/up', '{"t":21.5,', { qos: 1 });
      const { dataWarnings } = await waitForUnreadable(id);
      expect(dataWarnings).toMatchObject([{ clientDeviceId: 'meter-1', example: '{"t":21.5,' }]);
      const path = `/api/v2/connections/${id}/discovered-devices`;
      expect((await http.call<{ discoveredDevices: unknown[] }>('GET', path)).discoveredDevices).toMatchObject([
        { clientDeviceId: 'meter-1', lastFailure: expect.stringMatching(/^json_incomplete: /) as string },
      ]);
      await sender.publishAsync('new/meter-1/up', '{"t":21}\0"h":40}', { qos: 1 });
      await pollUntil(
        async () => await getStatus(id),
        ({ dataWarnings: [warning] }) => warning?.['count'] === 2,
      );
      await sender.publishAsync('new/meter-1/up', '{"t":nan}', { qos: 1 });
      expect(
        await pollUntil(
          async () => (await http.call<{ discoveredDevices: JsonObject[] }>('GET', path)).discoveredDevices,
          ([device]) => device?.['lastFailure'] === '',
        ),
      ).toMatchObject([{ lastPayload: '{"t":"nan"}' }]);
    });
  });

  it('over a gateway, a number that is not finite is refused, and the rest is stored', async () => {
    const connectionId = await connect('gateway');
    const headers = as(server.key, server.organizationId);
    const gateway = await TestGateway.attach({ gateways }, { connectionId, headers });
    const device = await bind(connectionId, { temperature: 'number', humidity: 'number' });
    for (const temperature of [Number.NaN, -Infinity])
      expect(await gateway.uplink(device.clientDeviceId, { temperature, humidity: 40 })).toBe(
        UplinkOutcome.UPLINK_OUTCOME_STORED,
      );
    expect(await device.latest()).toMatchObject({
      temperature: { refused: { count: 2, lastValue: '-Infinity', sourcePath: 'temperature' } },
      humidity: { reading: { number: 40 } },
    });
    expect(await getStatus(connectionId)).toMatchObject({ state: 'connected', warnings: [] });

    expect(await gateway.uplink(device.clientDeviceId, Uint8Array.of(1))).toBe(UplinkOutcome.UPLINK_OUTCOME_STORED);
    expect(await gateway.uplink(device.clientDeviceId, Buffer.alloc(70_000))).toBe(
      UplinkOutcome.UPLINK_OUTCOME_REJECTED,
    );
    expect(await getStatus(connectionId)).toMatchObject({
      state: 'degraded',
      warnings: ['uplinks_unreadable', 'uplinks_rejected'],
      dataWarnings: [{ clientDeviceId: device.clientDeviceId, example: '\\u0001' }, { count: 1 }],
    });
    await gateway.cut();
  });

  it.each(ENCODINGS)(
    'over a ChirpStack that writes %s, a number that is not finite is refused, and the rest is stored',
    async (encoding) => {
      const [network, id] = await connectChirpStack(encoding);
      const device = await bind(
        id,
        { 'object.temperature': 'number', 'object.humidity': 'number' },
        { clientDeviceId: DEV_EUI },
      );
      await network.uplink(DEV_EUI, { object: { temperature: Number.NaN, humidity: 40 } });
      const { 'object.temperature': temperature } = await pollUntil(
        device.latest,
        (found) => found['object.humidity']?.reading?.number === 40,
      );
      // ChirpStack writes null in JSON.
      expect(temperature?.refused?.lastValue).toBe(encoding === 'json' ? undefined : 'NaN');
      expect((await getStatus(id)).warnings).not.toContain('uplinks_rejected');
      await network.stop();
    },
  );

  it.each(ENCODINGS)(
    'over a ChirpStack that writes %s, a frame that is not decoded any more is reported',
    async (encoding) => {
      const clientDeviceId = randomBytes(8).toString('hex');
      const [network, id] = await connectChirpStack(encoding, clientDeviceId);
      const device = await bind(id, { 'object.humidity': 'number', rssi: 'number' }, { clientDeviceId });
      await network.uplink(clientDeviceId, { object: { humidity: 40 } });
      await pollUntil(device.latest, (found) => found['object.humidity']?.reading?.number === 40);
      expect((await getStatus(id)).dataWarnings).toEqual([]);

      await network.uplink(clientDeviceId, {});
      await network.uplink(clientDeviceId, { data: Buffer.alloc(0) }); // has no payload, so it shows nothing
      const { dataWarnings } = await waitForUnreadable(id);
      const reason = expect.stringMatching(/^not_decoded: /) as string;
      const topic = `application/${APPLICATION}/device/${clientDeviceId}/event/up`;
      expect(dataWarnings).toMatchObject([{ code: 'uplinks_unreadable', count: 1, topic, clientDeviceId, reason }]);
      expect((await device.latest())['object.humidity']).toMatchObject({
        reading: { number: 40 },
        noValue: { reason },
      });
      expect(await device.latest()).toMatchObject({ rssi: { reading: { number: -57 } } });
      await network.stop();
    },
  );

  it('over a ChirpStack that writes JSON, an integer beyond 2^53 is refused as it was sent', async () => {
    const [network, id] = await connectChirpStack('json');
    const mappings = { 'object.counter': 'integer', 'object.humidity': 'number' } as const;
    const device = await bind(id, mappings, { clientDeviceId: DEV_EUI });
    const { rawJSON } = JSON as unknown as { readonly rawJSON: (text: string) => unknown };
    await network.uplink(DEV_EUI, { object: { counter: rawJSON('9007199254740993'), humidity: 40 } });
    expect(await pollUntil(device.latest, (found) => found['object.humidity']?.reading?.number === 40)).toMatchObject({
      'object.counter': { refused: { count: 1, lastValue: '9007199254740993' } },
    });
    await network.stop();
  });

  it('a number of a decoder that is not finite is refused, and the rest is stored', async () => {
    const decoder = 'function decodeUplink() { return { data: { list: [{ t: NaN }, -1 / 0], humidity: 40 } }; }';
    const profileId = await importProfile(decoder);
    const paths = ['object.list[0].t', 'object.list[1]', 'object.humidity'];
    const mappings = Object.fromEntries(paths.map((path) => [path, 'number'] as const));
    const device = await bind(mqttId, mappings, { profileId });
    await publish(device, Buffer.from([1]));
    expect(await pollUntil(device.latest, (found) => found['object.humidity']?.reading?.number === 40)).toMatchObject({
      'object.list[0].t': { refused: { count: 1, lastValue: 'NaN', sourcePath: 'object.list[0].t' } },
      'object.list[1]': { refused: { count: 1, lastValue: '-Infinity' } },
    });
  });

  it('the warnings and errors of a decoder are shown with the device', async () => {
    const decoder = `function decodeUplink({ bytes }) {
      if (bytes[0] === 0) return { errors: ['unknown port', 'too short'], warnings: ['old firmware'] };
      return { data: { level: bytes[0] }, warnings: bytes[0] === 1 ? ['battery low', 'x'.repeat(600), 'c', 'd'] : [] };
    }`;
    const profileId = await importProfile(decoder);
    const device = await bind(mqttId, { 'object.level': 'number' }, { profileId });
    await publish(device, Buffer.from([1]));
    await pollUntil(device.latest, (found) => found['object.level']?.reading?.number === 1);
    const long = 'x'.repeat(500);
    expect((await device.physical())['lastDecoderWarnings']).toMatchObject({
      warnings: ['battery low', long, 'c', 'd'],
    });
    expect((await device.latest())['object.level']?.decoderWarnings).toEqual({
      time: expect.any(String) as string,
      warnings: ['battery low', long.slice(0, 100), 'c'],
    });
    expect(server.log.of('telemetry.decoder_reported').at(-1)).toMatchObject({
      warnings: expect.arrayContaining(['battery low']) as unknown,
    });

    await publish(device, Buffer.from([0]));
    const reason = 'decoder_errors: unknown port; too short';
    expect(await pollUntil(device.latest, (found) => found['object.level']?.noValue !== undefined)).toMatchObject({
      'object.level': { reading: { number: 1 }, noValue: { reason } },
    });
    expect(await device.physical()).toMatchObject({
      lastUplinkFailure: { reason, resolved: false },
      lastDecoderWarnings: { warnings: ['old firmware'] },
    });

    await publish(device, Buffer.from([2]));
    expect(
      (await pollUntil(device.latest, (found) => found['object.level']?.reading?.number === 2))['object.level'],
    ).not.toHaveProperty('noValue');
    expect(await device.physical()).toMatchObject({
      lastUplinkFailure: { reason, resolved: true },
      lastDecoderWarnings: { warnings: ['old firmware'] },
    });
  });
});

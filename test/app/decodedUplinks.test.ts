import { connectAsync } from 'mqtt';
import { GatewayServiceClient, UplinkOutcome } from '../../src/gen/gateway/v1/gateway_service';
import { newId } from '../../src/kernel/ids';
import { TestClock } from '../support/testClock';
import { APPLICATION, DEV_EUI, startBroker, type TestBroker } from '../connections/chirpStackFixture';
import { TestGateway } from '../executions/testGateway';
import { ChirpStackServer } from '../support/chirpStack/chirpStackServer';
import { sqliteOnly } from '../support/engines';
import { HttpClient, type JsonObject } from '../support/http';
import { importDecoder } from '../support/importedProfiles';
import { as, startTestApp, type TestApp } from '../support/testApp';
import { pollUntil } from '../support/waitUntil';

const LEVEL = 'function decodeUplink(input) { return { data: { level: input.bytes[0], port: input.fPort } }; }';
// Loops forever, both where the engine checks for a timeout and where it does not.
const LOOPS = 'function decodeUplink(input) { while (true) {} }';
const HANGS =
  'function decodeUplink(input) { if (input.bytes[0] === 255) Array.prototype.indexOf.call({ length: 2 ** 53 - 1 }, 1); return { data: { level: input.bytes[0] } }; }';

/** The complete server with connections of all types. */
describe.each(sqliteOnly())('devices that send bytes, on $name', (engine) => {
  let server: TestApp;
  let http: HttpClient;
  let gateways: GatewayServiceClient;
  let broker: TestBroker;
  const clock = new TestClock();
  beforeAll(async () => (broker = await startBroker()));
  afterAll(async () => await broker.stop());

  /** Starts with one more thread than devices hang at once. */
  const start = async (scriptMs: number, hardMs: number): Promise<void> => {
    server = await startTestApp(engine, {
      'codec.timeoutMs': String(scriptMs),
      'codec.hardTimeoutMs': String(hardMs),
      'codec.workers': '3',
    });
    http = new HttpClient(server.app.addresses.http ?? '', server.app.ca ?? '', as(server.key, server.organizationId));
    gateways = server.client(GatewayServiceClient);
  };
  const stop = async (): Promise<void> => {
    http.close();
    await server.stop();
  };

  const connect = async (connectorId: string, configuration: JsonObject = {}): Promise<string> =>
    (await http.call<{ id: string }>('POST', '/api/v2/connections', { connectorId, name: newId(), configuration })).id;
  const connected = async (id: string): Promise<unknown> =>
    await pollUntil(
      async () => (await http.call<{ status: { state: string } }>('GET', `/api/v2/connections/${id}`)).status.state,
      (state) => ['connected', 'degraded'].includes(state),
    );
  /** Binds a device; returns the path of its connector keys. */
  async function bind(connectionId: string, clientDeviceId: string, profileId: string): Promise<string> {
    const { id } = await http.call<{ id: string }>('POST', '/api/v2/devices', {
      name: clientDeviceId,
      physicalDevice: { connectionId, clientDeviceId, configuration: { profileId } },
    });
    return `/api/v2/devices/${id}/connector-keys?${new URLSearchParams({ connectionId, clientDeviceId }).toString()}`;
  }
  const profile = async (decoder: string): Promise<string> =>
    await importDecoder(server.database.database, clock, decoder, `model-${newId()}`);
  async function getConnectorKeys(path: string): Promise<JsonObject> {
    const { connectorKeys } = await http.call<{ connectorKeys: { name: string; value: { value: unknown } }[] }>(
      'GET',
      path,
    );
    return Object.fromEntries(connectorKeys.map(({ name, value }) => [name, value.value]));
  }

  /**
   * Attaches a gateway with devices whose decoders hang and with healthy ones. One of the hanging devices uses the
   * decoder of the healthy ones.
   */
  async function gatewayWithHanging(): Promise<{
    gateway: TestGateway;
    hanging: string[];
    send: (each: number) => Promise<UplinkOutcome[]>;
    sendGood: () => Promise<void>;
  }> {
    const connectionId = await connect('gateway');
    const gateway = await TestGateway.attach(
      { gateways },
      { connectionId, headers: as(server.key, server.organizationId) },
    );
    const shared = await profile(HANGS);
    const hanging = [
      await bind(connectionId, 'hangs', shared),
      await bind(connectionId, 'loops', await profile(LOOPS)),
    ];
    const good = await Promise.all(
      Array.from({ length: 5 }, async (_, at) => ({
        name: `good-${at}`,
        path: await bind(connectionId, `good-${at}`, shared),
      })),
    );
    const send = async (each: number): Promise<UplinkOutcome[]> =>
      await Promise.all(
        Array.from({ length: each }, () => ['hangs', 'loops'])
          .flat()
          .map(async (name) => await gateway.uplink(name, Uint8Array.of(255))),
      );
    // Like a real device, sends the next uplink when the last one was acknowledged.
    const sendFour = async (name: string): Promise<void> => {
      for (let at = 1; at <= 4; at += 1)
        expect(await gateway.uplink(name, Uint8Array.of(at))).toBe(UplinkOutcome.UPLINK_OUTCOME_STORED);
    };
    const sendGood = async (): Promise<void> => {
      await Promise.all(good.map(async ({ name }) => await sendFour(name)));
      for (const { path } of good) expect(await getConnectorKeys(path)).toEqual({ bytes: '04', 'object.level': 4 });
    };
    return { gateway, hanging, send, sendGood };
  }

  describe('with a decoder timeout longer than the test', () => {
    beforeAll(async () => await start(60_000, 120_000));
    afterAll(stop);

    it('are decoded over an MQTT broker unless they send JSON', async () => {
      const connectionId = await connect('mqtt', {
        url: broker.url,
        protocol: '3.1.1',
        uplinkTopic: `${engine.name}/{clientDeviceId}/up`,
      });
      await connected(connectionId);
      const tank = await bind(connectionId, 'tank', await profile(LEVEL));
      const device = await connectAsync(broker.url);
      await device.publishAsync(`${engine.name}/tank/up`, Buffer.from('2aff', 'hex'), { qos: 1 });
      expect(
        await pollUntil(
          async () => await getConnectorKeys(tank),
          (found) => Object.keys(found).length > 0,
        ),
      ).toEqual({ bytes: '2aff', 'object.level': 42 });
      await device.publishAsync(`${engine.name}/tank/up`, '{"level": 7}', { qos: 1 });
      expect(
        await pollUntil(
          async () => await getConnectorKeys(tank),
          (found) => 'level' in found,
        ),
      ).toEqual({ bytes: '2aff', 'object.level': 42, level: 7 });
      await device.endAsync();
    });

    it.each(['json', 'protobuf'] as const)(
      'are decoded over a ChirpStack that writes %s, unless it decoded them itself',
      async (encoding) => {
        const network = new ChirpStackServer({ url: broker.url, applicationId: APPLICATION, encoding });
        network.addDevice(DEV_EUI);
        await network.start();
        const connectionId = await connect('chirpstack', {
          url: broker.url,
          protocol: '3.1.1',
          applicationId: APPLICATION,
          encoding,
        });
        await connected(connectionId);
        const tank = await bind(connectionId, DEV_EUI, await profile(LEVEL));
        await network.uplink(DEV_EUI, { data: Buffer.from('2aff', 'hex'), fPort: 9 });
        const first = await pollUntil(
          async () => await getConnectorKeys(tank),
          (found) => Object.keys(found).length > 0,
        );
        expect(first).toMatchObject({
          data: '2aff',
          fPort: 9,
          fCnt: 1,
          rssi: -57,
          snr: 9.5,
          'object.level': 42,
          'object.port': 9,
        });
        await network.uplink(DEV_EUI, { data: Buffer.from('0aff', 'hex'), object: { level: 'theirs' } });
        expect(
          await pollUntil(
            async () => await getConnectorKeys(tank),
            ({ fCnt }) => fCnt === 2,
          ),
        ).toMatchObject({ data: '2aff', 'object.level': 'theirs', 'object.port': 9 });
        await network.uplink(DEV_EUI, { data: Buffer.alloc(0) });
        const { decodeError, ...last } = await pollUntil(
          async () => await getConnectorKeys(tank),
          ({ fCnt }) => fCnt === 3,
        );
        expect([decodeError, last.data]).toEqual([undefined, '']);
        await network.stop();
      },
    );

    it('are not delayed by a hanging decoder of another device on the same gateway', async () => {
      const { gateway, hanging, send, sendGood } = await gatewayWithHanging();
      const unanswered = send(3).catch(() => 'the link was cut');
      await sendGood();
      expect(gateway.uplinkAcks).toHaveLength(20); // the healthy devices
      for (const path of hanging) expect(await getConnectorKeys(path)).toEqual({});
      await gateway.cut();
      expect(await unanswered).toBe('the link was cut');
    });
  });

  describe('with a short decoder timeout', () => {
    beforeAll(async () => await start(100, 500));
    afterAll(stop);

    it('are all acknowledged behind one gateway; hanging decoders are soon suspended, only for the affected devices', async () => {
      const { gateway, hanging, send, sendGood } = await gatewayWithHanging();
      expect(await send(5)).toEqual(Array.from({ length: 10 }, () => UplinkOutcome.UPLINK_OUTCOME_STORED));
      for (const path of hanging)
        expect(await getConnectorKeys(path)).toEqual({
          bytes: 'ff',
          decodeError: expect.stringMatching(/^decoder_paused: /) as unknown,
        });
      await sendGood();
      await gateway.cut();
    });
  });
});

import { connect, connectAsync, type IClientOptions, type MqttClient } from 'mqtt';
import type { Json } from '../../src/cli/call/jsonClient';
import { runMqttDevices } from '../../src/cli/simulate/mqtt/mqttDevices';
import { createSimulatedDevices } from '../../src/cli/simulate/simulatedDevices';
import { TestCa } from '../support/brokerPki';
import { RESPONSE_TOPIC_ANSWERS, BrokerSite, DEVICE_TOPICS } from './brokerSite';

let site: BrokerSite | undefined;

afterEach(async () => {
  await site?.stop();
  site = undefined;
});

/** Runs the simulated devices until the site stops. */
async function runSimulatedDevices(at: BrokerSite, ids: readonly string[] = ['valve-1']): Promise<void> {
  const stop = new AbortController();
  await new Promise<void>((resolve, reject) => {
    const running = runMqttDevices(
      {
        broker: at.getTarget(),
        devices: createSimulatedDevices(ids),
        ...DEVICE_TOPICS,
        uplinkIntervalMs: 0,
        answerDelayMs: 0,
        answer: 'accept',
      },
      stop.signal,
      ({ event }) => (event === 'broker.connected' ? resolve() : undefined),
    );
    running.catch(reject);
    at.onStop(async () => {
      stop.abort();
      await running;
    });
  });
}

/** Connects a device that the test controls by hand. It disconnects when the site stops. */
async function connectDevice(at: BrokerSite, options: IClientOptions = {}): Promise<MqttClient> {
  const client = await connectAsync(at.broker.url, { protocolVersion: 5, reconnectPeriod: 0, ...options });
  at.onStop(async () => await client.endAsync(true));
  return client;
}

/** Resolves with the payload of the next message. */
async function receivePayload(client: MqttClient): Promise<string> {
  return await new Promise((resolve) => client.once('message', (_topic, payload) => resolve(payload.toString())));
}

const show = async (client: MqttClient, position: number): Promise<unknown> =>
  await client.publishAsync('plantroom/valve-1/up', JSON.stringify({ position }), { qos: 1 });

describe('a connection to a real broker', () => {
  it('delivers a command to its device and returns the answer and the effect', async () => {
    site = await BrokerSite.start();
    await runSimulatedDevices(site, ['valve-1', 'relay-1']);
    const connectionId = await site.createMqttConnection(RESPONSE_TOPIC_ANSWERS);
    await site.waitForStatus(connectionId, 'connected');
    const report = await site.waitForState(await site.execute(await site.createValve(connectionId), 40), 'converged');
    // The answer may arrive before the effect or after it.
    expect(report.events).toEqual(expect.arrayContaining(['dispatch', 'transport_ok', 'sensors_matched']));
    const answered = await site.createValve(connectionId, {
      clientDeviceId: 'relay-1',
      command: {
        verificationStrategy: 'no_verification',
        expectedSensorStates: [],
        directPayload: '{"relay": 0, "on": true}',
        paramsSchema: {},
      },
    });
    expect((await site.waitForState(await site.execute(answered, undefined), 'accepted_no_l4')).events).toContain(
      'ack',
    );
  });

  it('stores messages that waited at the broker while it was disabled and does not count them as an effect', async () => {
    site = await BrokerSite.start();
    const connectionId = await site.createMqttConnection();
    await site.waitForStatus(connectionId, 'connected');
    const valve = await site.createValve(connectionId);
    const hand = await connectDevice(site);
    await hand.subscribeAsync('plantroom/valve-1/down', { qos: 1 });
    const received = receivePayload(hand); // the message may arrive before the response to ExecuteCommand
    const executionId = await site.execute(valve, 40);
    expect(await received).toBe('{"position":40}');
    await site.waitForState(executionId, 'delivered');
    await site.api.call('ConnectionService/UpdateConnection', { id: connectionId, enabled: false });
    await site.waitForStatus(connectionId, 'disabled');
    await show(hand, 40);
    await site.api.call('ConnectionService/UpdateConnection', { id: connectionId, enabled: true });
    await site.waitForKey(valve, connectionId, 'valve-1', 'position', 40);
    expect((await site.getExecution(executionId)).state).toBe('delivered');
    await show(hand, 40);
    await site.waitForState(executionId, 'converged');
  });

  it('lets a command expire at the broker while its device is offline', async () => {
    site = await BrokerSite.start();
    const connectionId = await site.createMqttConnection(RESPONSE_TOPIC_ANSWERS, { deliveryTimeout: 2, ackTimeout: 3 });
    await site.waitForStatus(connectionId, 'connected');
    const valve = await site.createValve(connectionId, {
      command: { expectedSensorStates: [], verificationStrategy: 'no_verification' },
    });
    const session: IClientOptions = { clientId: 'valve-1', clean: false, properties: { sessionExpiryInterval: 3600 } };
    const first = await connectDevice(site, session);
    await first.subscribeAsync('plantroom/valve-1/down', { qos: 1 });
    await first.endAsync();
    const executionId = await site.execute(valve, 40);
    await site.waitForState(executionId, 'delivered');
    await site.waitForState(executionId, 'unconfirmed');
    const publisher = await connectDevice(site);
    await publisher.publishAsync('plantroom/valve-1/down', '"later"', { qos: 1 });
    const again = connect(site.broker.url, { protocolVersion: 5, reconnectPeriod: 0, ...session });
    site.onStop(async () => await again.endAsync(true));
    expect(await receivePayload(again)).toBe('"later"'); // The earlier command is not delivered.
  });

  it('keeps a command without a subscriber and sends it when one subscribes', async () => {
    site = await BrokerSite.start();
    const connectionId = await site.createMqttConnection(RESPONSE_TOPIC_ANSWERS);
    await site.waitForStatus(connectionId, 'connected');
    const executionId = await site.execute(await site.createValve(connectionId), 40);
    await site.waitForExecution(executionId, ({ events }) => events.includes('known_undelivered'));
    await runSimulatedDevices(site);
    await site.waitForState(executionId, 'converged');
  });

  it('reports that the broker does not allow a command', async () => {
    site = await BrokerSite.start({
      users: { plantroom: 'secret' },
      acl: ['user plantroom', 'topic read plantroom/#', 'topic readwrite plantroom/plantroom/#'],
    });
    const connectionId = await site.createMqttConnection({ username: 'plantroom', password: 'secret' });
    await site.waitForStatus(connectionId, 'connected');
    const executionId = await site.execute(await site.createValve(connectionId), 40);
    expect(await site.waitForState(executionId, 'transport_rejected')).toMatchObject({ detail: 'not_authorized' });
  });

  it.each(['5', '3.1.1'])('reports that another client uses the same client id (%s)', async (protocol) => {
    site = await BrokerSite.start();
    const configuration = { protocol, clientId: 'same-id' };
    const ids = [
      await site.createMqttConnection({ ...configuration, uplinkTopic: 'one/{clientDeviceId}/up' }),
      await site.createMqttConnection({ ...configuration, uplinkTopic: 'two/{clientDeviceId}/up' }),
    ];
    const lost = await site.waitForStatus(ids[0] ?? '', 'disconnected');
    expect(lost['lastError']).toContain('another client uses the client id "same-id"');
    for (const id of ids)
      expect(await site.waitForWarning(id, 'contested')).toMatchObject({
        warnings: expect.arrayContaining(['contested']) as string[],
      });
  });

  it('works over WebSocket', async () => {
    site = await BrokerSite.start({ webSocket: true });
    await runSimulatedDevices(site);
    const connectionId = await site.createMqttConnection({ ...RESPONSE_TOPIC_ANSWERS, url: site.broker.webSocketUrl });
    await site.waitForStatus(connectionId, 'connected');
    await site.waitForState(await site.execute(await site.createValve(connectionId), 40), 'converged');
  });

  it('applies a corrected password without a restart and shows neither password', async () => {
    site = await BrokerSite.start({ users: { plantroom: 'right-password' } });
    const connectionId = await site.createMqttConnection({ username: 'plantroom', password: 'wrong-password' });
    const status = await site.waitForStatus(connectionId, 'error');
    expect(JSON.stringify(status)).not.toContain('wrong-password');
    expect(checks(await site.api.call('ConnectionService/TestConnection', { id: connectionId }))).toMatchObject({
      sign_in: 'failed',
    });
    const { configuration } = await site.api.call('ConnectionService/GetConnection', { id: connectionId });
    const shown = await site.api.call('ConnectionService/UpdateConnection', {
      id: connectionId,
      configuration: { ...(configuration as Json), password: 'right-password' },
    });
    expect(JSON.stringify(shown)).not.toContain('right-password');
    await site.waitForStatus(connectionId, 'connected');
    expect(await site.api.call('ConnectionService/TestConnection', { id: connectionId })).toMatchObject({ ok: true });
    expect(JSON.stringify(site.server.log.lines)).not.toMatch(/right-password|wrong-password/);
  });
});

describe('TLS with a real broker', () => {
  it('authenticates with a client certificate', async () => {
    const ca = await TestCa.create();
    const own = await ca.forClient();
    site = await BrokerSite.start({ tls: { ca: ca.cert, ...(await ca.forServer()), clientCa: ca.cert } });
    const connectionId = await site.createMqttConnection({
      caCertificate: ca.cert,
      clientCertificate: own.cert,
      clientKey: own.key,
    });
    await site.waitForStatus(connectionId, 'connected');
    expect(await site.api.call('ConnectionService/TestConnection', { id: connectionId })).toMatchObject({ ok: true });
  });

  it.each([
    ['another CA', async () => ({ trusted: (await TestCa.create('Another CA')).cert }), /CA|certificate/i],
    [
      'a certificate that expired',
      async (ca: TestCa) => ({ server: await ca.forServer('localhost', Date.now() - 60_000) }),
      /expired/i,
    ],
    [
      'a certificate for another name',
      async (ca: TestCa) => ({ server: await ca.forServer('broker.example') }),
      /name|altnames|certificate/i,
    ],
  ])('refuses a broker with %s and reports it', async (_, change, message) => {
    const ca = await TestCa.create();
    const { server, trusted }: { server?: { cert: string; key: string }; trusted?: string } = await change(ca);
    site = await BrokerSite.start({ tls: { ca: ca.cert, ...(server ?? (await ca.forServer())) } });
    const connectionId = await site.createMqttConnection({ caCertificate: trusted ?? ca.cert });
    expect((await site.waitForStatus(connectionId, 'error'))['lastError']).toMatch(message);
    const trial = await site.api.call('ConnectionService/TestConnection', { id: connectionId });
    expect(trial).toMatchObject({ ok: false });
    expect(checks(trial)).toMatchObject({ tls: 'failed' });
  });

  it('reports that the broker requires a client certificate', async () => {
    const ca = await TestCa.create();
    site = await BrokerSite.start({ tls: { ca: ca.cert, ...(await ca.forServer()), clientCa: ca.cert } });
    const connectionId = await site.createMqttConnection({ caCertificate: ca.cert });
    expect((await site.waitForStatus(connectionId, 'error', 'disconnected'))['lastError']).not.toBe('');
    expect(await site.api.call('ConnectionService/TestConnection', { id: connectionId })).toMatchObject({ ok: false });
  });
});

function checks(trial: Json): Record<string, unknown> {
  return Object.fromEntries((trial['checks'] as Json[]).map(({ name, outcome }) => [name, outcome]));
}

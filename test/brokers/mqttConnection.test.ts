import { connect, connectAsync, type IClientOptions, type MqttClient } from 'mqtt';
import type { Json } from '../../src/cli/call/jsonClient';
import { runMqttDevices } from '../../src/cli/simulate/mqtt/mqttDevices';
import { simulatedDevices } from '../../src/cli/simulate/simulatedDevices';
import { TestCa } from '../support/brokerPki';
import { ANSWERS, BrokerSite, DEVICE_TOPICS } from './brokerSite';

let site: BrokerSite | undefined;

afterEach(async () => {
  await site?.stop();
  site = undefined;
});

/** The simulated devices, until the site stops. */
async function play(at: BrokerSite, ids: readonly string[] = ['valve-1']): Promise<void> {
  const stop = new AbortController();
  await new Promise<void>((resolve, reject) => {
    const running = runMqttDevices({ broker: at.target(), devices: simulatedDevices(ids), ...DEVICE_TOPICS, uplinkIntervalMs: 0, answerDelayMs: 0, answer: 'accept' }, stop.signal, ({ event }) => (event === 'broker.connected' ? resolve() : undefined));
    running.catch(reject);
    at.onStop(async () => {
      stop.abort();
      await running;
    });
  });
}

/** A device that is played by hand; ended with the site. */
async function device(at: BrokerSite, options: IClientOptions = {}): Promise<MqttClient> {
  const client = await connectAsync(at.broker.url, { protocolVersion: 5, reconnectPeriod: 0, ...options });
  at.onStop(async () => await client.endAsync(true));
  return client;
}

/** Resolves with the payload of the next message. */
async function heard(client: MqttClient): Promise<string> {
  return await new Promise((resolve) => client.once('message', (_topic, payload) => resolve(payload.toString())));
}

const show = async (client: MqttClient, position: number): Promise<unknown> => await client.publishAsync('plantroom/valve-1/up', JSON.stringify({ position }), { qos: 1 });

describe('a connection to a real broker', () => {
  it('takes a command to its device, its answer and its effect back', async () => {
    site = await BrokerSite.start();
    await play(site, ['valve-1', 'relay-1']);
    const connectionId = await site.mqtt(ANSWERS);
    await site.status(connectionId, 'connected');
    const told = await site.reaches(await site.execute(await site.valve(connectionId), 40), 'converged');
    expect(told.events).toEqual(expect.arrayContaining(['dispatch', 'transport_ok', 'sensors_matched'])); // the answer may come before the effect or after it
    const answered = await site.valve(connectionId, { clientDeviceId: 'relay-1', command: { verificationStrategy: 'no_verification', expectedSensorStates: [], directPayload: '{"relay": 0, "on": true}', paramsSchema: {} } });
    expect((await site.reaches(await site.execute(answered, undefined), 'accepted_no_l4')).events).toContain('ack');
  });

  it('stores what waited at the broker while it was switched off, and does not take it for an effect', async () => {
    site = await BrokerSite.start();
    const connectionId = await site.mqtt();
    await site.status(connectionId, 'connected');
    const valve = await site.valve(connectionId);
    const hand = await device(site);
    await hand.subscribeAsync('plantroom/valve-1/down', { qos: 1 });
    const executionId = await site.execute(valve, 40);
    expect(await heard(hand)).toBe('{"position":40}');
    await site.reaches(executionId, 'delivered');
    await site.api.call('ConnectionService/UpdateConnection', { id: connectionId, enabled: false });
    await site.status(connectionId, 'disabled');
    await show(hand, 40);
    await site.api.call('ConnectionService/UpdateConnection', { id: connectionId, enabled: true });
    await site.keyed(valve, connectionId, 'valve-1', 'position', 40);
    expect((await site.execution(executionId)).state).toBe('delivered');
    await show(hand, 40);
    await site.reaches(executionId, 'converged');
  });

  it('lets a command expire at the broker while its device is away', async () => {
    site = await BrokerSite.start();
    const connectionId = await site.mqtt(ANSWERS, { deliveryTimeout: 2, ackTimeout: 3 });
    await site.status(connectionId, 'connected');
    const valve = await site.valve(connectionId, { command: { expectedSensorStates: [], verificationStrategy: 'no_verification' } });
    const session: IClientOptions = { clientId: 'valve-1', clean: false, properties: { sessionExpiryInterval: 3600 } };
    const first = await device(site, session);
    await first.subscribeAsync('plantroom/valve-1/down', { qos: 1 });
    await first.endAsync();
    const executionId = await site.execute(valve, 40);
    await site.reaches(executionId, 'delivered');
    await site.reaches(executionId, 'unconfirmed');
    const publisher = await device(site);
    await publisher.publishAsync('plantroom/valve-1/down', '"later"', { qos: 1 });
    const again = connect(site.broker.url, { protocolVersion: 5, reconnectPeriod: 0, ...session });
    site.onStop(async () => await again.endAsync(true));
    expect(await heard(again)).toBe('"later"'); // and not the command, which came before it
  });

  it('keeps a command for which nobody listens, and sends it when somebody does', async () => {
    site = await BrokerSite.start();
    const connectionId = await site.mqtt(ANSWERS);
    await site.status(connectionId, 'connected');
    const executionId = await site.execute(await site.valve(connectionId), 40);
    await site.until(executionId, ({ events }) => events.includes('known_undelivered'));
    await play(site);
    await site.reaches(executionId, 'converged');
  });

  it('says that the broker does not allow a command', async () => {
    site = await BrokerSite.start({ users: { plantroom: 'secret' }, acl: ['user plantroom', 'topic read plantroom/#', 'topic readwrite plantroom/plantroom/#'] });
    const connectionId = await site.mqtt({ username: 'plantroom', password: 'secret' });
    await site.status(connectionId, 'connected');
    const executionId = await site.execute(await site.valve(connectionId), 40);
    expect(await site.reaches(executionId, 'transport_rejected')).toMatchObject({ detail: 'not_authorized' });
  });

  it.each(['5', '3.1.1'])('shows that another client has the same client id (%s)', async (protocol) => {
    site = await BrokerSite.start();
    const configuration = { protocol, clientId: 'same-id' };
    const ids = [await site.mqtt({ ...configuration, uplinkTopic: 'one/{clientDeviceId}/up' }), await site.mqtt({ ...configuration, uplinkTopic: 'two/{clientDeviceId}/up' })];
    const lost = await site.status(ids[0] ?? '', 'disconnected');
    expect(lost['lastError']).toContain('another client uses the client id "same-id"');
    for (const id of ids) expect(await site.warned(id, 'contested')).toMatchObject({ warnings: expect.arrayContaining(['contested']) as string[] });
  });

  it('works by WebSocket', async () => {
    site = await BrokerSite.start({ webSocket: true });
    await play(site);
    const connectionId = await site.mqtt({ ...ANSWERS, url: site.broker.webSocketUrl });
    await site.status(connectionId, 'connected');
    await site.reaches(await site.execute(await site.valve(connectionId), 40), 'converged');
  });

  it('takes a corrected password without a restart, and shows neither', async () => {
    site = await BrokerSite.start({ users: { plantroom: 'right-password' } });
    const connectionId = await site.mqtt({ username: 'plantroom', password: 'wrong-password' });
    const status = await site.status(connectionId, 'error');
    expect(JSON.stringify(status)).not.toContain('wrong-password');
    expect(checks(await site.api.call('ConnectionService/TestConnection', { id: connectionId }))).toMatchObject({ sign_in: 'failed' });
    const { configuration } = await site.api.call('ConnectionService/GetConnection', { id: connectionId });
    const shown = await site.api.call('ConnectionService/UpdateConnection', { id: connectionId, configuration: { ...(configuration as Json), password: 'right-password' } });
    expect(JSON.stringify(shown)).not.toContain('right-password');
    await site.status(connectionId, 'connected');
    expect(await site.api.call('ConnectionService/TestConnection', { id: connectionId })).toMatchObject({ ok: true });
    expect(JSON.stringify(site.server.log.lines)).not.toMatch(/right-password|wrong-password/);
  });
});

describe('TLS with a real broker', () => {
  it('signs in with a client certificate', async () => {
    const ca = await TestCa.make();
    const own = await ca.forClient();
    site = await BrokerSite.start({ tls: { ca: ca.cert, ...(await ca.forServer()), clientCa: ca.cert } });
    const connectionId = await site.mqtt({ caCertificate: ca.cert, clientCertificate: own.cert, clientKey: own.key });
    await site.status(connectionId, 'connected');
    expect(await site.api.call('ConnectionService/TestConnection', { id: connectionId })).toMatchObject({ ok: true });
  });

  it.each([
    ['another CA', async () => ({ trusted: (await TestCa.make('Another CA')).cert }), /CA|certificate/i],
    ['a certificate that expired', async (ca: TestCa) => ({ server: await ca.forServer('localhost', Date.now() - 60_000) }), /expired/i],
    ['a certificate for another name', async (ca: TestCa) => ({ server: await ca.forServer('broker.example') }), /name|altnames|certificate/i],
  ])('does not talk to a broker with %s, and says so', async (_, change, message) => {
    const ca = await TestCa.make();
    const { server, trusted }: { server?: { cert: string; key: string }; trusted?: string } = await change(ca);
    site = await BrokerSite.start({ tls: { ca: ca.cert, ...(server ?? (await ca.forServer())) } });
    const connectionId = await site.mqtt({ caCertificate: trusted ?? ca.cert });
    expect((await site.status(connectionId, 'error'))['lastError']).toMatch(message);
    const trial = await site.api.call('ConnectionService/TestConnection', { id: connectionId });
    expect(trial).toMatchObject({ ok: false });
    expect(checks(trial)).toMatchObject({ tls: 'failed' });
  });

  it('says that the broker wants a client certificate', async () => {
    const ca = await TestCa.make();
    site = await BrokerSite.start({ tls: { ca: ca.cert, ...(await ca.forServer()), clientCa: ca.cert } });
    const connectionId = await site.mqtt({ caCertificate: ca.cert });
    expect((await site.status(connectionId, 'error', 'disconnected'))['lastError']).not.toBe('');
    expect(await site.api.call('ConnectionService/TestConnection', { id: connectionId })).toMatchObject({ ok: false });
  });
});

function checks(trial: Json): Record<string, unknown> {
  return Object.fromEntries((trial['checks'] as Json[]).map(({ name, outcome }) => [name, outcome]));
}

import { once } from 'node:events';
import { connect, createServer, type AddressInfo, type Socket } from 'node:net';
import { createServer as createTlsServer, type TLSSocket } from 'node:tls';
import { testBroker } from '../../src/connections/connectors/broker/brokerTest';
import { TestCa } from '../support/brokerPki';
import { Mqtt5Broker } from '../support/mqtt5Broker';
import { gate } from './fakeEvents';
import { startBroker } from './chirpStackFixture';
import { MqttFixture, TOPICS } from './mqttFixture';

let broker: Mqtt5Broker;
const fixtures: MqttFixture[] = [];

beforeEach(async () => {
  broker = await new Mqtt5Broker().start();
});

afterEach(async () => {
  await Promise.all(fixtures.splice(0).map(async (fixture) => await fixture.connector.stop()));
  await broker.stop();
});

function fixtureAt(url: string, settings: Record<string, unknown> = {}): MqttFixture {
  const fixture = new MqttFixture({ url, keepaliveSeconds: 30, ...TOPICS, ...settings });
  fixtures.push(fixture);
  return fixture;
}

it('waits for a broker that is down at start', async () => {
  await broker.stop();
  const fixture = fixtureAt(broker.url);
  fixture.open();
  await fixture.state('connecting');
  expect((await fixture.state('disconnected')).lastError).toContain('nothing listens');
  await broker.start();
  await fixture.attached();
  expect(fixture.status.state).toBe('connected');
});

it('reports that a session ended before it reports that the next one started', async () => {
  const fixture = fixtureAt(broker.url);
  fixture.open();
  await fixture.attached();
  const left = gate<void>();
  fixture.events.onDetached = async () => await left.promise;
  broker.cut();
  await fixture.events.until(() => fixture.events.detachments.length === 1);
  expect(fixture.connector.peer(fixture.connectionId)).toBeUndefined();
  expect(fixture.events.attachments).toHaveLength(1);
  left.open();
  await fixture.attached(1);
  expect(new Set(fixture.events.attachments.map(({ bootId }) => bootId)).size).toBe(2);
});

it('detects a broker that swallows everything', async () => {
  const fixture = fixtureAt(broker.url, { keepaliveSeconds: 1 });
  fixture.open();
  await fixture.attached();
  broker.isMute = true;
  expect((await fixture.state('disconnected')).lastError).toContain('keepalive interval');
  broker.isMute = false;
  await fixture.attached(1);
});

it('stays connected while the database is slow, and reads only as much as it can hold', async () => {
  const fixture = fixtureAt(broker.url, { keepaliveSeconds: 1 });
  fixture.open();
  await fixture.attached();
  const stored = gate<void>();
  fixture.events.onUplink = async () => {
    await stored.promise;
    return { outcome: 'stored' };
  };
  for (let n = 0; n < 1000; n++) broker.publish(`site/device-${n}/up`, '{"n":1}', { qos: 0 });
  await fixture.events.until(() => fixture.events.uplinks.length >= 500);
  const before = broker.pings;
  await broker.until(() => broker.pings >= before + 4);
  expect(fixture.events.uplinks.length).toBeLessThan(700); // This is what one piece of the stream contained.
  expect(fixture.status.state).toBe('connected');
  stored.open();
  await fixture.events.until(() => fixture.events.uplinks.length === 1000);
  expect(broker.connects).toHaveLength(1);
});

it('resumes a session when the subscription acknowledgement arrives after the whole backlog', async () => {
  const fixture = fixtureAt(broker.url);
  fixture.open();
  await fixture.attached();
  broker.onSubscribe = () => {
    for (let n = 0; n < 700; n++) broker.publish(`site/device-${n}/up`, '{"n":1}', { qos: 0 });
    return 1;
  };
  broker.cut();
  await fixture.attached(1);
  await fixture.events.until(() => fixture.events.uplinks.length === 700);
});

it.each([
  [0x86, 'user name or the password'],
  [0x87, 'permission to connect'],
  [0x85, 'client id'],
])('reports what to change when the broker rejects the connection with reason %i', async (reason, text) => {
  broker.onConnect = () => reason;
  const fixture = fixtureAt(broker.url);
  fixture.open();
  expect((await fixture.state('error')).lastError).toContain(text);
  expect(fixture.events.attachments).toEqual([]);
  broker.onConnect = () => 0;
  await fixture.attached();
});

it('reports that the broker rejected the subscription', async () => {
  broker.onSubscribe = () => 0x87;
  const fixture = fixtureAt(broker.url);
  fixture.open();
  expect((await fixture.state('error')).lastError).toContain('site/+/up');
});

it('falls back to 3.1.1, reports the consequences, and detects the backlog with its own fence', async () => {
  broker.onConnect = ({ protocolVersion }) => (protocolVersion === 5 ? 0x84 : 0);
  const fixture = fixtureAt(broker.url);
  fixture.open();
  await fixture.attached();
  expect(fixture.status).toMatchObject({ state: 'degraded', warnings: ['no_message_expiry'] });
  await broker.stop();
  await fixture.state('disconnected');
  broker.publish('site/meter-1/up', '{"n":1}');
  await broker.start();
  await fixture.attached(1);
  await broker.until(() => broker.acknowledged.length === 2); // These are the uplink and the fence.
  broker.publish('site/meter-1/up', '{"n":2}');
  await fixture.events.until(() => fixture.events.uplinks.length === 2);
  expect(fixture.events.uplinks.map(({ isBuffered }) => isBuffered)).toEqual([true, false]);
});

it('uses 3.1.1 with a broker that disconnects on MQTT 5', async () => {
  const old = await startBroker();
  const fixture = fixtureAt(old.url);
  fixture.open();
  await fixture.attached();
  expect(fixture.status.warnings).toEqual(['no_message_expiry']);
  await fixture.connector.stop();
  await old.stop();
});

it('reports two clients that repeatedly take over the session of each other', async () => {
  const fixture = fixtureAt(broker.url);
  fixture.open();
  await fixture.attached();
  broker.disconnect(0x8e);
  await fixture.attached(1);
  expect(fixture.status.warnings).toEqual([]);
  broker.disconnect(0x8e);
  await fixture.attached(2);
  expect(fixture.status.warnings).toEqual(['contested']);
});

it('reports sessions that are closed right after they start, as another client with the same id may cause', async () => {
  const fixture = fixtureAt(broker.url);
  fixture.open({ clientId: 'same-id' });
  for (const before of [0, 1, 2]) {
    await fixture.attached(before);
    expect(fixture.status.warnings).toEqual([]);
    broker.cut();
    expect((await fixture.state('disconnected')).lastError).toMatch(
      /closed the connection .* another client uses the client id "same-id"/,
    );
  }
  await fixture.attached(3);
  expect(fixture.status.warnings).toEqual(['contested']);
});

it('reconnects only for changed settings, and leaves nothing behind when the connection is deleted', async () => {
  const fixture = fixtureAt(broker.url);
  fixture.open();
  await fixture.attached();
  fixture.open({}, { name: 'Other', policy: { maxInFlight: 3 } });
  expect(fixture.connector.peer(fixture.connectionId)?.capacity).toBe(3);
  expect(broker.connects).toHaveLength(1);
  fixture.open({ uplinkTopic: 'other/{clientDeviceId}/up' });
  await fixture.attached(1);
  broker.publish('site/meter-1/up', '1');
  broker.publish('other/meter-1/up', '1');
  await fixture.events.until(() => fixture.events.uplinks.length === 1);
  await broker.until(() => broker.acknowledged.length === 1);
  expect(fixture.events.uplinks).toHaveLength(1); // The old subscription was deleted.
  fixture.open({ uplinkTopic: 'other/{clientDeviceId}/up' }, { enabled: false });
  await fixture.events.until(() => fixture.events.detachments.length === 2);
  await broker.until(() => broker.farewells.length >= 2);
  expect(broker.kept).toEqual([`plantroom-${fixture.connectionId}`]);
  fixture.open({ uplinkTopic: 'other/{clientDeviceId}/up' });
  await fixture.attached(2);
  fixture.connector.connectionDeleted(fixture.connectionId);
  await broker.until(() => broker.kept.length === 0);
});

it('does not let a failing connection delay another one', async () => {
  const broken = fixtureAt('mqtt://127.0.0.1:1');
  const fixture = fixtureAt(broker.url);
  broken.open();
  fixture.open();
  await fixture.attached();
  await broken.state('disconnected');
});

/** Puts a TLS proxy in front of the broker. */
async function startTlsProxy(target: Mqtt5Broker, options: { cert: string; key: string; ca?: string }) {
  const { port } = new URL(target.url);
  const server = createTlsServer(
    { ...options, ...(options.ca !== undefined && { requestCert: true, rejectUnauthorized: true }) },
    (socket: TLSSocket) => {
      const inner = connect(Number(port), '127.0.0.1');
      socket.pipe(inner).pipe(socket);
      for (const side of [socket, inner]) side.on('error', () => {});
      socket.on('close', () => inner.destroy());
      inner.on('close', () => socket.destroy());
    },
  );
  server.on('tlsClientError', () => {});
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return { url: `mqtts://localhost:${(server.address() as AddressInfo).port}`, stop: () => server.close() };
}

describe('a link over TLS', () => {
  it('trusts the configured certificate authority and sends its own certificate', async () => {
    const ca = await TestCa.create();
    const client = await ca.forClient();
    const tls = await startTlsProxy(broker, { ...(await ca.forServer()), ca: ca.cert });
    const fixture = fixtureAt(tls.url, {
      caCertificate: ca.cert,
      clientCertificate: client.cert,
      clientKey: client.key,
    });
    fixture.open();
    await fixture.attached();
    await fixture.connector.stop();
    tls.stop();
  });

  it.each([
    [
      'expired',
      async (ca: TestCa) => [await ca.forServer('localhost', Date.now() - 1000), ca.cert] as const,
      'has expired',
    ],
    [
      'signed by an unknown authority',
      async (ca: TestCa) => [await ca.forServer(), (await TestCa.create('Another CA')).cert] as const,
      'authority',
    ],
    [
      'issued for another name',
      async (ca: TestCa) => [await ca.forServer('broker.example'), ca.cert] as const,
      'another name',
    ],
  ])('reports a certificate that is %s', async (_, createCertificates, text) => {
    const [certificate, caCertificate] = await createCertificates(await TestCa.create());
    const tls = await startTlsProxy(broker, certificate);
    const fixture = fixtureAt(tls.url, { caCertificate });
    fixture.open();
    expect((await fixture.state('error')).lastError).toContain(text);
    const checks = await fixture.test();
    expect(checks.find(({ name }) => name === 'tls')).toMatchObject({ outcome: 'failed' });
    await fixture.connector.stop();
    tls.stop();
  });
});

describe('a connection test', () => {
  it('succeeds and leaves no session behind', async () => {
    const checks = await fixtureAt(broker.url).test();
    expect(checks.filter(({ outcome }) => outcome !== 'ok').map(({ name, outcome }) => [name, outcome])).toEqual([
      ['tls', 'skipped'],
      ['publish_allowed', 'skipped'],
    ]);
    await broker.until(() => broker.kept.length === 0);
  });

  it('warns about 3.1.1', async () => {
    broker.onConnect = ({ protocolVersion }) => (protocolVersion === 5 ? 0x84 : 0);
    expect((await fixtureAt(broker.url).test()).find(({ name }) => name === 'protocol')).toMatchObject({
      outcome: 'warning',
      message: expect.stringContaining('no_message_expiry'),
    });
  });

  it('fails with a wrong password', async () => {
    broker.onConnect = () => 0x86;
    expect((await fixtureAt(broker.url).test()).find(({ outcome }) => outcome === 'failed')).toMatchObject({
      name: 'sign_in',
      message: expect.stringMatching(/user name or the password.*tested with the client id plantroom-trial-/),
    });
  });

  it.each([
    ['mqtt', 'sign_in', 'does not respond to CONNECT'],
    ['mqtts', 'tls', 'does not respond to the TLS handshake'],
    ['ws', 'address', 'does not respond in time'],
  ])(
    'reports how far it got with a broker that accepts the connection but never responds: %s',
    async (scheme, name, text) => {
      const sockets: Socket[] = [];
      const silent = createServer((socket) => sockets.push(socket.on('error', () => {})));
      await once(silent.listen(0, '127.0.0.1'), 'listening');
      const url = `${scheme}://127.0.0.1:${(silent.address() as AddressInfo).port}`;
      const settings = { url, protocol: '5', clientId: '', keepaliveSeconds: 30, sessionExpirySeconds: 60 } as const;
      const checks = await testBroker(settings, {
        filters: [],
        signal: new AbortController().signal,
        connectTimeoutMs: 200,
      });
      for (const socket of sockets) socket.destroy();
      silent.close();
      expect(checks.find(({ outcome }) => outcome === 'failed')).toEqual({
        name,
        outcome: 'failed',
        message: expect.stringContaining(text) as string,
      });
    },
  );
});

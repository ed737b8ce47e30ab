import { once } from 'node:events';
import { connect, createServer, type AddressInfo, type Socket } from 'node:net';
import { createServer as createTlsServer, type TLSSocket } from 'node:tls';
import { tryBroker } from '../../src/connections/connectors/broker/brokerTrial';
import { TestCa } from '../support/brokerPki';
import { Mqtt5Broker } from '../support/mqtt5Broker';
import { gate } from './fakeEvents';
import { startBroker } from './chirpStackRoom';
import { MqttRoom, TOPICS } from './mqttRoom';

let broker: Mqtt5Broker;
const rooms: MqttRoom[] = [];

beforeEach(async () => {
  broker = await new Mqtt5Broker().start();
});

afterEach(async () => {
  await Promise.all(rooms.splice(0).map(async (room) => await room.connector.stop()));
  await broker.stop();
});

function roomAt(url: string, settings: Record<string, unknown> = {}): MqttRoom {
  const room = new MqttRoom({ url, keepaliveSeconds: 30, ...TOPICS, ...settings });
  rooms.push(room);
  return room;
}

it('waits for a broker that is down at the start', async () => {
  await broker.stop();
  const room = roomAt(broker.url);
  room.open();
  await room.state('connecting');
  expect((await room.state('disconnected')).lastError).toContain('nothing listens');
  await broker.start();
  await room.attached();
  expect(room.status.state).toBe('connected');
});

it('tells the rooms above that everybody left before it tells that somebody came', async () => {
  const room = roomAt(broker.url);
  room.open();
  await room.attached();
  const left = gate<void>();
  room.events.onDetached = async () => await left.promise;
  broker.cut();
  await room.events.until(() => room.events.detachments.length === 1);
  expect(room.connector.peer(room.connectionId)).toBeUndefined();
  expect(room.events.attachments).toHaveLength(1);
  left.open();
  await room.attached(1);
  expect(new Set(room.events.attachments.map(({ bootId }) => bootId)).size).toBe(2);
});

it('notices a broker that swallows everything', async () => {
  const room = roomAt(broker.url, { keepaliveSeconds: 1 });
  room.open();
  await room.attached();
  broker.isMute = true;
  expect((await room.state('disconnected')).lastError).toContain('keepalives');
  broker.isMute = false;
  await room.attached(1);
});

it('stays while the database is slow, and reads no more than it can hold', async () => {
  const room = roomAt(broker.url, { keepaliveSeconds: 1 });
  room.open();
  await room.attached();
  const stored = gate<void>();
  room.events.onUplink = async () => {
    await stored.promise;
    return { outcome: 'stored' };
  };
  for (let n = 0; n < 700; n++) broker.publish(`site/device-${n}/up`, '{"n":1}', { qos: 0 });
  await room.events.until(() => room.events.uplinks.length === 500);
  const before = broker.pings;
  await broker.until(() => broker.pings >= before + 4);
  expect(room.events.uplinks).toHaveLength(500);
  expect(room.status.state).toBe('connected');
  stored.open();
  await room.events.until(() => room.events.uplinks.length === 700);
  expect(broker.connects).toHaveLength(1);
});

it('takes a session up whose answer to the subscription stands behind all that waited', async () => {
  const room = roomAt(broker.url);
  room.open();
  await room.attached();
  broker.onSubscribe = () => {
    for (let n = 0; n < 700; n++) broker.publish(`site/device-${n}/up`, '{"n":1}', { qos: 0 });
    return 1;
  };
  broker.cut();
  await room.attached(1);
  await room.events.until(() => room.events.uplinks.length === 700);
});

it.each([
  [0x86, 'user name or the password'],
  [0x87, 'right to connect'],
  [0x85, 'client id'],
])('says what to change when the broker refuses with %i', async (reason, text) => {
  broker.onConnect = () => reason;
  const room = roomAt(broker.url);
  room.open();
  expect((await room.state('error')).lastError).toContain(text);
  expect(room.events.attachments).toEqual([]);
  broker.onConnect = () => 0;
  await room.attached();
});

it('says so when the broker refuses the subscription', async () => {
  broker.onSubscribe = () => 0x87;
  const room = roomAt(broker.url);
  room.open();
  expect((await room.state('error')).lastError).toContain('site/+/up');
});

it('falls back to 3.1.1, says what that means, and knows what waited by a fence of its own', async () => {
  broker.onConnect = ({ protocolVersion }) => (protocolVersion === 5 ? 0x84 : 0);
  const room = roomAt(broker.url);
  room.open();
  await room.attached();
  expect(room.status).toMatchObject({ state: 'degraded', warnings: ['no_message_expiry'] });
  await broker.stop();
  await room.state('disconnected');
  broker.publish('site/meter-1/up', '{"n":1}');
  await broker.start();
  await room.attached(1);
  await broker.until(() => broker.acknowledged.length === 2); // the uplink and the fence
  broker.publish('site/meter-1/up', '{"n":2}');
  await room.events.until(() => room.events.uplinks.length === 2);
  expect(room.events.uplinks.map(({ isBuffered }) => isBuffered)).toEqual([true, false]);
});

it('speaks 3.1.1 with a broker that hangs up on MQTT 5', async () => {
  const old = await startBroker();
  const room = roomAt(old.url);
  room.open();
  await room.attached();
  expect(room.status.warnings).toEqual(['no_message_expiry']);
  await room.connector.stop();
  await old.stop();
});

it('shows two that keep taking the session over from each other', async () => {
  const room = roomAt(broker.url);
  room.open();
  await room.attached();
  broker.disconnect(0x8e);
  await room.attached(1);
  expect(room.status.warnings).toEqual([]);
  broker.disconnect(0x8e);
  await room.attached(2);
  expect(room.status.warnings).toEqual(['contested']);
});

it('shows that its sessions are closed as soon as they are up, as another client of the same id may do', async () => {
  const room = roomAt(broker.url);
  room.open({ clientId: 'same-id' });
  for (const before of [0, 1, 2]) {
    await room.attached(before);
    expect(room.status.warnings).toEqual([]);
    broker.cut();
    expect((await room.state('disconnected')).lastError).toMatch(/closed the connection .* another client uses the client id "same-id"/);
  }
  await room.attached(3);
  expect(room.status.warnings).toEqual(['contested']);
});

it('connects anew for changed settings only, and leaves nothing behind when the connection is deleted', async () => {
  const room = roomAt(broker.url);
  room.open();
  await room.attached();
  room.open({}, { name: 'Other', policy: { maxInFlight: 3 } });
  expect(room.connector.peer(room.connectionId)?.capacity).toBe(3);
  expect(broker.connects).toHaveLength(1);
  room.open({ uplinkTopic: 'other/{clientDeviceId}/up' });
  await room.attached(1);
  broker.publish('site/meter-1/up', '1');
  broker.publish('other/meter-1/up', '1');
  await room.events.until(() => room.events.uplinks.length === 1);
  await broker.until(() => broker.acknowledged.length === 1);
  expect(room.events.uplinks).toHaveLength(1); // the old subscription is gone
  room.open({ uplinkTopic: 'other/{clientDeviceId}/up' }, { enabled: false });
  await room.events.until(() => room.events.detachments.length === 2);
  await broker.until(() => broker.farewells.length >= 2);
  expect(broker.kept).toEqual([`plantroom-${room.connectionId}`]);
  room.open({ uplinkTopic: 'other/{clientDeviceId}/up' });
  await room.attached(2);
  room.connector.connectionDeleted(room.connectionId);
  await broker.until(() => broker.kept.length === 0);
});

it('does not let a broken connection hold up another', async () => {
  const broken = roomAt('mqtt://127.0.0.1:1');
  const room = roomAt(broker.url);
  broken.open();
  room.open();
  await room.attached();
  await broken.state('disconnected');
});

/** Puts TLS in front of the broker. */
async function tlsTo(target: Mqtt5Broker, options: { cert: string; key: string; ca?: string }) {
  const { port } = new URL(target.url);
  const server = createTlsServer({ ...options, ...(options.ca !== undefined && { requestCert: true, rejectUnauthorized: true }) }, (socket: TLSSocket) => {
    const inner = connect(Number(port), '127.0.0.1');
    socket.pipe(inner).pipe(socket);
    for (const side of [socket, inner]) side.on('error', () => {});
    socket.on('close', () => inner.destroy());
    inner.on('close', () => socket.destroy());
  });
  server.on('tlsClientError', () => {});
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return { url: `mqtts://localhost:${(server.address() as AddressInfo).port}`, stop: () => server.close() };
}

describe('over TLS', () => {
  it('trusts the authority that it is given, and shows its own certificate', async () => {
    const ca = await TestCa.make();
    const client = await ca.forClient();
    const tls = await tlsTo(broker, { ...(await ca.forServer()), ca: ca.cert });
    const room = roomAt(tls.url, { caCertificate: ca.cert, clientCertificate: client.cert, clientKey: client.key });
    room.open();
    await room.attached();
    await room.connector.stop();
    tls.stop();
  });

  it.each([
    ['expired', async (ca: TestCa) => [await ca.forServer('localhost', Date.now() - 1000), ca.cert] as const, 'has expired'],
    ['of an authority that is unknown', async (ca: TestCa) => [await ca.forServer(), (await TestCa.make('Another CA')).cert] as const, 'authority'],
    ['for another name', async (ca: TestCa) => [await ca.forServer('broker.example'), ca.cert] as const, 'another name'],
  ])('says what is wrong with a certificate that is %s', async (_, make, text) => {
    const [certificate, caCertificate] = await make(await TestCa.make());
    const tls = await tlsTo(broker, certificate);
    const room = roomAt(tls.url, { caCertificate });
    room.open();
    expect((await room.state('error')).lastError).toContain(text);
    const checks = await room.test();
    expect(checks.find(({ name }) => name === 'tls')).toMatchObject({ outcome: 'failed' });
    await room.connector.stop();
    tls.stop();
  });
});

describe('tried out', () => {
  it('passes and leaves no session behind', async () => {
    const checks = await roomAt(broker.url).test();
    expect(checks.filter(({ outcome }) => outcome !== 'ok').map(({ name, outcome }) => [name, outcome])).toEqual([
      ['tls', 'skipped'],
      ['publish_allowed', 'skipped'],
    ]);
    await broker.until(() => broker.kept.length === 0);
  });

  it('warns of 3.1.1', async () => {
    broker.onConnect = ({ protocolVersion }) => (protocolVersion === 5 ? 0x84 : 0);
    expect((await roomAt(broker.url).test()).find(({ name }) => name === 'protocol')).toMatchObject({ outcome: 'warning', message: expect.stringContaining('no_message_expiry') });
  });

  it('fails at a wrong password', async () => {
    broker.onConnect = () => 0x86;
    expect((await roomAt(broker.url).test()).find(({ outcome }) => outcome === 'failed')).toMatchObject({ name: 'sign_in', message: expect.stringMatching(/user name or the password.*tried with the client id plantroom-trial-/) });
  });

  it.each([
    ['mqtt', 'sign_in', 'does not answer to CONNECT'],
    ['mqtts', 'tls', 'does not answer the TLS handshake'],
    ['ws', 'address', 'does not answer in time'],
  ])('tells how far it came with one that takes the connection and says nothing: %s', async (scheme, name, text) => {
    const sockets: Socket[] = [];
    const silent = createServer((socket) => sockets.push(socket.on('error', () => {})));
    await once(silent.listen(0, '127.0.0.1'), 'listening');
    const url = `${scheme}://127.0.0.1:${(silent.address() as AddressInfo).port}`;
    const settings = { url, protocol: '5', clientId: '', keepaliveSeconds: 30, sessionExpirySeconds: 60 } as const;
    const checks = await tryBroker(settings, [], new AbortController().signal, 200);
    for (const socket of sockets) socket.destroy();
    silent.close();
    expect(checks.find(({ outcome }) => outcome === 'failed')).toEqual({ name, outcome: 'failed', message: expect.stringContaining(text) as string });
  });
});

import { MqttClientAdapter } from '../../src/connections/connectors/broker/mqttClientAdapter';
import { getClientOptions } from '../../src/connections/connectors/broker/brokerSettings';
import { MqttPacketSizeScanner } from '../../src/connections/connectors/broker/mqttPacketSizeScanner';
import { InFlightPublishes } from '../../src/connections/connectors/broker/inFlightPublishes';
import type { Mqtt5Broker } from '../support/mqtt5Broker';
import { type Gate, gate } from './fakeEvents';
import { type MqttFixture, mqttFixtureForEach } from './mqttFixture';

let broker: Mqtt5Broker;
let fixture: MqttFixture;
mqttFixtureForEach((...made) => ([broker, fixture] = made));

describe('a broker that withholds acknowledgements', () => {
  it('is disconnected 10 s after the deadline of a command, so that other commands can be sent', async () => {
    await fixture.connect({}, { policy: { maxInFlight: 1 } });
    broker.onPublish = () => undefined;
    await fixture.send();
    await broker.until(() => broker.published.length === 1);
    expect(fixture.connector.peer(fixture.connectionId)?.capacity).toBe(0);
    broker.onPublish = () => 0;
    fixture.clock.advance(70_000);
    expect((await fixture.state('disconnected')).lastError).toContain('did not acknowledge');
    await fixture.attached(1);
    expect(await fixture.send()).toMatchObject({ result: 'sent' });
  });

  it('gets extra time while this server reads nothing, and for 10 s after', () => {
    const owed = new InFlightPublishes();
    owed.add(1, () => {}, 1000);
    expect([owed.hasOverdueCommand(10_999), owed.hasOverdueCommand(11_000)]).toEqual([false, true]);
    owed.excuseDelay(3_600_000);
    expect(owed.hasOverdueCommand(3_600_000)).toBe(false);
    expect([owed.hasOverdueCommand(3_609_999), owed.hasOverdueCommand(3_610_000)]).toEqual([false, true]);
  });

  it('keeps its link while this server reads nothing', async () => {
    await fixture.connect();
    const stored = gate<void>();
    fixture.events.onUplink = async () => {
      await stored.promise;
      return { outcome: 'stored' };
    };
    for (let n = 0; n < 600; n++) broker.publish(`site/device-${n}/up`, '{"n":1}', { qos: 0 });
    await fixture.events.until(() => fixture.events.uplinks.length >= 500);
    const { executionId } = await fixture.send();
    await broker.until(() => broker.published.length === 1);
    stored.open();
    await fixture.events.until(() => fixture.events.evidences.some((one) => one.executionId === executionId));
    expect(broker.connects).toHaveLength(1);
  });
});

it('reports a broker that does not acknowledge the subscription', async () => {
  broker.onSubscribe = () => undefined;
  fixture.open();
  await fixture.state('connecting');
  expect((await fixture.state('disconnected')).lastError).toContain(
    'does not respond to the subscription to "site/+/up"',
  );
  broker.onSubscribe = () => 1;
  await fixture.attached();
}, 10_000);

it('reports that the broker is stopping when it closes the connection with reason 0', async () => {
  await fixture.connect();
  broker.disconnect(0);
  expect((await fixture.state('disconnected')).lastError).toContain('closed the connection normally');
});

it('warns when the broker grants only QoS 0', async () => {
  broker.onSubscribe = () => 0;
  await fixture.connect();
  expect(fixture.status).toMatchObject({ state: 'degraded', warnings: ['subscribed_at_most_once'] });
  expect((await fixture.test()).find(({ name }) => name === 'subscribe')).toMatchObject({
    outcome: 'warning',
    message: expect.stringContaining('subscribed_at_most_once'),
  });
});

it('sends no command that has less than a second left', async () => {
  await fixture.connect();
  expect(await fixture.send({ deadline: fixture.clock.now() + 999 })).toMatchObject({ result: 'not_sent' });
  expect(await fixture.send({ deadline: fixture.clock.now() + 1000 })).toMatchObject({ result: 'sent' });
  await broker.until(() => broker.published.length === 1);
  expect(broker.published[0]?.properties?.messageExpiryInterval).toBe(1);
});

it('never assigns a packet identifier that is in use', () => {
  const { messageIdProvider: ids } = getClientOptions(
    { url: broker.url, clientId: 'c', keepaliveSeconds: 30, sessionExpirySeconds: 60 },
    '5',
    1000,
  );
  const open = ids?.allocate();
  const others = Array.from({ length: 70_000 }, () => {
    const id = ids?.allocate() ?? 0;
    ids?.deallocate(id);
    return id;
  });
  expect(others).not.toContain(open);
});

describe('large messages', () => {
  it('are limited to 4 MiB in progress', async () => {
    const settings = { url: broker.url, clientId: 'c', keepaliveSeconds: 30, sessionExpirySeconds: 60 };
    const storing: Gate<void>[] = [];
    let arrived = gate<void>();
    const connection = new MqttClientAdapter({
      settings,
      version: '3.1.1',
      connectTimeoutMs: 5000,
      onMessage: async () => {
        const stored = gate<void>();
        if (storing.push(stored) >= 4) arrived.open();
        await stored.promise;
      },
    });
    await connection.waitUntilAccepted();
    await connection.subscribe(['up'], undefined);
    for (let n = 0; n < 8; n++) broker.publish('up', Buffer.alloc(1024 * 1024), { qos: 0 });
    for (let n = 4; n <= 8; n++) {
      await arrived.promise;
      expect(storing).toHaveLength(n); // Each stored message admits one more.
      arrived = gate<void>();
      storing[n - 4]?.open();
    }
    broker.publish('up', 'the last', { qos: 1 });
    await arrived.promise;
    for (const stored of storing) stored.open();
    await broker.until(() => broker.acknowledged.length === 1);
    expect(storing).toHaveLength(9);
    await connection.close(1000);
  });

  it('of more than 16 MiB are never read', async () => {
    await fixture.connect({ protocol: '3.1.1' });
    broker.publish('site/device-1/up', Buffer.alloc(17 * 1024 * 1024), { qos: 0 });
    expect((await fixture.state('error')).lastError).toContain('limit the message size');
  });
});

it('measures packets that arrive in pieces of any length', () => {
  const stream = Buffer.concat([
    Buffer.from([0xd0, 0]),
    Buffer.from([0x30, 3, 1, 2, 3]),
    Buffer.from([0x30, 0x80, 1]),
    Buffer.alloc(128, 0xff),
    Buffer.from([0x30, 0xff, 0xff, 0xff, 0x7f]),
  ]);
  for (const length of [1, 2, 3, 7, 1000]) {
    const sizes: number[] = [];
    const reader = new MqttPacketSizeScanner((bytes) => sizes.push(bytes));
    for (let at = 0; at < stream.length; at += length) reader.scan(stream.subarray(at, at + length), 100);
    expect(sizes).toEqual([0, 3, 128, 268_435_455]);
  }
});

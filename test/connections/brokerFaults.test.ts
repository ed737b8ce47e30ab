import { BrokerConnection } from '../../src/connections/connectors/broker/brokerConnection';
import { clientOptionsOf } from '../../src/connections/connectors/broker/brokerSettings';
import { PacketSizes } from '../../src/connections/connectors/broker/packetSizes';
import { Unacknowledged } from '../../src/connections/connectors/broker/unacknowledged';
import { Mqtt5Broker } from '../support/mqtt5Broker';
import { type Gate, gate } from './fakeEvents';
import { MqttRoom, TOPICS } from './mqttRoom';

let broker: Mqtt5Broker;
let room: MqttRoom;

beforeEach(async () => {
  broker = await new Mqtt5Broker().start();
  room = new MqttRoom({ url: broker.url, keepaliveSeconds: 30, ...TOPICS });
});

afterEach(async () => {
  await room.connector.stop();
  await broker.stop();
});

describe('a broker that owes acknowledgements', () => {
  it('is left 10 s after the deadline of a command, so that others can go', async () => {
    room.open({}, { policy: { maxInFlight: 1 } });
    await room.attached();
    broker.onPublish = () => undefined;
    await room.send();
    await broker.until(() => broker.published.length === 1);
    expect(room.connector.peer(room.connectionId)?.capacity).toBe(0);
    broker.onPublish = () => 0;
    room.clock.advance(70_000);
    expect((await room.state('disconnected')).lastError).toContain('did not acknowledge');
    await room.attached(1);
    expect(await room.send()).toMatchObject({ result: 'sent' });
  });

  it('is excused while this server reads nothing, and for 10 s after', () => {
    const owed = new Unacknowledged();
    owed.add(1, () => {}, 1000);
    expect([owed.isOverdue(10_999, false), owed.isOverdue(11_000, false)]).toEqual([false, true]);
    expect(owed.isOverdue(3_600_000, true)).toBe(false);
    expect([owed.isOverdue(3_609_999, false), owed.isOverdue(3_610_000, false)]).toEqual([false, true]);
  });

  it('keeps its link while this server reads nothing', async () => {
    room.open();
    await room.attached();
    const stored = gate<void>();
    room.events.onUplink = async () => {
      await stored.promise;
      return { outcome: 'stored' };
    };
    for (let n = 0; n < 600; n++) broker.publish(`site/device-${n}/up`, '{"n":1}', { qos: 0 });
    await room.events.until(() => room.events.uplinks.length === 500);
    const { executionId } = await room.send();
    await broker.until(() => broker.published.length === 1);
    stored.open();
    await room.events.until(() => room.events.evidences.some((one) => one.executionId === executionId));
    expect(broker.connects).toHaveLength(1);
  });
});

it('says so when the broker does not answer the subscription', async () => {
  broker.onSubscribe = () => undefined;
  room.open();
  await room.state('connecting');
  expect((await room.state('disconnected')).lastError).toContain('does not answer the subscription of "site/+/up"');
  broker.onSubscribe = () => 1;
  await room.attached();
}, 10_000);

it('says that the broker stops when it ends the connection with reason 0', async () => {
  room.open();
  await room.attached();
  broker.disconnect(0);
  expect((await room.state('disconnected')).lastError).toContain('as if all were done');
});

it('warns where the broker grants QoS 0 only', async () => {
  broker.onSubscribe = () => 0;
  room.open();
  await room.attached();
  expect(room.status).toMatchObject({ state: 'degraded', warnings: ['subscribed_at_most_once'] });
  expect((await room.test()).find(({ name }) => name === 'subscribe')).toMatchObject({ outcome: 'warning', message: expect.stringContaining('subscribed_at_most_once') });
});

it('sends no command that has less than a second left', async () => {
  room.open();
  await room.attached();
  expect(await room.send({ deadline: room.clock.now() + 999 })).toMatchObject({ result: 'not_sent' });
  expect(await room.send({ deadline: room.clock.now() + 1000 })).toMatchObject({ result: 'sent' });
  await broker.until(() => broker.published.length === 1);
  expect(broker.published[0]?.properties?.messageExpiryInterval).toBe(1);
});

it('gives no packet identifier out that is in use', () => {
  const { messageIdProvider: ids } = clientOptionsOf({ url: broker.url, clientId: 'c', keepaliveSeconds: 30, sessionExpirySeconds: 60 }, '5', 1000);
  const open = ids?.allocate();
  const others = Array.from({ length: 70_000 }, () => {
    const id = ids?.allocate() ?? 0;
    ids?.deallocate(id);
    return id;
  });
  expect(others).not.toContain(open);
});

describe('large messages', () => {
  it('are no more than 16 MiB under way', async () => {
    const settings = { url: broker.url, clientId: 'c', keepaliveSeconds: 30, sessionExpirySeconds: 60 };
    const storing: Gate<void>[] = [];
    let arrived = gate<void>();
    const connection = new BrokerConnection({
      settings,
      version: '3.1.1',
      connectTimeoutMs: 5000,
      message: async () => {
        const stored = gate<void>();
        if (storing.push(stored) >= 16) arrived.open();
        await stored.promise;
      },
    });
    await connection.opened();
    await connection.subscribe(['up'], undefined);
    for (let n = 0; n < 20; n++) broker.publish('up', Buffer.alloc(1024 * 1024), { qos: 0 });
    for (let n = 16; n <= 20; n++) {
      await arrived.promise;
      expect(storing).toHaveLength(n); // each that is stored lets in one more
      arrived = gate<void>();
      storing[n - 16]?.open();
    }
    broker.publish('up', 'the last', { qos: 1 });
    await arrived.promise;
    for (const stored of storing) stored.open();
    await broker.until(() => broker.acknowledged.length === 1);
    expect(storing).toHaveLength(21);
    await connection.close(1000);
  });

  it('of more than 16 MiB are not read at all', async () => {
    room.open({ protocol: '3.1.1' });
    await room.attached();
    broker.publish('site/device-1/up', Buffer.alloc(17 * 1024 * 1024), { qos: 0 });
    expect((await room.state('error')).lastError).toContain('limit the size of messages');
  });
});

it('reads the sizes of packets in pieces of any length', () => {
  const stream = Buffer.concat([Buffer.from([0xd0, 0]), Buffer.from([0x30, 3, 1, 2, 3]), Buffer.from([0x30, 0x80, 1]), Buffer.alloc(128, 0xff), Buffer.from([0x30, 0xff, 0xff, 0xff, 0x7f])]);
  for (const length of [1, 2, 3, 7, 1000]) {
    const sizes: number[] = [];
    const reader = new PacketSizes((bytes) => sizes.push(bytes));
    for (let at = 0; at < stream.length; at += length) reader.add(stream.subarray(at, at + length));
    expect(sizes).toEqual([0, 3, 128, 268_435_455]);
  }
});

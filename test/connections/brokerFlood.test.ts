import { once } from 'node:events';
import { createServer, type AddressInfo } from 'node:net';
import { generate } from 'mqtt-packet';
import { MonotonicTimestamps } from '../../src/connections/monotonicTimestamps';
import { MqttClientAdapter } from '../../src/connections/connectors/broker/mqttClientAdapter';
import { MqttConnectionManager } from '../../src/connections/connectors/broker/mqttConnectionManager';
import { silentLogger } from '../../src/kernel/logger';
import { Mqtt5Broker } from '../support/mqtt5Broker';
import { TestClock } from '../support/testClock';
import { gate, type Gate } from './fakeEvents';
import { MqttFixture, TOPICS } from './mqttFixture';

const SETTINGS = { clientId: 'c', keepaliveSeconds: 30, sessionExpirySeconds: 60 };

let broker: Mqtt5Broker;
let fixture: MqttFixture;
let mayStore: Gate<void>;

beforeEach(async () => {
  broker = await new Mqtt5Broker().start();
  fixture = new MqttFixture({ url: broker.url, keepaliveSeconds: 2, ...TOPICS });
  mayStore = gate<void>();
  fixture.events.onUplink = async () => {
    await mayStore.promise;
    return { outcome: 'stored' };
  };
});
afterEach(async () => {
  mayStore.open();
  await fixture.connector.stop();
  await broker.stop();
});

/**
 * Loses the link while messages arrive. The broker acknowledges the next subscription when `subackAllowed` resolves.
 */
async function resume(messages: number, bytes: number, subackAllowed: Promise<void>): Promise<void> {
  await fixture.attached();
  broker.window = 0; // The messages wait at the broker.
  for (let n = 0; n < messages; n++)
    broker.publish(`site/device-${n}/up`, JSON.stringify({ n, padding: 'x'.repeat(bytes) }));
  broker.window = 65_535;
  broker.subackAllowed = subackAllowed;
  broker.cut();
}

describe.each(['5', '3.1.1'])(
  'a broker of MQTT %s that sends its backlog before it acknowledges the subscription',
  (protocol) => {
    it('gets its messages stored and acknowledged before that, and is not read while too much is in progress', async () => {
      fixture.open({ protocol });
      await resume(
        300,
        60_000,
        broker.until(() => broker.acknowledged.length >= 300),
      );
      await fixture.events.until(() => fixture.events.uplinks.length >= 60);
      const before = broker.pings;
      await broker.until(() => broker.pings > before);
      expect(fixture.events.uplinks.length).toBeLessThan(100); // The link reads up to 4 MiB.
      expect(fixture.events.uplinks.every(({ isBuffered }) => isBuffered)).toBe(true);
      expect(fixture.connector.peer(fixture.connectionId)).toBeUndefined();
      mayStore.open();
      await fixture.attached(1);
      expect(fixture.events.uplinks).toHaveLength(300);
      expect(broker.connects).toHaveLength(2);
    });

    it('sends what was not acknowledged again when the link is cut while its backlog is read', async () => {
      fixture.open({ protocol });
      fixture.events.onUplink = async () => {
        if (fixture.events.uplinks.length > 100) await mayStore.promise;
        return { outcome: 'stored' };
      };
      await resume(
        400,
        0,
        broker.until(() => new Set(broker.acknowledged).size === 400),
      );
      await broker.until(() => broker.acknowledged.length >= 100);
      await fixture.events.until(() => fixture.events.uplinks.length === 400);
      expect(broker.acknowledged).toHaveLength(100);
      broker.cut();
      mayStore.open(); // They are stored, but can no longer be acknowledged.
      await fixture.attached(2);
      expect(broker.acknowledged).toHaveLength(400);
      const slots = fixture.events.uplinks.map(({ identity }) => identity.kind === 'delivery' && identity.slot);
      expect(slots).toHaveLength(700);
      expect(new Set(slots).size).toBe(400); // The second delivery has the identity of the first one.
    });

    it('gets the messages back that wait to be stored when the link is stopped', async () => {
      fixture.open({ protocol });
      await fixture.attached();
      for (let n = 0; n < 300; n++) broker.publish('site/valve-1/up', JSON.stringify({ n }));
      await fixture.events.until(() => fixture.events.uplinks.length === 1); // The others wait: same device.
      const before = broker.pings;
      await broker.until(() => broker.pings > before); // All have been read.
      fixture.open({ protocol }, { enabled: false });
      mayStore.open();
      await fixture.events.until(() => fixture.events.detachments.length === 1);
      expect(fixture.events.uplinks).toHaveLength(1);
      expect(broker.acknowledged).toEqual([1]);
      fixture.open({ protocol });
      await broker.until(() => broker.acknowledged.length === 300);
      expect(fixture.events.uplinks.map(({ payload }) => payload)).toEqual(
        Array.from({ length: 300 }, (_, n) => ({ kind: 'json', value: { n } })),
      );
    });
  },
);

it('restarts the session and reports it once when the session cannot be resumed while messages wait for it', async () => {
  mayStore.open();
  fixture.open();
  fixture.events.onAttached = async ({ bootId }) => {
    if (fixture.events.attachments.length === 2) throw new Error(`no room for ${bootId}`);
  };
  await resume(
    20,
    0,
    broker.until(() => broker.acknowledged.length >= 20),
  );
  await fixture.attached(2);
  expect(fixture.events.uplinks).toHaveLength(20);
  expect(fixture.log.of('broker.session_failed')).toHaveLength(1);
  expect(fixture.log.of('broker.message_failed')).toEqual([]);
});

it('reports the cause and reconnects soon when the broker closes the connection before it acknowledges the subscription', async () => {
  broker.onSubscribe = () => {
    broker.cut();
    return undefined;
  };
  fixture.open();
  await fixture.state('connecting');
  expect((await fixture.state('disconnected')).lastError).toContain(
    'closed the connection before it acknowledged the subscription',
  );
  expect((await fixture.test()).find(({ outcome }) => outcome === 'failed')).toMatchObject({
    name: 'subscribe',
    message: expect.stringContaining('closed the connection before'),
  });
  broker.onSubscribe = () => 1;
  await fixture.attached();
});

it('waits for the subscription acknowledgement as long as messages arrive', async () => {
  // A busy machine may stall for a few hundred milliseconds, which does not count as silence of the broker.
  const timeoutMs = 1000;
  const connection = new MqttClientAdapter({
    settings: { url: broker.url, ...SETTINGS },
    version: '5',
    connectTimeoutMs: timeoutMs,
    onMessage: async () => {},
  });
  await connection.waitUntilAccepted();
  await connection.subscribe(['up'], undefined);
  const began = performance.now();
  let sent = 0;
  const next = (): boolean => {
    if (broker.acknowledged.length === sent) broker.publish('up', String((sent += 1)));
    return performance.now() - began > 1.5 * timeoutMs;
  };
  broker.subackAllowed = broker.until(next);
  expect(await connection.subscribe(['other'], undefined)).toEqual([]);
  await connection.close(1000);
});

it('disconnects immediately when the link is stopped while the broker sends', async () => {
  const link = new MqttConnectionManager({
    settings: { url: broker.url, ...SETTINGS },
    filters: ['up'],
    arrivals: new MonotonicTimestamps(new TestClock()),
    clock: new TestClock(),
    log: silentLogger,
    fields: {},
    backoff: { firstMs: 5, maxMs: 5, fatalMs: 5 },
    drainMs: 600_000,
    handlers: { onMessage: async () => {}, onUp: async () => {}, onReady: () => ready.open(), onDown: async () => {} },
  });
  const ready = gate<void>();
  link.start();
  await ready.promise;
  broker.subackAllowed = new Promise(() => {});
  broker.cut();
  broker.window = 0;
  for (let n = 0; n < 20_000; n++) broker.publish('up', String(n));
  broker.window = 65_535;
  await broker.until(() => broker.acknowledged.length > 0);
  await link.stop();
  expect(broker.acknowledged.length).toBeLessThan(20_000);
  expect(broker.farewells).toEqual(['c']);
});

it('yields to other work while a burst of small packets is read', async () => {
  const burst = Buffer.concat([
    ...Array.from({ length: 100_000 }, () => generate({ cmd: 'pingresp' })),
    generate({ cmd: 'publish', topic: 'up', payload: 'last', qos: 0, dup: false, retain: false }),
  ]);
  const server = createServer((socket) => {
    socket.on('error', () => {});
    socket.once('data', () =>
      socket.write(Buffer.concat([generate({ cmd: 'connack', sessionPresent: false, returnCode: 0 }), burst])),
    );
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const arrived = gate<void>();
  const url = `mqtt://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const connection = new MqttClientAdapter({
    settings: { url, ...SETTINGS },
    version: '3.1.1',
    connectTimeoutMs: 5000,
    onMessage: async () => arrived.open(),
  });
  await connection.waitUntilAccepted();
  let turns = 0;
  let turn = setImmediate(function count() {
    turns += 1;
    turn = setImmediate(count);
  });
  await arrived.promise;
  clearImmediate(turn);
  expect(turns).toBeGreaterThan(100_000 / 1000);
  connection.destroy();
  server.close();
});

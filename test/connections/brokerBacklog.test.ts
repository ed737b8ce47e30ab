import { MonotonicTimestamps } from '../../src/connections/monotonicTimestamps';
import { MqttConnectionManager } from '../../src/connections/connectors/broker/mqttConnectionManager';
import type { BrokerMessage } from '../../src/connections/connectors/broker/brokerTraffic';
import type { BrokerSettings } from '../../src/connections/connectors/broker/brokerSettings';
import { MemoryLog } from '../support/edge';
import { Mqtt5Broker } from '../support/mqtt5Broker';
import { TestClock } from '../support/testClock';
import { gate, type Gate } from './fakeEvents';

const OLD = '3.1.1' as const;

let broker: Mqtt5Broker;
let clock: TestClock;
let log: MemoryLog;
let link: MqttConnectionManager;
let messages: BrokerMessage[];
let stored: Gate<void>;
let ups: number;
let wakers: (() => void)[];

beforeEach(async () => {
  broker = await new Mqtt5Broker().start();
  [clock, log, messages, stored, ups, wakers] = [new TestClock(), new MemoryLog(), [], gate<void>(), 0, []];
});
afterEach(async () => {
  stored.open();
  await link.stop();
  await broker.stop();
});

const wake = (): void => {
  for (const waker of wakers.splice(0)) waker();
};
async function until(condition: () => boolean): Promise<void> {
  while (!condition()) await new Promise<void>((resolve) => wakers.push(resolve));
}

async function startLink(settings: Partial<BrokerSettings> = {}): Promise<void> {
  link = new MqttConnectionManager({
    settings: {
      url: broker.url,
      clientId: 'plantroom-1',
      keepaliveSeconds: 30,
      sessionExpirySeconds: 3600,
      ...settings,
    },
    filters: ['+/up'],
    arrivals: new MonotonicTimestamps(clock),
    clock,
    log,
    fields: {},
    backoff: { firstMs: 5, maxMs: 5, fatalMs: 5 },
    handlers: {
      onMessage: async (message) => {
        messages.push(message);
        wake();
        if (message.payload.toString() === 'slow') await stored.promise;
      },
      onUp: async () => {},
      onReady: () => {
        ups += 1;
        wake();
      },
      onDown: async () => {},
    },
  });
  link.start();
  await up(1);
}

async function up(times: number): Promise<void> {
  await until(() => ups >= times && link.session !== undefined);
}

/** Reconnects to a session that the broker kept, for the second or a later time. */
async function reconnect(): Promise<void> {
  const before = ups;
  broker.cut();
  await up(before + 1);
}

function slow(count: number): void {
  for (let n = 0; n < count; n++) broker.publish(`device-${n}/up`, 'slow');
}

const fences = (): string[] => broker.published.map(({ topic }) => topic).filter((topic) => topic.endsWith('/fence'));
const isBuffered = (text: string): boolean | undefined =>
  messages.find(({ payload }) => payload.toString() === text)?.isBuffered;

describe.each(['5', OLD] as const)('an MQTT %s link with a backlog at the broker', (protocol) => {
  it('has caught up when all earlier messages have arrived', async () => {
    broker.window = 20;
    await startLink({ protocol });
    slow(30);
    await until(() => messages.length === 20);
    broker.publish('valve-1/up', 'sample');
    let isCaughtUp = false;
    const caughtUp = link.waitForBacklog().then(() => (isCaughtUp = true));
    const later = link.waitForBacklog();
    await broker.until(() => fences().length === 1);
    expect(messages).toHaveLength(20);
    expect(isCaughtUp).toBe(false);
    stored.open();
    await Promise.all([caughtUp, later]);
    expect(isBuffered('sample')).toBe(false);
    expect(fences().length).toBeLessThanOrEqual(2);
    expect(link.inFlight).toBe(0);
  });
});

it('a link has caught up immediately without a backlog or without a session', async () => {
  await startLink();
  slow(7);
  await until(() => messages.length === 7);
  await link.waitForBacklog();
  expect(fences()).toEqual([]);
  stored.open();
  await link.stop();
  await link.waitForBacklog();
});

it.each([
  ['rejects the fence subscription', 0x87, 0],
  ['rejects the fence message', 1, 0x87],
])('a link waits for a quiet period, up to a limit, when the broker %s', async (_, subscribed, published) => {
  broker.onSubscribe = (topic) => (topic.endsWith('/fence') ? subscribed : 1);
  broker.onPublish = () => published;
  await startLink();
  slow(8);
  await until(() => messages.length === 8);
  await link.waitForBacklog(); // The wait reaches its limit.
  stored.open();
  await broker.until(() => broker.acknowledged.length >= 8);
  const calm = link.waitForBacklog();
  clock.advance(1000);
  await calm;
});

it('a link stops waiting when the session expires', async () => {
  broker.window = 8;
  await startLink();
  slow(8);
  await until(() => messages.length === 8);
  const caughtUp = link.waitForBacklog();
  await broker.until(() => fences().length === 1);
  broker.cut();
  await caughtUp;
});

describe('the backlog at a broker without subscription identifiers', () => {
  it('is considered buffered until the fence returns, however long that takes', async () => {
    await startLink({ protocol: OLD });
    await reconnect(); // The fence is delivered, so the broker allows it.
    await broker.until(() => broker.acknowledged.length === 1);
    broker.window = 1;
    slow(1);
    await until(() => messages.length === 1);
    broker.publish('valve-1/up', 'old');
    await reconnect();
    clock.advance(61_000);
    stored.open();
    await until(() => messages.some(({ payload }) => payload.toString() === 'old'));
    expect(isBuffered('old')).toBe(true);
    await broker.until(() => fences().length >= 2 && broker.acknowledged.length >= 4);
    broker.publish('valve-1/up', 'new');
    await until(() => isBuffered('new') !== undefined);
    expect(isBuffered('new')).toBe(false);
  });

  it('is considered buffered for a minute when the broker allows no fence', async () => {
    broker.onSubscribe = (topic) => (topic.endsWith('/fence') ? 0x80 : 1);
    await startLink({ protocol: OLD });
    await reconnect();
    slow(8);
    await until(() => messages.length === 8);
    clock.advance(61_000);
    broker.publish('valve-1/up', 'in the backlog');
    await until(() => isBuffered('in the backlog') !== undefined);
    expect(isBuffered('in the backlog')).toBe(true);
    stored.open();
    await broker.until(() => broker.acknowledged.length >= 9);
    clock.advance(61_000);
    broker.publish('valve-1/up', 'new');
    await until(() => isBuffered('new') !== undefined);
    expect(isBuffered('new')).toBe(false);
  });

  it('uses a valid fence topic when the client id contains characters that topics forbid', async () => {
    await startLink({ protocol: OLD, clientId: 'a/+/#' });
    await reconnect();
    await broker.until(() => broker.acknowledged.length === 1);
    expect(fences()).toEqual(['plantroom/a____/fence']);
  });
});

it('a link detects when the broker claims to support subscription identifiers but omits them', async () => {
  broker.isForgetful = true;
  await startLink();
  await reconnect();
  broker.publish('valve-1/up', 'first');
  await until(() => isBuffered('first') === true);
  await broker.until(() => broker.acknowledged.length === 2);
  broker.publish('valve-1/up', 'second');
  await until(() => isBuffered('second') === false);
  expect(log.lines.some(({ event }) => event === 'broker.no_subscription_ids')).toBe(true);
});

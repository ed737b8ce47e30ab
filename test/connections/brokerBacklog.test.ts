import { Arrivals } from '../../src/connections/arrivals';
import { BrokerLink } from '../../src/connections/connectors/broker/brokerLink';
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
let link: BrokerLink;
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

async function linked(settings: Partial<BrokerSettings> = {}): Promise<void> {
  link = new BrokerLink({
    settings: { url: broker.url, clientId: 'plantroom-1', keepaliveSeconds: 30, sessionExpirySeconds: 3600, ...settings },
    filters: ['+/up'],
    arrivals: new Arrivals(clock),
    clock,
    log,
    fields: {},
    backoff: { firstMs: 5, mostMs: 5, fatalMs: 5 },
    handlers: {
      message: async (message) => {
        messages.push(message);
        wake();
        if (message.payload.toString() === 'slow') await stored.promise;
      },
      up: async () => {},
      ready: () => {
        ups += 1;
        wake();
      },
      down: async () => {},
    },
  });
  link.start();
  await up(1);
}

async function up(times: number): Promise<void> {
  await until(() => ups >= times && link.session !== undefined);
}

/** Comes back to a session that the broker kept, for the second time or more. */
async function cut(): Promise<void> {
  const before = ups;
  broker.cut();
  await up(before + 1);
}

function slow(count: number): void {
  for (let n = 0; n < count; n++) broker.publish(`device-${n}/up`, 'slow');
}

const fences = (): string[] => broker.published.map(({ topic }) => topic).filter((topic) => topic.endsWith('/fence'));
const isBuffered = (text: string): boolean | undefined => messages.find(({ payload }) => payload.toString() === text)?.isBuffered;

describe.each(['5', OLD] as const)('a link by MQTT %s with a backlog at the broker', (protocol) => {
  it('has caught up when what was there before has come', async () => {
    broker.window = 20;
    await linked({ protocol });
    slow(30);
    await until(() => messages.length === 20);
    broker.publish('valve-1/up', 'sample');
    let isCaughtUp = false;
    const caughtUp = link.caughtUp().then(() => (isCaughtUp = true));
    const later = link.caughtUp();
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

it('has caught up at once where nothing piles up, and with no session', async () => {
  await linked();
  slow(7);
  await until(() => messages.length === 7);
  await link.caughtUp();
  expect(fences()).toEqual([]);
  stored.open();
  await link.stop();
  await link.caughtUp();
});

it.each([
  ['refuses the subscription of it', 0x87, 0],
  ['refuses the fence', 1, 0x87],
])('waits for calm, and not for long, where the broker %s', async (_, subscribed, published) => {
  broker.onSubscribe = (topic) => (topic.endsWith('/fence') ? subscribed : 1);
  broker.onPublish = () => published;
  await linked();
  slow(8);
  await until(() => messages.length === 8);
  await link.caughtUp(); // at its limit
  stored.open();
  await broker.until(() => broker.acknowledged.length >= 8);
  const calm = link.caughtUp();
  clock.advance(1000);
  await calm;
});

it('waits no longer than the session lasts', async () => {
  broker.window = 8;
  await linked();
  slow(8);
  await until(() => messages.length === 8);
  const caughtUp = link.caughtUp();
  await broker.until(() => fences().length === 1);
  broker.cut();
  await caughtUp;
});

describe('what waited at a broker that tells no subscriptions', () => {
  it('has waited as long as the fence stands, however long that is', async () => {
    await linked({ protocol: OLD });
    await cut(); // a fence comes back: the broker allows it
    await broker.until(() => broker.acknowledged.length === 1);
    broker.window = 1;
    slow(1);
    await until(() => messages.length === 1);
    broker.publish('valve-1/up', 'old');
    await cut();
    clock.advance(61_000);
    stored.open();
    await until(() => messages.some(({ payload }) => payload.toString() === 'old'));
    expect(isBuffered('old')).toBe(true);
    await broker.until(() => fences().length >= 2 && broker.acknowledged.length >= 4);
    broker.publish('valve-1/up', 'new');
    await until(() => isBuffered('new') !== undefined);
    expect(isBuffered('new')).toBe(false);
  });

  it('has waited for a minute without a backlog where the broker allows no fence', async () => {
    broker.onSubscribe = (topic) => (topic.endsWith('/fence') ? 0x80 : 1);
    await linked({ protocol: OLD });
    await cut();
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

  it('is told by a fence where the client id holds what topics may not', async () => {
    await linked({ protocol: OLD, clientId: 'a/+/#' });
    await cut();
    await broker.until(() => broker.acknowledged.length === 1);
    expect(fences()).toEqual(['plantroom/a____/fence']);
  });
});

it('notices a broker that says it tells subscriptions and does not', async () => {
  broker.isForgetful = true;
  await linked();
  await cut();
  broker.publish('valve-1/up', 'first');
  await until(() => isBuffered('first') === true);
  await broker.until(() => broker.acknowledged.length === 2);
  broker.publish('valve-1/up', 'second');
  await until(() => isBuffered('second') === false);
  expect(log.lines.some(({ event }) => event === 'broker.no_subscription_ids')).toBe(true);
});

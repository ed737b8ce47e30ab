import { connectAsync, type MqttClient } from 'mqtt';
import { MonotonicTimestamps } from '../../src/connections/monotonicTimestamps';
import { MqttConnectionManager } from '../../src/connections/connectors/broker/mqttConnectionManager';
import type { BrokerMessage } from '../../src/connections/connectors/broker/brokerTraffic';
import type { BrokerSettings } from '../../src/connections/connectors/broker/brokerSettings';
import type { PublishOutcome } from '../../src/connections/connectors/broker/publishOutcome';
import { systemClock, createSteadyClock } from '../../src/kernel/clock';
import { silentLogger } from '../../src/kernel/logger';
import { Mosquitto, type MosquittoOptions } from '../support/mosquitto';

const clock = createSteadyClock(systemClock);
let broker: Mosquitto;
let link: MqttConnectionManager | undefined;
let device: MqttClient | undefined;
let messages: BrokerMessage[];
let downs: string[];
let ups: number;
let wakers: (() => void)[];
/** Handles a received message; a test may replace it. */
let store: (message: BrokerMessage) => Promise<void>;

beforeEach(() => {
  [link, device, messages, downs, ups, wakers, store] = [undefined, undefined, [], [], 0, [], async () => {}];
});
afterEach(async () => {
  await link?.stop();
  await device?.endAsync(true);
  await broker.remove();
});

const wake = (): void => {
  for (const waker of wakers.splice(0)) waker();
};
async function until(condition: () => boolean): Promise<void> {
  while (!condition()) await new Promise<void>((resolve) => wakers.push(resolve));
}
const texts = (): string[] =>
  messages.map(({ payload, isBuffered }) => `${payload.toString()}${isBuffered ? ' (waited)' : ''}`);

async function startBrokerAndLink(
  options: MosquittoOptions = {},
  settings: Partial<BrokerSettings> = {},
): Promise<void> {
  broker = await Mosquitto.start(options);
  await startLink(settings);
}

async function startLink(settings: Partial<BrokerSettings> = {}): Promise<void> {
  const before = ups;
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
    log: silentLogger,
    fields: {},
    backoff: { firstMs: 50, maxMs: 100, fatalMs: 100 },
    handlers: {
      onMessage: async (message) => {
        messages.push(message);
        wake();
        await store(message);
      },
      onUp: async () => {},
      onReady: () => {
        ups += 1;
        wake();
      },
      onDown: async (_error, _isFatal, code) => {
        downs.push(code);
        wake();
      },
    },
  });
  link.start();
  await until(() => ups > before);
}

async function publishText(text: string, options: { retain?: boolean } = {}): Promise<void> {
  device ??= await connectAsync(broker.url, { protocolVersion: 5, reconnectPeriod: 0 });
  await device.publishAsync('valve-1/up', text, { qos: 1, ...options });
}

async function publish(topic: string): Promise<PublishOutcome> {
  return await new Promise((resolve, reject) => {
    const sent = link?.publish({ topic, payload: Buffer.from('{}'), deadline: clock.now() + 60_000 }, resolve);
    if (sent !== 'sent') reject(new Error(`it was ${sent}`));
  });
}

describe.each(['5', '3.1.1'] as const)('a link to Mosquitto over MQTT %s', (protocol) => {
  it('marks messages that waited at the broker while it was disconnected', async () => {
    await startBrokerAndLink({}, { protocol });
    await publishText('live');
    await until(() => messages.length === 1);
    await link?.stop();
    await publishText('one');
    await publishText('two');
    await startLink({ protocol });
    await until(() => messages.length === 3);
    await publishText('live again');
    await until(() => messages.length === 4);
    expect(texts().slice(0, 3)).toEqual(['live', 'one (waited)', 'two (waited)']);
    // With MQTT 3.1.1 the link may still be waiting for its own fence.
    expect(texts()[3]).toMatch(protocol === '5' ? /^live again$/ : /^live again/);
  });

  it('receives unacknowledged messages again after a disconnect, marked as repeated', async () => {
    await startBrokerAndLink({}, { protocol });
    store = async ({ signal }) =>
      await new Promise((_, reject) => signal.addEventListener('abort', () => reject(new Error('the link is gone'))));
    await publishText('open');
    await until(() => messages.length === 1);
    broker.writeSessions();
    store = async () => {};
    await broker.stop();
    await broker.restart();
    await until(() => messages.length === 2);
    const [first, again] = messages.map(({ identity }) => identity);
    expect(again).toMatchObject({
      kind: 'delivery',
      isRepetition: true,
      digest: first?.kind === 'delivery' ? first.digest : '',
    });
  });

  it('does not deliver old retained messages again and marks retained ones', async () => {
    broker = await Mosquitto.start();
    await publishText('old', { retain: true });
    await startLink({ protocol });
    await publishText('new');
    await until(() => texts().includes('new'));
    expect(messages.filter(({ retained }) => !retained).map(({ payload }) => payload.toString())).toEqual(['new']);
  });
});

it('reports a missing subscriber and a missing publish permission', async () => {
  await startBrokerAndLink(
    { users: { plantroom: 'p' }, acl: ['user plantroom', 'topic read +/up', 'topic write +/down'] },
    { username: 'plantroom', password: 'p' },
  );
  expect(await publish('valve-1/down')).toEqual({ kind: 'no_subscribers' });
  expect(await publish('forbidden')).toMatchObject({ kind: 'refused', code: 'not_authorized', isTemporary: false });
});

it('reconnects after the broker was killed and publishes nothing twice', async () => {
  await startBrokerAndLink();
  await broker.kill();
  await until(() => downs.length > 0);
  expect(link?.session).toBeUndefined();
  expect(
    link?.publish({ topic: 'valve-1/down', payload: Buffer.from('{}'), deadline: clock.now() + 60_000 }, () => {}),
  ).toBe('not_sent');
  await broker.restart();
  await until(() => ups === 2);
  await publishText('after');
  await until(() => texts().includes('after'));
});

it('leaves nothing at the broker when its session is discarded', async () => {
  await startBrokerAndLink();
  await link?.stop();
  await link?.forget();
  await publishText('nobody waits for this');
  await startLink();
  await publishText('now');
  await until(() => texts().includes('now'));
  expect(texts()).toEqual(['now']);
});

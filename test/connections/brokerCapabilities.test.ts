import type { Mqtt5Broker } from '../support/mqtt5Broker';
import { gate } from './fakeEvents';
import { type MqttFixture, mqttFixtureForEach } from './mqttFixture';

let broker: Mqtt5Broker;
let fixture: MqttFixture;
mqttFixtureForEach((...made) => ([broker, fixture] = made));

async function getEvidence(executionId: string) {
  const find = () => fixture.events.evidences.find((one) => one.executionId === executionId);
  await fixture.events.until(() => find() !== undefined);
  return find()?.evidence;
}

async function findCheck(name: string, settings: Record<string, unknown> = {}) {
  return (await fixture.test(settings)).find((check) => check.name === name);
}

describe('a broker that accepts only QoS 0', () => {
  beforeEach(() => {
    broker.properties = { maximumQoS: 0 };
    broker.onSubscribe = () => 0;
  });

  it('gets no command with QoS 1: it is rejected at once, and the connection stays open', async () => {
    await fixture.connect();
    const { executionId, result } = await fixture.send();
    expect(result).toBe('sent');
    expect(await getEvidence(executionId)).toMatchObject({
      kind: 'refused',
      code: 'qos_not_supported',
      message: expect.stringContaining('commandQos'),
    });
    expect(fixture.status).toMatchObject({
      state: 'degraded',
      warnings: ['subscribed_at_most_once', 'qos_not_supported'],
    });
    expect(broker.published).toEqual([]);
    expect(broker.violations).toEqual([]);
    expect(broker.connects).toHaveLength(1);
  });

  it('gets commands with QoS 0 if the connection allows it, which prove nothing', async () => {
    await fixture.connect({ commandQos: 0 });
    const before = fixture.events.readies.length;
    const capacity = fixture.connector.peer(fixture.connectionId)?.capacity;
    const { result } = await fixture.send();
    expect(result).toBe('sent');
    await broker.until(() => broker.published.length === 1);
    expect(broker.published).toMatchObject([{ topic: 'site/valve-1/down', qos: 0, retain: false }]);
    await fixture.events.until(() => fixture.events.readies.length > before);
    expect(fixture.connector.peer(fixture.connectionId)?.capacity).toBe(capacity);
    expect(fixture.events.evidences).toEqual([]);
    expect(fixture.status.warnings).toEqual(['subscribed_at_most_once']);
  });

  it('is reported by a connection test', async () => {
    expect(await findCheck('command_qos')).toMatchObject({
      outcome: 'failed',
      message: expect.stringContaining('qos_not_supported'),
    });
    expect(await findCheck('command_qos', { commandQos: 0 })).toMatchObject({ outcome: 'warning' });
    broker.properties = {};
    expect(await findCheck('command_qos')).toMatchObject({ outcome: 'ok' });
    expect(await findCheck('command_qos', { commandQos: 0 })).toMatchObject({
      outcome: 'warning',
      message: expect.stringContaining('set commandQos to 1'),
    });
  });

  it('gets the barrier messages of the server with QoS 0', async () => {
    broker.properties = { maximumQoS: 0, subscriptionIdentifiersAvailable: false };
    await fixture.connect();
    broker.cut();
    await fixture.attached(1);
    await broker.until(() => broker.published.length === 1);
    expect(broker.published).toMatchObject([{ topic: expect.stringContaining('/fence'), qos: 0 }]);
    expect(broker.violations).toEqual([]);
  });
});

describe('the maximum packet size of a broker', () => {
  it('rejects a larger command at once, and the connection stays open', async () => {
    broker.properties = { maximumPacketSize: 200 };
    await fixture.connect();
    const { executionId } = await fixture.send({ payload: { kind: 'json', value: { text: 'x'.repeat(200) } } });
    expect(await getEvidence(executionId)).toMatchObject({ kind: 'refused', code: 'packet_too_large' });
    const small = await fixture.send();
    expect(await getEvidence(small.executionId)).toMatchObject({ kind: 'transport_ok' });
    expect(broker.violations).toEqual([]);
  });

  it('that is smaller than the subscription is reported as the cause', async () => {
    broker.properties = { maximumPacketSize: 20 };
    const uplinkTopic = `${'site/'.repeat(10)}{clientDeviceId}/up`;
    fixture.open({ uplinkTopic });
    expect((await fixture.state('error')).lastError).toMatch(/the subscription has \d+ bytes.*at most 20/);
    expect(broker.subscribes).toEqual([]);
    expect(await findCheck('subscribe', { uplinkTopic })).toMatchObject({ outcome: 'failed' });
  });
});

it('reports a broker that supports no subscriptions with wildcards', async () => {
  broker.properties = { wildcardSubscriptionAvailable: false };
  fixture.open();
  expect((await fixture.state('error')).lastError).toContain('does not support subscriptions with wildcards');
  expect(broker.violations).toEqual([]);
  expect(await findCheck('subscribe')).toMatchObject({
    outcome: 'failed',
    message: expect.stringContaining('"site/+/up"'),
  });
});

it('publishes at most as many unacknowledged commands as the broker receives', async () => {
  broker.properties = { receiveMaximum: 2 };
  broker.onPublish = () => undefined;
  await fixture.connect();
  expect(fixture.connector.peer(fixture.connectionId)?.capacity).toBe(2);
  const results = [await fixture.send(), await fixture.send(), await fixture.send()].map(({ result }) => result);
  expect(results).toEqual(['sent', 'sent', 'not_sent']);
});

it.each([
  ['without retained messages', { retainAvailable: false }],
  ['without shared subscriptions', { sharedSubscriptionAvailable: false }],
  ['with topic aliases', { topicAliasMaximum: 10 }],
  ['that names the client id', { assignedClientIdentifier: 'another-id' }],
])('delivers commands through a broker %s', async (_, properties) => {
  broker.properties = properties;
  await fixture.connect();
  for (let n = 0; n < 2; n++) {
    const { executionId } = await fixture.send();
    expect(await getEvidence(executionId)).toMatchObject({ kind: 'transport_ok' });
  }
  expect(broker.published).toMatchObject([1, 2].map(() => ({ topic: 'site/valve-1/down', retain: false })));
  expect(fixture.status.warnings).toEqual([]);
});

describe('the session expiry of a broker', () => {
  it('that is shorter than configured is a warning', async () => {
    broker.properties = { sessionExpiryInterval: 3600 };
    await fixture.connect();
    expect(fixture.status).toMatchObject({ state: 'degraded', warnings: ['session_expiry_shortened'] });
  });

  it('is no warning if the connection asks for no more', async () => {
    broker.properties = { sessionExpiryInterval: 3600 };
    await fixture.connect({ sessionExpirySeconds: 3600 });
    expect(fixture.status).toMatchObject({ state: 'connected', warnings: [] });
  });
});

describe('the keepalive interval of a broker', () => {
  it('that is shorter than configured is used, also while reading is paused', async () => {
    broker.properties = { serverKeepAlive: 1 };
    await fixture.connect();
    const stored = gate<void>();
    fixture.events.onUplink = async () => {
      await stored.promise;
      return { outcome: 'stored' };
    };
    for (let n = 0; n < 600; n++) broker.publish(`site/device-${n}/up`, '{"n":1}', { qos: 0 });
    await fixture.events.until(() => fixture.events.uplinks.length >= 500);
    const before = broker.pings;
    await broker.until(() => broker.pings >= before + 2);
    stored.open();
    expect(broker.connects).toHaveLength(1);
  });

  it('that is longer does not delay the detection of a lost connection', async () => {
    broker.properties = { serverKeepAlive: 3600 };
    await fixture.connect({ keepaliveSeconds: 1 });
    broker.isMute = true;
    expect((await fixture.state('disconnected')).lastError).toContain('keepalive interval');
    broker.isMute = false;
  });
});

import { DomainError } from '../../src/kernel/errors';
import { Mqtt5Broker } from '../support/mqtt5Broker';
import { gate } from './fakeEvents';
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

async function opened(settings: Record<string, unknown> = {}): Promise<void> {
  room.open(settings);
  await room.attached();
}

function evidenceOf(executionId: string) {
  return room.events.evidences.find((one) => one.executionId === executionId)?.evidence;
}

describe('uplinks', () => {
  it('are acknowledged only when they are stored, and come again if the link is lost before', async () => {
    await opened();
    const stored = gate<void>();
    room.events.onUplink = async () => {
      await stored.promise;
      return { outcome: 'stored' };
    };
    broker.publish('site/meter-1/up', '{"t":21.5}');
    await room.events.until(() => room.events.uplinks.length === 1);
    expect(broker.acknowledged).toEqual([]);
    broker.cut();
    await room.state('disconnected');
    stored.open();
    await room.attached(1);
    await room.events.until(() => room.events.uplinks.length === 2);
    await broker.until(() => broker.acknowledged.length === 1);
    const [first, second] = room.events.uplinks.map(({ identity }) => identity);
    expect(first).toMatchObject({ kind: 'delivery', slot: '1', isRepetition: false });
    expect(second).toEqual({ ...first, isRepetition: true });
  });

  it('are tried again while the database is away, and then acknowledged', async () => {
    await opened();
    let failures = 2;
    room.events.onUplink = async () => {
      failures -= 1;
      if (failures >= 0) throw new DomainError('unavailable', 'database_unavailable', 'away');
      return { outcome: 'stored' };
    };
    broker.publish('site/meter-1/up', '{"t":1}');
    await broker.until(() => broker.acknowledged.length === 1);
    expect(room.events.uplinks).toHaveLength(3);
  });

  it('of one device are stored in order, those of others side by side', async () => {
    await opened();
    const first = gate<void>();
    room.events.onUplink = async ({ payload }) => {
      if (payload.kind === 'json' && payload.value['n'] === 1) await first.promise;
      return { outcome: 'stored' };
    };
    broker.publish('site/a/up', '{"n":1}');
    broker.publish('site/a/up', '{"n":2}');
    broker.publish('site/b/up', '{"n":3}');
    await broker.until(() => broker.acknowledged.length === 1);
    expect(broker.acknowledged).toEqual([3]);
    expect(room.events.uplinks.map(({ clientDeviceId }) => clientDeviceId)).toEqual(['a', 'b']);
    first.open();
    await broker.until(() => broker.acknowledged.length === 3);
  });

  it('that waited at the broker prove nothing, those after them do', async () => {
    await opened();
    await broker.stop();
    await room.state('disconnected');
    broker.publish('site/meter-1/up', '{"n":1}');
    await broker.start();
    await room.attached(1);
    broker.publish('site/meter-1/up', '{"n":2}');
    await room.events.until(() => room.events.uplinks.length === 2);
    expect(room.events.uplinks.map(({ isBuffered }) => isBuffered)).toEqual([true, false]);
  });

  it('that are retained are no news', async () => {
    await opened();
    broker.publish('site/meter-1/up', '{"n":1}', { retain: true });
    await broker.until(() => broker.acknowledged.length === 1);
    expect(room.events.uplinks).toEqual([]);
  });

  it.each([
    ['21.5', { kind: 'json', value: { value: 21.5 } }],
    ['[1]', { kind: 'json', value: { value: [1] } }],
    ['not json', { kind: 'bytes', bytes: Buffer.from('not json') }],
    ['', { kind: 'bytes', bytes: Buffer.alloc(0) }],
  ])('%s becomes something that can be stored', async (text, payload) => {
    await opened();
    broker.publish('site/meter-1/up', text);
    await room.events.until(() => room.events.uplinks.length === 1);
    expect(room.events.uplinks[0]?.payload).toEqual(payload);
  });

  it.each(['{"__proto__":{"a":1}}', `${'['.repeat(40)}${']'.repeat(40)}`, JSON.stringify('x'.repeat(70_000))])('that can never be stored are acknowledged and counted: %.20s', async (text) => {
    await opened();
    broker.publish('site/meter-1/up', text);
    await broker.until(() => broker.acknowledged.length === 1);
    expect(room.events.uplinks).toEqual([]);
    expect(room.status).toMatchObject({ state: 'degraded', warnings: ['uplinks_rejected'] });
  });

  it('take time and id from where the configuration says', async () => {
    await opened({ timePath: 'meta.at', uplinkIdPath: 'meta.seq' });
    broker.publish('site/a/up', '{"meta":{"at":1767225600,"seq":7}}');
    broker.publish('site/a/up', '{"meta":{"at":"2026-01-01T00:00:00Z","seq":7}}');
    broker.publish('site/b/up', '{"meta":{"at":"soon","seq":7}}');
    await room.events.until(() => room.events.uplinks.length === 3);
    const [one, two] = room.events.uplinks.filter(({ clientDeviceId }) => clientDeviceId === 'a');
    const three = room.events.uplinks.find(({ clientDeviceId }) => clientDeviceId === 'b');
    expect([one?.time, two?.time, three?.time]).toEqual([1_767_225_600_000, 1_767_225_600_000, undefined]);
    expect(one?.identity).toEqual(two?.identity);
    expect(one?.identity).not.toEqual(three?.identity);
  });
});

describe('commands', () => {
  it('go out once with their expiry, are not retained, and are proven by the PUBACK', async () => {
    await opened();
    const { executionId, result } = await room.send({ deadline: room.clock.now() + 2900 });
    await room.events.until(() => room.events.evidences.length === 1);
    expect(result).toBe('sent');
    expect(broker.published[0]).toMatchObject({ topic: 'site/valve-1/down', qos: 1, retain: false, properties: { messageExpiryInterval: 2 } });
    expect(broker.published[0]?.payload.toString()).toBe('{"open":true}');
    expect(evidenceOf(executionId)).toMatchObject({ kind: 'transport_ok' });
  });

  it.each([
    [0x10, { kind: 'known_undelivered', code: 'no_subscribers' }],
    [0x87, { kind: 'refused', code: 'not_authorized' }],
    [0x90, { kind: 'refused', code: 'topic_name_invalid' }],
    [0x97, { kind: 'known_undelivered', code: 'quota_exceeded' }],
  ])('that the broker answers with %i', async (reason, evidence) => {
    await opened();
    broker.onPublish = () => reason;
    const { executionId } = await room.send();
    await room.events.until(() => room.events.evidences.length === 1);
    expect(evidenceOf(executionId)).toMatchObject(evidence);
  });

  it('are never sent again when the link was lost before the PUBACK', async () => {
    await opened();
    broker.onPublish = () => undefined;
    await room.send();
    await broker.until(() => broker.published.length === 1);
    broker.cut();
    await room.attached(1);
    broker.onPublish = () => 0;
    const { executionId } = await room.send();
    await room.events.until(() => evidenceOf(executionId) !== undefined);
    expect(broker.published).toHaveLength(2);
    expect(room.events.evidences).toHaveLength(1);
  });

  it('are not sent past their deadline, to another session, or over the limit', async () => {
    await opened();
    expect((await room.send({ deadline: room.clock.now() })).result).toBe('not_sent');
    broker.onPublish = () => undefined;
    room.open({}, { policy: { maxInFlight: 1 } });
    expect((await room.send()).result).toBe('sent');
    expect(room.connector.peer(room.connectionId)?.capacity).toBe(0);
    expect((await room.send()).result).toBe('not_sent');
  });

  it('larger than the broker takes are refused', async () => {
    broker.properties = { maximumPacketSize: 64 };
    await opened();
    const { executionId } = await room.send({ payload: { kind: 'bytes', bytes: Buffer.alloc(100) } });
    await room.events.until(() => room.events.evidences.length === 1);
    expect(evidenceOf(executionId)).toMatchObject({ kind: 'refused', code: 'packet_too_large' });
  });
});

describe('answers', () => {
  const STATUS = { statusPath: 'status', okValues: ['ok'], messagePath: 'text' };

  it('come on the response topic with the execution as correlation data', async () => {
    await opened({ answer: { kind: 'response_topic', ...STATUS } });
    const { executionId } = await room.send();
    await broker.until(() => broker.published.length === 1);
    const { responseTopic = '', correlationData } = broker.published[0]?.properties ?? {};
    expect(responseTopic).toBe(`plantroom/plantroom-${room.connectionId}/answers`);
    broker.publish(responseTopic, '{"status":"ok","text":"done"}', { properties: { correlationData: correlationData as Buffer } });
    await room.events.until(() => room.events.evidences.some(({ evidence }) => evidence.kind === 'ack'));
    expect(room.events.evidences.find(({ evidence }) => evidence.kind === 'ack')).toMatchObject({ executionId, evidence: { code: 'ok', message: 'done' } });
  });

  it('come on a topic of the device, good and bad, and unknown ones change nothing', async () => {
    await opened({ answer: { kind: 'topic', answerTopic: 'site/{clientDeviceId}/answer', correlationPath: 'id', ...STATUS } });
    room.events.onEvidence = async (id) => (id === 'nobody' ? 'unknown' : 'applied');
    broker.publish('site/valve-1/answer', '{"id":"x-1","status":"stuck","text":"jammed"}');
    broker.publish('site/valve-1/answer', '{"id":"nobody","status":"ok"}');
    broker.publish('site/valve-1/answer', '{"status":"ok"}');
    broker.publish('site/valve-1/answer', '{"id":"x-2"}');
    await broker.until(() => broker.acknowledged.length === 4);
    expect(evidenceOf('x-1')).toMatchObject({ kind: 'negative', code: 'stuck', message: 'jammed' });
    expect(evidenceOf('x-2')).toMatchObject({ kind: 'negative', code: 'no_status' });
    expect(room.log.lines.some(({ event }) => event === 'mqtt.execution_unknown')).toBe(true);
    expect(room.status.state).toBe('connected');
  });
});

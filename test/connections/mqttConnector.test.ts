import { DomainError } from '../../src/kernel/errors';
import { newId } from '../../src/kernel/ids';
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

/** How often the broker was made to forget a session. */
function forgets(): number {
  return broker.connects.filter(({ clean }) => clean === true).length;
}

/** Matches a time that is not later. */
function before(time = 0): unknown {
  return { asymmetricMatch: (other: unknown) => typeof other === 'number' && other <= time };
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

  it('that are repeated are no repetition of what was acknowledged before the connection before', async () => {
    await opened();
    for (let session = 1; session <= 3; session++) {
      broker.publish('site/meter-1/up', '{"on":true}');
      await broker.until(() => broker.acknowledged.length === session);
      room.clock.advance(60_001);
      broker.cut();
      await room.attached(session);
    }
    const came = room.events.uplinks.map(({ receivedAt }) => receivedAt);
    const [first, second, third] = room.events.uplinks.map(({ identity }) => identity);
    expect(first).not.toHaveProperty('acknowledgedBefore');
    expect(second).toMatchObject({ acknowledgedBefore: before(came[0]) }); // the acknowledgement of the first may be lost
    expect(third).toMatchObject({ acknowledgedBefore: before(came[1]) });
    expect(third).not.toMatchObject({ acknowledgedBefore: before(came[0]) });
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

  it('that wait for the database for some seconds show in the status until they are stored', async () => {
    await opened();
    let isAway = true;
    room.events.onUplink = async () => {
      room.clock.advance(2500);
      if (isAway) throw new DomainError('unavailable', 'database_unavailable', 'away');
      return { outcome: 'stored' };
    };
    broker.publish('site/meter-1/up', '{"t":1}');
    expect(await room.state('degraded')).toMatchObject({ warnings: ['storing_stalled'] });
    expect(broker.acknowledged).toEqual([]);
    isAway = false;
    expect(await room.state('connected')).toMatchObject({ warnings: [] });
    await broker.until(() => broker.acknowledged.length === 1);
  });

  it('that the database refuses are counted and given up, and those behind them come through', async () => {
    await opened();
    room.events.onUplink = async ({ payload }) => {
      if (payload.kind === 'json' && payload.value['n'] === 1) throw Object.assign(new Error('invalid byte sequence'), { code: '22021' });
      return { outcome: 'stored' };
    };
    broker.publish('site/a/up', '{"n":1}');
    broker.publish('site/a/up', '{"n":2}');
    await broker.until(() => broker.acknowledged.length === 2);
    expect(room.log.of('mqtt.storing_given_up')).toHaveLength(1);
    expect(room.log.of('mqtt.uplink_rejected')).toMatchObject([{ reasons: [{ topic: 'site/a/up' }] }]);
    expect(room.status.warnings).toEqual(['uplinks_rejected']);
    expect(room.events.uplinks.at(-1)?.payload).toEqual({ kind: 'json', value: { n: 2 } });
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

  it('on topics that only the filter fits are told, and are no fault', async () => {
    await opened({ uplinkTopic: 'site/dev-{clientDeviceId}/up' });
    broker.publish('site/other/up', '{"n":1}');
    broker.publish('site/dev-1/up', '{"n":2}');
    await broker.until(() => broker.acknowledged.length === 2);
    expect(room.log.of('mqtt.topic_unread')).toMatchObject([{ rejected: 1, reasons: [{ topic: 'site/other/up' }] }]);
    expect(room.events.uplinks.map(({ clientDeviceId }) => clientDeviceId)).toEqual(['1']);
    expect(room.status.state).toBe('connected');
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
    ['\uFEFF{"t":21.5}', { kind: 'json', value: { t: 21.5 } }],
    ['\uFEFFnot json', { kind: 'bytes', bytes: Buffer.from('\uFEFFnot json') }],
    ['not json', { kind: 'bytes', bytes: Buffer.from('not json') }],
    ['', { kind: 'bytes', bytes: Buffer.alloc(0) }],
  ])('%s becomes something that can be stored', async (text, payload) => {
    await opened();
    broker.publish('site/meter-1/up', text);
    await room.events.until(() => room.events.uplinks.length === 1);
    expect(room.events.uplinks[0]?.payload).toEqual(payload);
  });

  it.each(['5', '21.5', ' "ab"', 'null', '[1]', '\uFEFF5'])('%j, which is no object of JSON, brings its bytes along: they may be meant', async (text) => {
    await opened();
    for (const sent of [text, '{"t":21.5}', 'not json']) broker.publish('site/meter-1/up', sent);
    await room.events.until(() => room.events.uplinks.length === 3);
    expect(room.events.uplinks.map(({ encoded }) => encoded)).toEqual([Buffer.from(text), undefined, undefined]);
  });

  it.each(['{"__proto__":{"a":1}}', '{"t":1e400}', `${'['.repeat(40)}${']'.repeat(40)}`, JSON.stringify('x'.repeat(70_000))])('that can never be stored are acknowledged and counted: %.20s', async (text) => {
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

describe('what a broker said of commands', () => {
  it('is stored although the link is lost right behind it', async () => {
    await opened();
    let isAway = true;
    room.events.onEvidence = async () => {
      if (isAway) throw new DomainError('unavailable', 'database_unavailable', 'away');
      return 'applied';
    };
    const { executionId } = await room.send();
    await room.events.until(() => room.events.evidences.length === 1);
    broker.cut();
    await room.state('disconnected');
    isAway = false;
    await room.attached(1);
    expect(room.events.evidences.at(-1)).toMatchObject({ executionId, evidence: { kind: 'transport_ok' } });
    expect(room.log.of('mqtt.evidence_lost')).toEqual([]);
  });

  it('counts from when all has come that waited there before', async () => {
    await opened();
    const stored = gate<void>();
    room.events.onUplink = async ({ clientDeviceId }) => {
      if (clientDeviceId.startsWith('busy')) await stored.promise;
      return { outcome: 'stored' };
    };
    for (let at = 0; at < 10; at++) broker.publish(`site/busy-${at}/up`, '{}');
    await room.events.until(() => room.events.uplinks.length === 10);
    broker.onPublish = ({ topic }) => {
      if (topic === 'site/valve-1/down') setImmediate(() => broker.publish('site/valve-1/up', '{"old":true}')); // it was there before the command
      return 0;
    };
    await room.send();
    await room.events.until(() => room.events.evidences.length === 1);
    stored.open();
    const old = room.events.uplinks.find(({ clientDeviceId }) => clientDeviceId === 'valve-1');
    expect(room.events.evidences[0]?.evidence.receivedAt).toBeGreaterThan(old?.receivedAt ?? Number.POSITIVE_INFINITY);
  });
});

describe('topics', () => {
  it.each([
    ['that the broker would send back to us', { topic: 'site/{clientDeviceId}/up' }],
    ['that answers come on', { topic: 'site/{clientDeviceId}/answer' }],
    ['with a control character', { topic: 'site/{clientDeviceId}/a\u0001b' }],
    ['that are the broker\'s own with the device in them', { topic: '{clientDeviceId}/x', clientDeviceId: '$SYS' }],
  ])('%s are never published on', async (_, more) => {
    await opened({ answer: { kind: 'topic', answerTopic: 'site/{clientDeviceId}/answer', correlationPath: 'id' } });
    expect((await room.send(more)).result).toBe('not_sent');
    expect((await room.send()).result).toBe('sent');
    await broker.until(() => broker.published.length > 0);
    expect(broker.published.map(({ topic }) => topic)).toEqual(['site/valve-1/down']);
  });
});

describe('the session at the broker', () => {
  const answer = { kind: 'topic', answerTopic: 'site/{clientDeviceId}/answer', correlationPath: 'id' };

  it('is kept when user or answers change, with all that waits in it', async () => {
    await opened();
    room.open({ username: 'u', answer });
    await room.attached(1);
    room.open({ username: 'u', answer: { ...answer, statusPath: 'status', okValues: ['ok'] } });
    await room.attached(2);
    expect(forgets()).toBe(0);
  });

  it('is forgotten when the devices publish elsewhere', async () => {
    await opened();
    room.open({ uplinkTopic: 'other/{clientDeviceId}/up' });
    await room.attached(1);
    expect(forgets()).toBe(1);
  });

  it('is forgotten with a connection that was switched off before', async () => {
    await opened();
    room.open({}, { enabled: false });
    room.connector.connectionDeleted(room.connectionId);
    await room.connector.stop();
    expect(broker.kept).toEqual([]);
  });

  it('holds nobody up who moves away from a broker that is gone', async () => {
    const gone = await new Mqtt5Broker().start();
    room.open({ url: gone.url });
    await room.attached();
    gone.isMute = true;
    gone.cut();
    room.open();
    await room.attached(1);
    expect(room.log.of('broker.session_left')).toEqual([]); // it is still tried
    await gone.stop();
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
    const [stuck, nobody, silent] = [newId(), newId(), newId()];
    room.events.onEvidence = async (id) => (id === nobody ? 'unknown' : 'applied');
    broker.publish('site/valve-1/answer', `{"id":"${stuck}","status":"stuck","text":"jammed"}`);
    broker.publish('site/valve-1/answer', `{"id":"${nobody}","status":"ok"}`);
    broker.publish('site/valve-1/answer', '{"status":"ok"}');
    broker.publish('site/valve-1/answer', `{"id":"${silent}"}`);
    await broker.until(() => broker.acknowledged.length === 4);
    expect(evidenceOf(stuck)).toMatchObject({ kind: 'negative', code: 'stuck', message: 'jammed', clientDeviceId: 'valve-1' });
    expect(evidenceOf(silent)).toMatchObject({ kind: 'negative', code: 'no_status' });
    expect(room.log.lines.some(({ event }) => event === 'mqtt.execution_unknown')).toBe(true);
    expect(room.status.state).toBe('connected');
  });

  it('that cannot be read are acknowledged, logged, and not taken for bad ones', async () => {
    await opened({ answer: { kind: 'response_topic', responseTopic: 'answers', ...STATUS } });
    const deep = `{"status":${'['.repeat(20_000)}${']'.repeat(20_000)}}`;
    const answers: readonly (readonly [string, string])[] = [[deep, newId()], ['no json', newId()], ['{"status":"ok"}', '\0x'], ['{"status":"ok"}', 'x'.repeat(36)]];
    for (const [payload, id] of answers) broker.publish('answers', payload, { properties: { correlationData: Buffer.from(id) } });
    await broker.until(() => broker.acknowledged.length === answers.length);
    expect(room.log.of('mqtt.answer_unreadable')).toHaveLength(answers.length);
    expect(room.events.evidences).toEqual([]);
  });
});

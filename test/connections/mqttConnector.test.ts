import { DomainError } from '../../src/kernel/errors';
import { newId } from '../../src/kernel/ids';
import { Mqtt5Broker } from '../support/mqtt5Broker';
import { gate } from './fakeEvents';
import { MqttFixture, mqttFixtureForEach, TOPICS } from './mqttFixture';

let broker: Mqtt5Broker;
let fixture: MqttFixture;
mqttFixtureForEach((...made) => ([broker, fixture] = made));

/** Returns how often the broker was asked to discard a session. */
function countDiscardedSessions(): number {
  return broker.connects.filter(({ clean }) => clean === true).length;
}

/** Matches a time that is not later. */
function isNotAfter(time = 0): unknown {
  return { asymmetricMatch: (other: unknown) => typeof other === 'number' && other <= time };
}

function getEvidence(executionId: string) {
  return fixture.events.evidences.find((one) => one.executionId === executionId)?.evidence;
}

describe('uplinks', () => {
  it('are acknowledged only after they are stored, and are repeated if the link is lost before', async () => {
    await fixture.connect();
    const stored = gate<void>();
    fixture.events.onUplink = async () => {
      await stored.promise;
      return { outcome: 'stored' };
    };
    broker.publish('site/meter-1/up', '{"t":21.5}');
    await fixture.events.until(() => fixture.events.uplinks.length === 1);
    expect(broker.acknowledged).toEqual([]);
    broker.cut();
    await fixture.state('disconnected');
    stored.open();
    await fixture.attached(1);
    await fixture.events.until(() => fixture.events.uplinks.length === 2);
    await broker.until(() => broker.acknowledged.length === 1);
    const [first, second] = fixture.events.uplinks.map(({ identity }) => identity);
    expect(first).toMatchObject({ kind: 'delivery', slot: '1', isRepetition: false });
    expect(second).toEqual({ ...first, isRepetition: true });
  });

  it('that are repeated do not match messages that were acknowledged before the previous connection', async () => {
    await fixture.connect();
    for (let session = 1; session <= 3; session++) {
      broker.publish('site/meter-1/up', '{"on":true}');
      await broker.until(() => broker.acknowledged.length === session);
      fixture.clock.advance(60_001);
      broker.cut();
      await fixture.attached(session);
    }
    const receiptTimes = fixture.events.uplinks.map(({ receivedAt }) => receivedAt);
    const [first, second, third] = fixture.events.uplinks.map(({ identity }) => identity);
    expect(first).not.toHaveProperty('acknowledgedBefore');
    // The acknowledgement of the first uplink may be lost.
    expect(second).toMatchObject({ acknowledgedBefore: isNotAfter(receiptTimes[0]) });
    expect(third).toMatchObject({ acknowledgedBefore: isNotAfter(receiptTimes[1]) });
    expect(third).not.toMatchObject({ acknowledgedBefore: isNotAfter(receiptTimes[0]) });
  });

  it('are retried while the database is unavailable, and then acknowledged', async () => {
    await fixture.connect();
    let failures = 2;
    fixture.events.onUplink = async () => {
      failures -= 1;
      if (failures >= 0) throw new DomainError('unavailable', 'database_unavailable', 'away');
      return { outcome: 'stored' };
    };
    broker.publish('site/meter-1/up', '{"t":1}');
    await broker.until(() => broker.acknowledged.length === 1);
    expect(fixture.events.uplinks).toHaveLength(3);
  });

  it('that wait for the database for some seconds are shown in the status until they are stored', async () => {
    await fixture.connect();
    let isAway = true;
    fixture.events.onUplink = async () => {
      fixture.clock.advance(2500);
      if (isAway) throw new DomainError('unavailable', 'database_unavailable', 'away');
      return { outcome: 'stored' };
    };
    broker.publish('site/meter-1/up', '{"t":1}');
    expect(await fixture.state('degraded')).toMatchObject({ warnings: ['write_stalled'] });
    expect(broker.acknowledged).toEqual([]);
    isAway = false;
    expect(await fixture.state('connected')).toMatchObject({ warnings: [] });
    await broker.until(() => broker.acknowledged.length === 1);
  });

  it('that the database rejects are counted and discarded, and later ones are stored', async () => {
    await fixture.connect();
    fixture.events.onUplink = async ({ payload }) => {
      if (payload.kind === 'json' && payload.value['n'] === 1)
        throw Object.assign(new Error('invalid byte sequence'), { code: '22021' });
      return { outcome: 'stored' };
    };
    broker.publish('site/a/up', '{"n":1}');
    broker.publish('site/a/up', '{"n":2}');
    await broker.until(() => broker.acknowledged.length === 2);
    expect(fixture.log.of('mqtt.write_failed')).toHaveLength(1);
    expect(fixture.log.of('mqtt.uplink_rejected')).toMatchObject([{ reasons: [{ topic: 'site/a/up' }] }]);
    expect(fixture.status.warnings).toEqual(['uplinks_rejected']);
    expect(fixture.events.uplinks.at(-1)?.payload).toEqual({ kind: 'json', value: { n: 2 } });
  });

  it('of one device are stored in order, those of other devices in parallel', async () => {
    await fixture.connect();
    const first = gate<void>();
    fixture.events.onUplink = async ({ payload }) => {
      if (payload.kind === 'json' && payload.value['n'] === 1) await first.promise;
      return { outcome: 'stored' };
    };
    broker.publish('site/a/up', '{"n":1}');
    broker.publish('site/a/up', '{"n":2}');
    broker.publish('site/b/up', '{"n":3}');
    await broker.until(() => broker.acknowledged.length === 1);
    expect(broker.acknowledged).toEqual([3]);
    expect(fixture.events.uplinks.map(({ clientDeviceId }) => clientDeviceId)).toEqual(['a', 'b']);
    first.open();
    await broker.until(() => broker.acknowledged.length === 3);
  });

  it('that waited at the broker are not evidence, later ones are', async () => {
    await fixture.connect();
    await broker.stop();
    await fixture.state('disconnected');
    broker.publish('site/meter-1/up', '{"n":1}');
    await broker.start();
    await fixture.attached(1);
    broker.publish('site/meter-1/up', '{"n":2}');
    await fixture.events.until(() => fixture.events.uplinks.length === 2);
    expect(fixture.events.uplinks.map(({ isBuffered }) => isBuffered)).toEqual([true, false]);
  });

  it('on topics that match only the filter are logged and cause no error', async () => {
    await fixture.connect({ uplinkTopic: 'site/dev-{clientDeviceId}/up' });
    broker.publish('site/other/up', '{"n":1}');
    broker.publish('site/dev-1/up', '{"n":2}');
    await broker.until(() => broker.acknowledged.length === 2);
    expect(fixture.log.of('mqtt.topic_unmatched')).toMatchObject([{ total: 1, reasons: [{ topic: 'site/other/up' }] }]);
    expect(fixture.events.uplinks.map(({ clientDeviceId }) => clientDeviceId)).toEqual(['1']);
    expect(fixture.status.state).toBe('connected');
  });

  it('that are retained are ignored as old', async () => {
    await fixture.connect();
    broker.publish('site/meter-1/up', '{"n":1}', { retain: true });
    await broker.until(() => broker.acknowledged.length === 1);
    expect(fixture.events.uplinks).toEqual([]);
    expect(broker.subscribes.at(-1)?.subscriptions).toMatchObject([{ rh: 2 }]);
  });

  it('that are retained are passed on as such if they have a time of their own, which is not in the future', async () => {
    const now = fixture.clock.now();
    broker.retained.set('site/meter-1/up', JSON.stringify({ t: now - 1000 }));
    broker.retained.set('site/meter-2/up', JSON.stringify({ t: now + 60_000 }));
    broker.retained.set('site/meter-3/up', JSON.stringify({ n: 1 }));
    broker.retained.set('site/meter-4/up', JSON.stringify({ t: now - 2000 }));
    await fixture.connect({ timePath: 't' });
    await broker.until(() => broker.acknowledged.length === 4);
    expect(fixture.events.uplinks).toMatchObject([
      { clientDeviceId: 'meter-1', time: now - 1000, isRetained: true, isBuffered: true },
      { clientDeviceId: 'meter-4', time: now - 2000, isRetained: true, isBuffered: true },
    ]);
    expect(fixture.status).toMatchObject({ lastMessageAt: undefined, warnings: [] });
    broker.publish('site/meter-1/up', JSON.stringify({ t: now }));
    await fixture.events.until(() => fixture.events.uplinks.length === 3);
    expect(fixture.events.uplinks.at(-1)).toMatchObject({ isRetained: false, isBuffered: false });
  });

  it('that are retained on a response topic are no evidence', async () => {
    const answerTopic = 'site/{clientDeviceId}/answer';
    const executionId = newId();
    broker.retained.set('site/valve-1/answer', JSON.stringify({ id: executionId, t: fixture.clock.now() }));
    await fixture.connect({ timePath: 't', answer: { kind: 'topic', answerTopic, correlationPath: 'id' } });
    await broker.until(() => broker.acknowledged.length === 1);
    expect(fixture.events.evidences).toEqual([]);
    expect(fixture.events.uplinks).toEqual([]);
  });

  it.each([
    ['21.5', { kind: 'json', value: { value: 21.5 } }],
    ['[1]', { kind: 'json', value: { value: [1] } }],
    ['\uFEFF{"t":21.5}', { kind: 'json', value: { t: 21.5 } }],
    ['\uFEFFnot json', { kind: 'bytes', bytes: Buffer.from('\uFEFFnot json') }],
    ['not json', { kind: 'bytes', bytes: Buffer.from('not json') }],
    ['', { kind: 'bytes', bytes: Buffer.alloc(0) }],
  ])('%s is converted to a storable value', async (text, payload) => {
    await fixture.connect();
    broker.publish('site/meter-1/up', text);
    await fixture.events.until(() => fixture.events.uplinks.length === 1);
    expect(fixture.events.uplinks[0]?.payload).toEqual(payload);
  });

  it.each(['5', '21.5', ' "ab"', 'null', '[1]', '\uFEFF5'])(
    '%j, which is not a JSON object, keeps its bytes because they may be the payload',
    async (text) => {
      await fixture.connect();
      for (const sent of [text, '{"t":21.5}', 'not json']) broker.publish('site/meter-1/up', sent);
      await fixture.events.until(() => fixture.events.uplinks.length === 3);
      expect(fixture.events.uplinks.map(({ encoded }) => encoded)).toEqual([Buffer.from(text), undefined, undefined]);
    },
  );

  it.each(['{"__proto__":{"a":1}}', `${'['.repeat(40)}${']'.repeat(40)}`, JSON.stringify('x'.repeat(70_000))])(
    'that can never be stored are acknowledged and counted: %.20s',
    async (text) => {
      await fixture.connect();
      broker.publish('site/meter-1/up', text);
      await broker.until(() => broker.acknowledged.length === 1);
      expect(fixture.events.uplinks).toEqual([]);
      expect(fixture.status).toMatchObject({
        state: 'degraded',
        warnings: ['uplinks_rejected'],
        dataWarnings: [
          {
            count: 1,
            topic: 'site/meter-1/up',
            clientDeviceId: 'meter-1',
            reason: expect.stringMatching(/^payload_(invalid|too_large): /) as string,
            example: expect.stringContaining(text.slice(0, 10)) as string,
          },
        ],
      });
    },
  );

  it('use the time and id at the configured paths', async () => {
    await fixture.connect({ timePath: 'meta.at', uplinkIdPath: 'meta.seq' });
    broker.publish('site/a/up', '{"meta":{"at":1767225600,"seq":7}}');
    broker.publish('site/a/up', '{"meta":{"at":"2026-01-01T00:00:00Z","seq":7}}');
    broker.publish('site/b/up', '{"meta":{"at":"soon","seq":7}}');
    await fixture.events.until(() => fixture.events.uplinks.length === 3);
    const [one, two] = fixture.events.uplinks.filter(({ clientDeviceId }) => clientDeviceId === 'a');
    const three = fixture.events.uplinks.find(({ clientDeviceId }) => clientDeviceId === 'b');
    expect([one?.time, two?.time, three?.time]).toEqual([1_767_225_600_000, 1_767_225_600_000, undefined]);
    expect(one?.identity).toEqual(two?.identity);
    expect(one?.identity).not.toEqual(three?.identity);
    for (const id of ['None', 'nan']) broker.publish('site/c/up', `{"meta":{"seq":${id}}}`);
    await fixture.events.until(() => fixture.events.uplinks.length === 5);
    // no id, so they are no repetitions of each other
    expect(fixture.events.uplinks.slice(3).map(({ identity }) => identity.kind)).not.toContain('id');
  });
});

describe('commands', () => {
  it('are sent once with their expiry, are not retained, and are confirmed by the PUBACK', async () => {
    await fixture.connect();
    const { executionId, result } = await fixture.send({ deadline: fixture.clock.now() + 2900 });
    await fixture.events.until(() => fixture.events.evidences.length === 1);
    expect(result).toBe('sent');
    expect(broker.published[0]).toMatchObject({
      topic: 'site/valve-1/down',
      qos: 1,
      retain: false,
      properties: { messageExpiryInterval: 2 },
    });
    expect(broker.published[0]?.payload.toString()).toBe('{"open":true}');
    expect(getEvidence(executionId)).toMatchObject({ kind: 'transport_ok' });
  });

  it.each([
    [0x10, { kind: 'known_undelivered', code: 'no_subscribers' }],
    [0x87, { kind: 'refused', code: 'not_authorized' }],
    [0x90, { kind: 'refused', code: 'topic_name_invalid' }],
    [0x97, { kind: 'known_undelivered', code: 'quota_exceeded' }],
  ])('that the broker acknowledges with reason %i', async (reason, evidence) => {
    await fixture.connect();
    broker.onPublish = () => reason;
    const { executionId } = await fixture.send();
    await fixture.events.until(() => fixture.events.evidences.length === 1);
    expect(getEvidence(executionId)).toMatchObject(evidence);
  });

  it('are never sent again when the link was lost before the PUBACK', async () => {
    await fixture.connect();
    broker.onPublish = () => undefined;
    await fixture.send();
    await broker.until(() => broker.published.length === 1);
    broker.cut();
    await fixture.attached(1);
    broker.onPublish = () => 0;
    const { executionId } = await fixture.send();
    await fixture.events.until(() => getEvidence(executionId) !== undefined);
    expect(broker.published).toHaveLength(2);
    expect(fixture.events.evidences).toHaveLength(1);
  });

  it('are not sent after their deadline, to another session, or over the limit', async () => {
    await fixture.connect();
    expect((await fixture.send({ deadline: fixture.clock.now() })).result).toBe('not_sent');
    broker.onPublish = () => undefined;
    fixture.open({}, { policy: { maxInFlight: 1 } });
    expect((await fixture.send()).result).toBe('sent');
    expect(fixture.connector.peer(fixture.connectionId)?.capacity).toBe(0);
    expect((await fixture.send()).result).toBe('not_sent');
  });

  it('larger than the broker accepts are rejected', async () => {
    broker.properties = { maximumPacketSize: 64 };
    await fixture.connect();
    const { executionId } = await fixture.send({ payload: { kind: 'bytes', bytes: Buffer.alloc(100) } });
    await fixture.events.until(() => fixture.events.evidences.length === 1);
    expect(getEvidence(executionId)).toMatchObject({ kind: 'refused', code: 'packet_too_large' });
  });
});

describe('acknowledgements of commands by the broker', () => {
  it('are stored even if the link is lost right after them', async () => {
    await fixture.connect();
    let isAway = true;
    fixture.events.onEvidence = async () => {
      if (isAway) throw new DomainError('unavailable', 'database_unavailable', 'away');
      return 'applied';
    };
    const { executionId } = await fixture.send();
    await fixture.events.until(() => fixture.events.evidences.length === 1);
    broker.cut();
    await fixture.state('disconnected');
    isAway = false;
    await fixture.attached(1);
    expect(fixture.events.evidences.at(-1)).toMatchObject({ executionId, evidence: { kind: 'transport_ok' } });
    expect(fixture.log.of('mqtt.result_dropped')).toEqual([]);
  });

  it('count from when the whole backlog has arrived', async () => {
    await fixture.connect();
    const stored = gate<void>();
    fixture.events.onUplink = async ({ clientDeviceId }) => {
      if (clientDeviceId.startsWith('busy')) await stored.promise;
      return { outcome: 'stored' };
    };
    for (let at = 0; at < 10; at++) broker.publish(`site/busy-${at}/up`, '{}');
    await fixture.events.until(() => fixture.events.uplinks.length === 10);
    broker.onPublish = ({ topic }) => {
      // This uplink was at the broker before the command.
      if (topic === 'site/valve-1/down') setImmediate(() => broker.publish('site/valve-1/up', '{"old":true}'));
      return 0;
    };
    await fixture.send();
    await fixture.events.until(() => fixture.events.evidences.length === 1);
    stored.open();
    const old = fixture.events.uplinks.find(({ clientDeviceId }) => clientDeviceId === 'valve-1');
    expect(fixture.events.evidences[0]?.evidence.receivedAt).toBeGreaterThan(
      old?.receivedAt ?? Number.POSITIVE_INFINITY,
    );
  });
});

describe('topics', () => {
  it.each([
    ['that the connection itself subscribes to', { topic: 'site/{clientDeviceId}/up' }],
    ['that answers arrive on', { topic: 'site/{clientDeviceId}/answer' }],
    ['with a control character', { topic: 'site/{clientDeviceId}/a\u0001b' }],
    ['that become topics of the broker itself', { topic: '{clientDeviceId}/x', clientDeviceId: '$SYS' }],
  ])('%s are never published to', async (_, more) => {
    await fixture.connect({
      answer: { kind: 'topic', answerTopic: 'site/{clientDeviceId}/answer', correlationPath: 'id' },
    });
    expect((await fixture.send(more)).result).toBe('not_sent');
    expect((await fixture.send()).result).toBe('sent');
    await broker.until(() => broker.published.length > 0);
    expect(broker.published.map(({ topic }) => topic)).toEqual(['site/valve-1/down']);
  });
});

describe('the session at the broker', () => {
  const answer = { kind: 'topic', answerTopic: 'site/{clientDeviceId}/answer', correlationPath: 'id' };

  it('is kept with its backlog when user or answers change', async () => {
    await fixture.connect();
    fixture.open({ username: 'u', answer });
    await fixture.attached(1);
    fixture.open({ username: 'u', answer: { ...answer, statusPath: 'status', okValues: ['ok'] } });
    await fixture.attached(2);
    expect(countDiscardedSessions()).toBe(0);
  });

  it('is discarded when the devices publish to other topics', async () => {
    await fixture.connect();
    fixture.open({ uplinkTopic: 'other/{clientDeviceId}/up' });
    await fixture.attached(1);
    expect(countDiscardedSessions()).toBe(1);
  });

  it('is discarded with a connection that was disabled before, which is opened without its secrets', async () => {
    broker.onConnect = ({ password }) => (password ? 0 : 0x86);
    await fixture.connect({ username: 'u', password: 'p' });
    fixture.open({ username: 'u' }, { enabled: false });
    fixture.connector.connectionDeleted(fixture.connectionId);
    await fixture.connector.stop();
    expect(broker.kept).toEqual([]);
  });

  it('is discarded at a broker of MQTT 3.1.1 with a connection that was not open since a restart', async () => {
    broker.onConnect = ({ protocolVersion }) => (protocolVersion === 5 ? 0x84 : 0);
    await fixture.connect({ clientId: 'site' });
    await fixture.connector.stop();
    expect(broker.kept).toEqual(['site']);
    const restarted = new MqttFixture({ url: broker.url, ...TOPICS });
    restarted.open({ clientId: 'site' }, { enabled: false });
    restarted.connector.connectionDeleted(restarted.connectionId);
    await restarted.connector.stop();
    expect(broker.kept).toEqual([]);
  });

  it('is kept when a disabled copy of the connection with the same client id is deleted', async () => {
    await fixture.connect({ clientId: 'shared' });
    const copyId = newId();
    fixture.open({ clientId: 'shared' }, { id: copyId, enabled: false });
    fixture.connector.connectionDeleted(copyId);
    await fixture.connector.stop();
    expect([countDiscardedSessions(), broker.kept]).toEqual([0, ['shared']]);
  });

  it('does not delay moving away from a broker that is unavailable', async () => {
    const unavailableBroker = await new Mqtt5Broker().start();
    fixture.open({ url: unavailableBroker.url });
    await fixture.attached();
    unavailableBroker.isMute = true;
    unavailableBroker.cut();
    fixture.open();
    await fixture.attached(1);
    expect(fixture.log.of('broker.session_not_deleted')).toEqual([]); // Discarding the session is still being retried.
    await unavailableBroker.stop();
  });
});

describe('answers', () => {
  const STATUS = { statusPath: 'status', okValues: ['ok'], messagePath: 'text' };

  it('arrive on the response topic with the execution as correlation data', async () => {
    await fixture.connect({ answer: { kind: 'response_topic', ...STATUS } });
    const { executionId } = await fixture.send();
    await broker.until(() => broker.published.length === 1);
    const { responseTopic = '', correlationData } = broker.published[0]?.properties ?? {};
    expect(responseTopic).toBe(`plantroom/plantroom-${fixture.connectionId}/answers`);
    broker.publish(responseTopic, '{"status":"ok","text":"done"}', {
      properties: { correlationData: correlationData as Buffer },
    });
    await fixture.events.until(() => fixture.events.evidences.some(({ evidence }) => evidence.kind === 'ack'));
    expect(fixture.events.evidences.find(({ evidence }) => evidence.kind === 'ack')).toMatchObject({
      executionId,
      evidence: { code: 'ok', message: 'done' },
    });
  });

  it('may have the id of the execution in upper case', async () => {
    await fixture.connect({
      answer: { kind: 'topic', answerTopic: 'site/{clientDeviceId}/answer', correlationPath: 'id', ...STATUS },
    });
    const { executionId } = await fixture.send();
    const id = executionId.toUpperCase();
    broker.publish('site/valve-1/answer', JSON.stringify({ id, status: 'ok' }));
    await fixture.events.until(() => fixture.events.evidences.some(({ evidence }) => evidence.kind === 'ack'));
    expect(fixture.events.evidences.find(({ evidence }) => evidence.kind === 'ack')).toMatchObject({ executionId });
  });

  it('arrive on a topic of the device, successful and failed, and unknown ones change nothing', async () => {
    await fixture.connect({
      answer: { kind: 'topic', answerTopic: 'site/{clientDeviceId}/answer', correlationPath: 'id', ...STATUS },
    });
    const [stuck, unknownId, silent] = [newId(), newId(), newId()];
    fixture.events.onEvidence = async (id) => (id === unknownId ? 'unknown' : 'applied');
    broker.publish('site/valve-1/answer', `{"id":"${stuck}","status":"stuck","text":"jammed"}`);
    broker.publish('site/valve-1/answer', `{"id":"${unknownId}","status":"ok"}`);
    broker.publish('site/valve-1/answer', '{"status":"ok"}');
    broker.publish('site/valve-1/answer', `{"id":"${silent}"}`);
    await broker.until(() => broker.acknowledged.length === 4);
    expect(getEvidence(stuck)).toMatchObject({
      kind: 'negative',
      code: 'stuck',
      message: 'jammed',
      clientDeviceId: 'valve-1',
    });
    expect(getEvidence(silent)).toMatchObject({
      kind: 'answer_not_understood',
      message: `the response has no \`status\`: {"id":"${silent}"}`,
    });
    expect(fixture.log.lines.some(({ event }) => event === 'mqtt.execution_unknown')).toBe(true);
    expect(fixture.status.state).toBe('connected');
  });

  it('that cannot be read are acknowledged and logged, and are not rejections', async () => {
    await fixture.connect({ answer: { kind: 'response_topic', responseTopic: 'answers', ...STATUS } });
    const deep = `{"status":${'['.repeat(20_000)}${']'.repeat(20_000)}}`;
    const answers: readonly (readonly [string, string])[] = [
      [deep, newId()],
      ['no json', newId()],
      ['{"status":"ok"}', '\0x'],
      ['{"status":"ok"}', 'x'.repeat(36)],
    ];
    for (const [payload, id] of answers)
      broker.publish('answers', payload, { properties: { correlationData: Buffer.from(id) } });
    await broker.until(() => broker.acknowledged.length === answers.length);
    expect(fixture.log.of('mqtt.response_invalid')).toHaveLength(answers.length);
    // The last two name no execution.
    expect(fixture.events.evidences.map(({ evidence }) => evidence)).toMatchObject([
      { kind: 'answer_not_understood', message: expect.stringContaining('{"status":[[[') as string },
      { kind: 'answer_not_understood', message: expect.stringMatching(/not valid JSON.*: no json$/) as string },
    ]);
  });

  it.each<[payload: string, okValues: readonly unknown[], evidence: object]>([
    ['{"status":7}', ['ok'], { kind: 'answer_not_understood', message: expect.stringContaining(': {"status":7}') }],
    ['{"status":"0"}', [0], { kind: 'answer_not_understood' }],
    ['{"status":null}', ['ok'], { kind: 'answer_not_understood' }],
    ['{"status":""}', ['ok'], { kind: 'answer_not_understood' }],
    ['{"status":{"code":"ok"}}', ['ok', null], { kind: 'answer_not_understood' }],
    ['{"status":["ok"]}', ['ok'], { kind: 'answer_not_understood' }],
    ['null', ['ok'], { kind: 'answer_not_understood' }],
    ['', ['ok'], { kind: 'answer_not_understood' }],
    ['{"status":null}', ['ok', null], { kind: 'ack' }],
    ['{"status":17}', ['ok', 0], { kind: 'negative', code: '17' }],
    ['{"status":"jammed"}', ['ok'], { kind: 'negative', code: 'jammed' }],
    ['{"status":false}', [true], { kind: 'negative', code: 'false' }],
  ])('%s with the success statuses %j is reported as %j', async (payload, okValues, evidence) => {
    await fixture.connect({
      answer: { kind: 'response_topic', responseTopic: 'answers', statusPath: 'status', okValues },
    });
    broker.publish('answers', payload, { properties: { correlationData: Buffer.from(newId()) } });
    await broker.until(() => broker.acknowledged.length === 1);
    expect(fixture.events.evidences.map((reported) => reported.evidence)).toMatchObject([evidence]);
  });
});

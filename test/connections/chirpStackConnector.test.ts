import { connectAsync } from 'mqtt';
import { waitUntil } from '../support/waitUntil';
import { APPLICATION, ChirpStackFixture, DEV_EUI, startBroker } from './chirpStackFixture';
import { gate } from './fakeEvents';
import type { UplinkOutcome } from '../../src/connections';
import type { ConnectionCheck } from '../../src/connections/connector';
import type { JsonObject } from '../../src/connections/connectorType';

const OTHER = '0202020202020202';

describe.each(['json', 'protobuf'] as const)('the ChirpStack connector with %s', (encoding) => {
  let fixture: ChirpStackFixture;
  beforeEach(async () => (fixture = await ChirpStackFixture.start(encoding)));
  afterEach(async () => await fixture.stop());

  const uplinks = async (count: number): Promise<void> =>
    await fixture.events.until(() => fixture.events.uplinks.length >= count);
  const evidences = async (count: number): Promise<void> =>
    await fixture.events.until(() => fixture.events.evidences.length >= count);

  it('forwards uplinks', async () => {
    await fixture.server.uplink(DEV_EUI, { object: { valve: { open: true } } });
    await uplinks(1);
    expect(fixture.events.uplinks[0]).toMatchObject({
      connectionId: fixture.connectionId,
      clientDeviceId: DEV_EUI,
      fCnt: 1,
      deviceClass: 'A',
      isBuffered: false,
      payload: { value: { object: { valve: { open: true } }, rssi: -57, snr: 9.5 } },
    });
  });

  it('tracks an unconfirmed class A command until its txack', async () => {
    const executionId = await fixture.enqueue();
    expect(fixture.server.commands).toMatchObject([
      { id: executionId, devEui: DEV_EUI, confirmed: false, fPort: 10, expiresAt: fixture.clock.now() + 60_000 },
    ]);
    expect(fixture.server.commands[0]?.data.toString('hex')).toBe('0a');
    await fixture.server.uplink(DEV_EUI);
    await fixture.server.txAck(DEV_EUI);
    await evidences(1);
    expect(fixture.getEvidence(executionId)).toMatchObject([
      { kind: 'transport_ok', time: fixture.clock.now(), clock: 'chirpstack', fCnt: 1 },
    ]);
    expect(fixture.server.transmitted).toEqual([executionId]);
  });

  it('sends a direct payload as the object that the network server encodes', async () => {
    await fixture.enqueue({ payload: { kind: 'json', value: { open: true, level: 0.5 } } });
    expect(fixture.server.commands[0]).toMatchObject({ object: { open: true, level: 0.5 } });
  });

  it('tracks a confirmed command until its acknowledgement, which precedes the readings of the same frame', async () => {
    const executionId = await fixture.enqueue({ confirmed: true });
    await fixture.server.uplink(DEV_EUI);
    await fixture.server.txAck(DEV_EUI);
    await fixture.server.uplink(DEV_EUI, { acknowledges: true, object: { open: true } });
    await uplinks(2);
    expect(fixture.getEvidence(executionId)).toMatchObject([
      { kind: 'transport_ok' },
      { kind: 'ack', fCnt: 1, time: fixture.clock.now() - 1 },
    ]);
    const [ack, uplink] = [fixture.events.evidences[1], fixture.events.uplinks[1]];
    expect(ack?.evidence.receivedAt).toBeLessThan(uplink?.receivedAt ?? 0);
  });

  it('reports a missing acknowledgement once, before the frame that revealed it', async () => {
    const executionId = await fixture.enqueue({ confirmed: true });
    await fixture.server.uplink(DEV_EUI);
    await fixture.server.txAck(DEV_EUI);
    await fixture.server.uplink(DEV_EUI);
    await uplinks(2);
    expect(fixture.getEvidence(executionId)).toMatchObject([
      { kind: 'transport_ok' },
      { kind: 'no_answer', code: 'no_ack' },
    ]);
    expect(fixture.server.transmitted).toEqual([executionId]);
  });

  it('delivers class C commands immediately', async () => {
    fixture.server.addDevice(OTHER, 'CLASS_C');
    const executionId = await fixture.enqueue({ clientDeviceId: OTHER, confirmed: true });
    await fixture.server.schedule(OTHER);
    await fixture.server.txAck(OTHER);
    await fixture.server.schedule(OTHER, true);
    await evidences(2);
    expect(fixture.getEvidence(executionId)).toMatchObject([
      { kind: 'transport_ok', fCnt: undefined },
      { kind: 'no_answer' },
    ]);
  });

  it('reports that a command expired in the queue when the network server says so', async () => {
    fixture.clock.advance(60_000);
    const executionId = await fixture.enqueue();
    fixture.clock.advance(60_000);
    await fixture.server.uplink(DEV_EUI);
    await evidences(1);
    expect(fixture.getEvidence(executionId)).toMatchObject([{ kind: 'unreachable', code: 'expired' }]);
    expect(fixture.server.transmitted).toEqual([]);
  });

  it('does not report an expired command as unsent when a gateway may have sent it and the txack was lost', async () => {
    fixture.clock.advance(60_000);
    const executionId = await fixture.enqueue();
    fixture.clock.advance(1000);
    await fixture.server.uplink(DEV_EUI);
    await fixture.server.txAck(DEV_EUI, 'lost');
    fixture.clock.advance(60_000);
    await fixture.server.uplink(DEV_EUI);
    await evidences(1);
    expect(fixture.getEvidence(executionId)).toMatchObject([{ kind: 'network_retry', code: 'expired' }]);
    expect(fixture.server.transmitted).toEqual([executionId]);
  });

  it('reports that a command is too large', async () => {
    const executionId = await fixture.enqueue({ payload: { kind: 'bytes', bytes: Buffer.alloc(100) } });
    await fixture.server.uplink(DEV_EUI);
    await evidences(1);
    expect(fixture.getEvidence(executionId)).toMatchObject([{ kind: 'refused', code: 'downlink_payload_size' }]);
  });

  it('reports a gateway that could not send, and the success after that', async () => {
    const executionId = await fixture.enqueue();
    await fixture.server.uplink(DEV_EUI);
    await fixture.server.txAck(DEV_EUI, 'error');
    await fixture.server.uplink(DEV_EUI);
    await fixture.server.txAck(DEV_EUI);
    await evidences(2);
    const tooLate = { kind: 'network_retry', code: 'downlink_gateway', message: 'TOO_LATE' };
    expect(fixture.getEvidence(executionId)).toMatchObject([tooLate, { kind: 'transport_ok', fCnt: 2 }]);
  });

  it('draws no conclusion from a join that flushes the queue', async () => {
    const executionId = await fixture.enqueue();
    await fixture.server.join(DEV_EUI);
    await fixture.server.uplink(DEV_EUI);
    await uplinks(1);
    expect(fixture.getEvidence(executionId)).toEqual([]);
  });

  it('forwards repeated events with the same ids', async () => {
    await fixture.server.uplink(DEV_EUI);
    await fixture.server.repeat();
    await uplinks(2);
    expect(fixture.events.uplinks[0]?.identity).toEqual(fixture.events.uplinks[1]?.identity);
  });

  it('accepts events in any order', async () => {
    const executionId = await fixture.enqueue({ confirmed: true });
    fixture.server.hold();
    await fixture.server.uplink(DEV_EUI);
    await fixture.server.txAck(DEV_EUI);
    await fixture.server.uplink(DEV_EUI, { acknowledges: true });
    await fixture.server.release((events) => events.toReversed());
    await evidences(2);
    await uplinks(2);
    expect(fixture.getEvidence(executionId).map((evidence) => (evidence as { kind: string }).kind)).toEqual([
      'ack',
      'transport_ok',
    ]);
  });

  it('ignores devices of other applications and discards malformed events', async () => {
    const application = '00000000-0000-4000-8000-000000000000';
    await fixture.server.uplink(DEV_EUI, { applicationId: application });
    await fixture.server.publishTo(`application/${APPLICATION}/device/${DEV_EUI}/event/up`, 'garbage \u0000 {');
    await fixture.server.publishTo(`application/${APPLICATION}/device/valve 1/event/up`, '{}');
    await fixture.server.uplink(DEV_EUI);
    await uplinks(1);
    expect(fixture.events.uplinks).toHaveLength(1);
    expect(fixture.status()).toMatchObject({
      state: 'degraded',
      warnings: ['uplinks_rejected'],
      dataWarnings: [
        {
          count: 2,
          topic: `application/${APPLICATION}/device/valve 1/event/up`,
          reason: 'dev_eui_invalid: the topic contains no DevEUI',
          example: '{}',
        },
      ],
    });
    expect(fixture.log.of('chirpstack.uplink_rejected')).toMatchObject([
      {
        total: 1,
        reasons: [{ client_device_id: DEV_EUI, reason: expect.stringMatching(/^event_unreadable: /) as string }],
      },
    ]);
  });

  it('does not take a retained event for a message that the device sent now', async () => {
    const topic = `application/${APPLICATION}/device/${DEV_EUI}/event/up`;
    const publisher = await connectAsync(fixture.broker.url);
    // With QoS 1 the broker might send it again, if the acknowledgement is lost with the link.
    await publisher.publishAsync(topic, 'retained', { qos: 0, retain: true });
    await publisher.endAsync();
    const getRejected = (): unknown => fixture.status().dataWarnings[0]?.count;
    await waitUntil(() => getRejected() === 1); // it was live for this subscription
    const { lastMessageAt } = fixture.status();
    fixture.clock.advance(60_000);
    fixture.broker.cut('plantroom-');
    await waitUntil(() => getRejected() === 2);
    expect(fixture.status()).toMatchObject({ lastMessageAt });
  });

  it('ignores a command that another client put into the queue', async () => {
    await fixture.server.ack(DEV_EUI, '', '01900000-0000-7000-8000-000000000001', true);
    await evidences(1);
    expect(fixture.events.evidences).toHaveLength(1);
    expect(fixture.events.readies).toHaveLength(1);
  });
});

/** Runs a connection test and returns its last two checks. Messages are published until it ends. */
async function trialWhile(
  fixture: ChirpStackFixture,
  configuration: JsonObject,
  publish: () => Promise<unknown>,
): Promise<readonly ConnectionCheck[]> {
  const state = { isOver: false };
  const trying = fixture.test(configuration).finally(() => (state.isOver = true));
  while (!state.isOver) {
    await publish();
    await new Promise(setImmediate);
  }
  return (await trying).slice(-2);
}

describe('the ChirpStack connector', () => {
  let fixture: ChirpStackFixture;
  const start = async (...options: Parameters<typeof ChirpStackFixture.start>): Promise<void> =>
    void (fixture = await ChirpStackFixture.start(...options));
  afterEach(async () => await fixture.stop());

  it('rejects a direct payload that is not an object without calling the network server', async () => {
    await start('json');
    const executionId = await fixture.send({ payload: { kind: 'json', value: [1] } });
    await fixture.events.until(() => fixture.events.evidences.length > 0);
    expect(fixture.getEvidence(executionId)).toMatchObject([{ kind: 'refused', code: 'payload_no_object' }]);
    expect(fixture.server.commands).toEqual([]);
  });

  it('sends nothing after the deadline, on an ended session, or twice', async () => {
    await start('json');
    await expect(fixture.send({ deadline: fixture.clock.now() })).rejects.toThrow('not sent');
    const executionId = await fixture.enqueue();
    await fixture.send({ executionId });
    await fixture.server.until(() => fixture.server.errors.length > 0);
    expect(fixture.server.errors).toEqual([expect.stringContaining('duplicate key')]);
    const session = fixture.connector.peer(fixture.connectionId)?.session ?? 0;
    expect(await fixture.connector.send({ connectionId: fixture.connectionId } as never, session + 1)).toBe('not_sent');
  });

  it('acknowledges an uplink only after storing it: it is repeated when the link was lost', async () => {
    await start('json');
    const stored = gate<UplinkOutcome>();
    fixture.events.onUplink = async () => await stored.promise;
    await fixture.server.uplink(DEV_EUI);
    await fixture.events.until(() => fixture.events.uplinks.length === 1);
    fixture.broker.cut('plantroom-');
    stored.open({ outcome: 'stored' });
    await fixture.events.until(() => fixture.events.uplinks.length === 2);
    expect(fixture.events.uplinks[1]?.identity).toEqual(fixture.events.uplinks[0]?.identity);
    expect(fixture.events.detachments).toEqual([fixture.connectionId]);
  });

  it('settles commands in progress before it accepts commands again', async () => {
    await start('json');
    const settled = gate<void>();
    fixture.events.onDetached = async () => await settled.promise;
    await fixture.server.stop();
    await fixture.broker.stop();
    await fixture.events.until(() => fixture.events.detachments.length === 1);
    expect(fixture.connector.peer(fixture.connectionId)).toBeUndefined();
    expect(fixture.status()).toMatchObject({ state: 'disconnected' });
    const again = await startBroker(Number(new URL(fixture.broker.url).port));
    settled.open();
    await fixture.events.until(() => fixture.events.readies.length === 2);
    expect(fixture.events.attachments.map(({ source, durable, known }) => ({ source, durable, known }))).toEqual([
      { source: 'chirpstack', durable: false, known: [] },
      { source: 'chirpstack', durable: false, known: [] },
    ]);
    expect(fixture.status()).toMatchObject({ state: 'connected', lastError: '' });
    await fixture.connector.stop();
    await again.stop();
  });

  it('warns that the integration publishes with QoS 0, until it uses a higher QoS', async () => {
    await start('json', { qos: 0 });
    await fixture.server.uplink(DEV_EUI);
    await fixture.events.until(() => fixture.events.uplinks.length === 1);
    expect(fixture.status()).toMatchObject({ state: 'degraded', warnings: ['integration_qos_0'] });
    expect((await fixture.test()).at(-1)).toMatchObject({
      name: 'integration',
      outcome: 'warning',
      message: expect.stringContaining('arrive with QoS 0') as string,
    });
  });

  it('tests a connection and leaves nothing behind', async () => {
    await start('json');
    expect((await fixture.test()).map(({ name, outcome }) => `${name} ${outcome}`)).toEqual([
      'address ok',
      'tls skipped',
      'sign_in ok',
      'protocol ok',
      'subscribe ok',
      'command_qos skipped',
      'encoding skipped',
      'integration warning',
    ]);
    await fixture.server.uplink(DEV_EUI);
    await fixture.events.until(() => fixture.events.uplinks.length === 1);
    expect((await fixture.test()).at(-1)).toMatchObject({ name: 'integration', outcome: 'ok' });
    expect(await fixture.test({ url: 'mqtt://127.0.0.1:1' })).toMatchObject([
      { name: 'address', outcome: 'failed', message: expect.stringContaining('nothing listens') as string },
      { outcome: 'skipped' },
      { outcome: 'skipped' },
      { outcome: 'skipped' },
      { outcome: 'skipped' },
      { name: 'encoding', outcome: 'skipped', message: 'skipped: an earlier check failed' },
      {},
    ]);
    expect(fixture.events.attachments).toHaveLength(1);
  });

  describe('a connection test', () => {
    it.each([
      ['json', 'protobuf'],
      ['protobuf', 'json'],
    ] as const)(
      'reports that events arrive as %s when the connection is configured for %s',
      async (actual, configured) => {
        await start(actual, {}, undefined, 600_000);
        const message = `events arrive as ${actual}, but the connection says ${configured}: set encoding to ${configured === 'json' ? 'protobuf' : 'json'}`;
        const [encoding] = await trialWhile(
          fixture,
          { encoding: configured },
          async () => await fixture.server.uplink(DEV_EUI),
        );
        expect(encoding).toEqual({ name: 'encoding', outcome: 'failed', message });
        const checks = await trialWhile(fixture, {}, async () => {
          await fixture.server.publishTo(`application/${APPLICATION}/device/${DEV_EUI}/event/up`, 'of nobody');
          await fixture.server.uplink(DEV_EUI);
        });
        expect(checks).toMatchObject([
          { name: 'encoding', outcome: 'ok', message: `events arrive as ${actual}` },
          { name: 'integration', outcome: 'ok' },
        ]);
      },
    );

    it('warns about messages that are not ChirpStack v4 events in any encoding, and detects the QoS', async () => {
      await start('json', { qos: 0 }, undefined, 500);
      const checks = await trialWhile(
        fixture,
        {},
        async () =>
          await fixture.server.publishTo(
            `application/${APPLICATION}/device/${DEV_EUI}/event/up`,
            '{"applicationID": "1"}',
          ),
      );
      expect(checks).toMatchObject([
        {
          name: 'encoding',
          outcome: 'warning',
          message: expect.stringContaining('neither as json nor as protobuf') as string,
        },
        { name: 'integration', outcome: 'warning', message: expect.stringContaining('arrive with QoS 0') as string },
      ]);
    });
  });

  it('applies a changed connection, keeps the link after a policy change, and disconnects when it is disabled or deleted', async () => {
    await start('json');
    fixture.open({}, { policy: { maxInFlight: 3 } });
    expect(fixture.connector.peer(fixture.connectionId)).toMatchObject({ capacity: 3 });
    expect(fixture.events.attachments).toHaveLength(1);
    fixture.open({ eventTopic: 'other/{devEui}/{event}' });
    await fixture.events.until(() => fixture.events.attachments.length === 2 && fixture.events.readies.length === 3);
    fixture.open({}, { enabled: false });
    expect(fixture.connector.peer(fixture.connectionId)).toBeUndefined();
    await fixture.events.until(() => fixture.events.detachments.length === 2);
    expect(fixture.status(false)).toMatchObject({ state: 'disabled' });
    fixture.open();
    await fixture.events.until(() => fixture.events.attachments.length === 3);
    fixture.connector.connectionDeleted(fixture.connectionId);
    await fixture.events.until(() => fixture.events.detachments.length === 3);
  });

  it('deletes the subscriptions of an older configuration from the broker', async () => {
    await start('json');
    fixture.open({ eventTopic: 'new/{devEui}/{event}' });
    await fixture.events.until(() => fixture.events.readies.length === 2);
    await fixture.server.uplink(DEV_EUI);
    await fixture.server.publishTo(`new/${DEV_EUI}/up`, fixture.server.published[0]?.payload ?? '');
    await fixture.events.until(() => fixture.events.uplinks.length === 1);
    expect(fixture.log.of('chirpstack.event_ignored')).toEqual([]);
  });

  it.each([
    ['deleted', (): void => fixture.connector.connectionDeleted(fixture.connectionId)],
    ['moved to another client', (): void => fixture.open({ clientId: 'other' }, { enabled: false })],
  ])('deletes the broker session of a connection that was disabled and then %s', async (_, change) => {
    await start('json');
    fixture.open({}, { enabled: false });
    await fixture.events.until(() => fixture.events.detachments.length === 1);
    expect(await fixture.broker.keepsSession(`plantroom-${fixture.connectionId}`)).toBe(true);
    change();
    await fixture.connector.stop();
    expect(await fixture.broker.keepsSession(`plantroom-${fixture.connectionId}`)).toBe(false);
  });

  it('deletes the broker session of a connection that was already disabled when the server started', async () => {
    await start('json');
    await fixture.restart();
    fixture.open({}, { enabled: false });
    expect(fixture.connector.peer(fixture.connectionId)).toBeUndefined();
    expect(await fixture.broker.keepsSession(`plantroom-${fixture.connectionId}`)).toBe(true);
    fixture.connector.connectionDeleted(fixture.connectionId);
    await fixture.connector.stop();
    expect(await fixture.broker.keepsSession(`plantroom-${fixture.connectionId}`)).toBe(false);
  });

  it('stores and acknowledges a frame that waits for the acknowledgement event of its device, before it stops', async () => {
    await start('json');
    fixture.server.addDevice(OTHER, 'CLASS_C');
    await fixture.enqueue({ clientDeviceId: OTHER, confirmed: true });
    await fixture.server.schedule(OTHER);
    await fixture.server.txAck(OTHER);
    await fixture.server.uplink(OTHER); // In class C no event about the acknowledgement comes with the frame.
    await fixture.log.until('chirpstack.event', 2);
    await fixture.restart();
    expect(fixture.events.uplinks).toHaveLength(1);
    fixture.open();
    await fixture.server.uplink(DEV_EUI);
    await fixture.events.until(() => fixture.events.uplinks.at(-1)?.clientDeviceId === DEV_EUI);
    expect(fixture.events.uplinks).toHaveLength(2); // The first uplink was acknowledged.
  });

  it('works with the automatic mode of the simulated network server', async () => {
    await start('protobuf', { auto: { reply: () => ({ open: true }) } });
    const executionId = await fixture.enqueue({ confirmed: true });
    await fixture.events.until(() => fixture.events.evidences.length === 2 && fixture.events.uplinks.length === 2);
    expect(fixture.getEvidence(executionId)).toMatchObject([{ kind: 'transport_ok' }, { kind: 'ack' }]);
    expect(fixture.events.uplinks[1]?.payload).toMatchObject({ value: { object: { open: true } } });
  });

  it('keeps the queue of a restarted network server and handles later events', async () => {
    await start('json');
    const executionId = await fixture.enqueue();
    await fixture.server.stop();
    await fixture.server.uplink(DEV_EUI); // The stopped network server publishes nothing.
    await fixture.server.start();
    expect(fixture.server.getQueue(DEV_EUI).map(({ id }) => id)).toEqual([executionId]);
    await fixture.server.txAck(DEV_EUI);
    await fixture.events.until(() => fixture.events.evidences.length === 1);
    expect(fixture.getEvidence(executionId)).toMatchObject([{ kind: 'transport_ok', fCnt: undefined }]);
  });
});

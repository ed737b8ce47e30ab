import { APPLICATION, ChirpStackRoom, DEV_EUI, startBroker } from './chirpStackRoom';
import { gate } from './fakeEvents';
import type { UplinkOutcome } from '../../src/connections';

const OTHER = '0202020202020202';

describe.each(['json', 'protobuf'] as const)('the ChirpStack connector with %s', (encoding) => {
  let room: ChirpStackRoom;
  beforeEach(async () => (room = await ChirpStackRoom.start(encoding)));
  afterEach(async () => await room.stop());

  const uplinks = async (count: number): Promise<void> => await room.events.until(() => room.events.uplinks.length >= count);
  const evidences = async (count: number): Promise<void> => await room.events.until(() => room.events.evidences.length >= count);

  it('brings uplinks up', async () => {
    await room.server.uplink(DEV_EUI, { object: { valve: { open: true } } });
    await uplinks(1);
    expect(room.events.uplinks[0]).toMatchObject({ connectionId: room.connectionId, clientDeviceId: DEV_EUI, fCnt: 1, deviceClass: 'A', isBuffered: false, payload: { value: { object: { valve: { open: true } }, rssi: -57, snr: 9.5 } } });
  });

  it('carries an unconfirmed command of class A to its txack', async () => {
    const executionId = await room.enqueue();
    expect(room.server.commands).toMatchObject([{ id: executionId, devEui: DEV_EUI, confirmed: false, fPort: 10, expiresAt: room.clock.now() + 60_000 }]);
    expect(room.server.commands[0]?.data.toString('hex')).toBe('0a');
    await room.server.uplink(DEV_EUI);
    await room.server.txAck(DEV_EUI);
    await evidences(1);
    expect(room.evidenceOf(executionId)).toMatchObject([{ kind: 'transport_ok', time: room.clock.now(), clock: 'chirpstack', fCnt: 1 }]);
    expect(room.server.transmitted).toEqual([executionId]);
  });

  it('sends a direct payload as the object that the network server encodes', async () => {
    await room.enqueue({ payload: { kind: 'json', value: { open: true, level: 0.5 } } });
    expect(room.server.commands[0]).toMatchObject({ object: { open: true, level: 0.5 } });
  });

  it('carries a confirmed command to its acknowledgement, which comes before what the same frame shows', async () => {
    const executionId = await room.enqueue({ confirmed: true });
    await room.server.uplink(DEV_EUI);
    await room.server.txAck(DEV_EUI);
    await room.server.uplink(DEV_EUI, { acknowledges: true, object: { open: true } });
    await uplinks(2);
    expect(room.evidenceOf(executionId)).toMatchObject([{ kind: 'transport_ok' }, { kind: 'ack', fCnt: 1, time: room.clock.now() - 1 }]);
    const [ack, uplink] = [room.events.evidences[1], room.events.uplinks[1]];
    expect(ack?.evidence.receivedAt).toBeLessThan(uplink?.receivedAt ?? 0);
  });

  it('takes silence for no answer, once, and the frame that tells of it comes after', async () => {
    const executionId = await room.enqueue({ confirmed: true });
    await room.server.uplink(DEV_EUI);
    await room.server.txAck(DEV_EUI);
    await room.server.uplink(DEV_EUI);
    await uplinks(2);
    expect(room.evidenceOf(executionId)).toMatchObject([{ kind: 'transport_ok' }, { kind: 'no_answer', code: 'no_ack' }]);
    expect(room.server.transmitted).toEqual([executionId]);
  });

  it('carries commands of class C at once', async () => {
    room.server.addDevice(OTHER, 'CLASS_C');
    const executionId = await room.enqueue({ clientDeviceId: OTHER, confirmed: true });
    await room.server.schedule(OTHER);
    await room.server.txAck(OTHER);
    await room.server.schedule(OTHER, true);
    await evidences(2);
    expect(room.evidenceOf(executionId)).toMatchObject([{ kind: 'transport_ok', fCnt: undefined }, { kind: 'no_answer' }]);
  });

  it('tells that a command expired in the queue, when the network server says so', async () => {
    room.clock.advance(60_000);
    const executionId = await room.enqueue();
    room.clock.advance(60_000);
    await room.server.uplink(DEV_EUI);
    await evidences(1);
    expect(room.evidenceOf(executionId)).toMatchObject([{ kind: 'unreachable', code: 'expired' }]);
    expect(room.server.transmitted).toEqual([]);
  });

  it('does not take a command that expired for unsent, when a gateway may have sent it and its word was lost', async () => {
    room.clock.advance(60_000);
    const executionId = await room.enqueue();
    room.clock.advance(1000);
    await room.server.uplink(DEV_EUI);
    await room.server.txAck(DEV_EUI, 'lost');
    room.clock.advance(60_000);
    await room.server.uplink(DEV_EUI);
    await evidences(1);
    expect(room.evidenceOf(executionId)).toMatchObject([{ kind: 'network_retry', code: 'expired' }]);
    expect(room.server.transmitted).toEqual([executionId]);
  });

  it('tells that a command is too large', async () => {
    const executionId = await room.enqueue({ payload: { kind: 'bytes', bytes: Buffer.alloc(100) } });
    await room.server.uplink(DEV_EUI);
    await evidences(1);
    expect(room.evidenceOf(executionId)).toMatchObject([{ kind: 'refused', code: 'downlink_payload_size' }]);
  });

  it('tells of a gateway that could not send, and of the success after that', async () => {
    const executionId = await room.enqueue();
    await room.server.uplink(DEV_EUI);
    await room.server.txAck(DEV_EUI, 'error');
    await room.server.uplink(DEV_EUI);
    await room.server.txAck(DEV_EUI);
    await evidences(2);
    expect(room.evidenceOf(`of ${DEV_EUI}`)).toMatchObject([{ kind: 'network_retry', code: 'downlink_gateway', message: 'TOO_LATE' }]);
    expect(room.evidenceOf(executionId)).toMatchObject([{ kind: 'transport_ok', fCnt: 2 }]);
  });

  it('concludes nothing of a join that flushes the queue', async () => {
    const executionId = await room.enqueue();
    await room.server.join(DEV_EUI);
    await room.server.uplink(DEV_EUI);
    await uplinks(1);
    expect(room.evidenceOf(executionId)).toEqual([]);
  });

  it('brings repeated events with the same ids', async () => {
    await room.server.uplink(DEV_EUI);
    await room.server.repeat();
    await uplinks(2);
    expect(room.events.uplinks[0]?.identity).toEqual(room.events.uplinks[1]?.identity);
  });

  it('takes events in any order', async () => {
    const executionId = await room.enqueue({ confirmed: true });
    room.server.hold();
    await room.server.uplink(DEV_EUI);
    await room.server.txAck(DEV_EUI);
    await room.server.uplink(DEV_EUI, { acknowledges: true });
    await room.server.release((events) => events.toReversed());
    await evidences(2);
    await uplinks(2);
    expect(room.evidenceOf(executionId).map((evidence) => (evidence as { kind: string }).kind)).toEqual(['ack', 'transport_ok']);
  });

  it('ignores devices of other applications, and throws away what is no event', async () => {
    const application = '00000000-0000-4000-8000-000000000000';
    await room.server.uplink(DEV_EUI, { applicationId: application });
    await room.server.publishTo(`application/${APPLICATION}/device/${DEV_EUI}/event/up`, 'garbage \u0000 {');
    await room.server.publishTo(`application/${APPLICATION}/device/valve 1/event/up`, '{}');
    await room.server.uplink(DEV_EUI);
    await uplinks(1);
    expect(room.events.uplinks).toHaveLength(1);
    expect(room.log.of('chirpstack.event_rejected').map(({ reason }) => reason)).toEqual(['event_unreadable', 'dev_eui_invalid']);
    expect(room.status()).toMatchObject({ state: 'degraded', warnings: ['uplinks_rejected'] });
  });

  it('leaves a command that another client put into the queue alone', async () => {
    await room.server.ack(DEV_EUI, '', '01900000-0000-7000-8000-000000000001', true);
    await evidences(1);
    expect(room.events.evidences).toHaveLength(1);
    expect(room.events.readies).toHaveLength(1);
  });
});

describe('the ChirpStack connector', () => {
  let room: ChirpStackRoom;
  const start = async (...options: Parameters<typeof ChirpStackRoom.start>): Promise<void> => void (room = await ChirpStackRoom.start(...options));
  afterEach(async () => await room.stop());

  it('refuses a direct payload that is no object without bothering the network server', async () => {
    await start('json');
    const executionId = await room.send({ payload: { kind: 'json', value: [1] } });
    await room.events.until(() => room.events.evidences.length > 0);
    expect(room.evidenceOf(executionId)).toMatchObject([{ kind: 'refused', code: 'payload_no_object' }]);
    expect(room.server.commands).toEqual([]);
  });

  it('sends nothing after the deadline, nor on a session that is over, nor twice', async () => {
    await start('json');
    await expect(room.send({ deadline: room.clock.now() })).rejects.toThrow('not sent');
    const executionId = await room.enqueue();
    await room.send({ executionId });
    await room.server.until(() => room.server.errors.length > 0);
    expect(room.server.errors).toEqual([expect.stringContaining('duplicate key')]);
    const session = room.connector.peer(room.connectionId)?.session ?? 0;
    expect(await room.connector.send({ connectionId: room.connectionId } as never, session + 1)).toBe('not_sent');
  });

  it('does not acknowledge an uplink before it is stored: it comes again after the link was lost', async () => {
    await start('json');
    const stored = gate<UplinkOutcome>();
    room.events.onUplink = async () => await stored.promise;
    await room.server.uplink(DEV_EUI);
    await room.events.until(() => room.events.uplinks.length === 1);
    room.broker.cut('plantroom-');
    stored.open({ outcome: 'stored' });
    await room.events.until(() => room.events.uplinks.length === 2);
    expect(room.events.uplinks[1]?.identity).toEqual(room.events.uplinks[0]?.identity);
    expect(room.events.detachments).toEqual([room.connectionId]);
  });

  it('settles what was on its way before it takes commands again', async () => {
    await start('json');
    const settled = gate<void>();
    room.events.onDetached = async () => await settled.promise;
    await room.server.stop();
    await room.broker.stop();
    await room.events.until(() => room.events.detachments.length === 1);
    expect(room.connector.peer(room.connectionId)).toBeUndefined();
    expect(room.status()).toMatchObject({ state: 'disconnected' });
    const again = await startBroker(Number(new URL(room.broker.url).port));
    settled.open();
    await room.events.until(() => room.events.readies.length === 2);
    expect(room.events.attachments.map(({ source, durable, known }) => ({ source, durable, known }))).toEqual([
      { source: 'chirpstack', durable: false, known: [] },
      { source: 'chirpstack', durable: false, known: [] },
    ]);
    expect(room.status()).toMatchObject({ state: 'connected', lastError: '' });
    await room.connector.stop();
    await again.stop();
  });

  it('says that the integration publishes with QoS 0, until it does not', async () => {
    await start('json', { qos: 0 });
    await room.server.uplink(DEV_EUI);
    await room.events.until(() => room.events.uplinks.length === 1);
    expect(room.status()).toMatchObject({ state: 'degraded', warnings: ['integration_qos_0'] });
    expect((await room.test()).at(-1)).toMatchObject({ name: 'integration', outcome: 'warning', message: expect.stringContaining('come with QoS 0') as string });
  });

  it('tries a connection out and leaves nothing behind', async () => {
    await start('json');
    expect((await room.test()).map(({ name, outcome }) => `${name} ${outcome}`)).toEqual(['address ok', 'tls skipped', 'sign_in ok', 'protocol ok', 'subscribe ok', 'integration warning']);
    await room.server.uplink(DEV_EUI);
    await room.events.until(() => room.events.uplinks.length === 1);
    expect((await room.test()).at(-1)).toMatchObject({ name: 'integration', outcome: 'ok' });
    expect(await room.test({ url: 'mqtt://127.0.0.1:1' })).toMatchObject([{ name: 'address', outcome: 'failed', message: expect.stringContaining('nothing listens') as string }, { outcome: 'skipped' }, { outcome: 'skipped' }, { outcome: 'skipped' }, { outcome: 'skipped' }, {}]);
    expect(room.events.attachments).toHaveLength(1);
  });

  it('applies a changed connection, keeps the link at a changed policy, and goes when it is switched off or deleted', async () => {
    await start('json');
    room.open({}, { policy: { maxInFlight: 3 } });
    expect(room.connector.peer(room.connectionId)).toMatchObject({ capacity: 3 });
    expect(room.events.attachments).toHaveLength(1);
    room.open({ eventTopic: 'other/{devEui}/{event}' });
    await room.events.until(() => room.events.attachments.length === 2 && room.events.readies.length === 3);
    room.open({}, { enabled: false });
    expect(room.connector.peer(room.connectionId)).toBeUndefined();
    await room.events.until(() => room.events.detachments.length === 2);
    expect(room.status(false)).toMatchObject({ state: 'disabled' });
    room.open();
    await room.events.until(() => room.events.attachments.length === 3);
    room.connector.connectionDeleted(room.connectionId);
    await room.events.until(() => room.events.detachments.length === 3);
  });

  it('lets the broker forget what an older configuration subscribed to', async () => {
    await start('json');
    room.open({ eventTopic: 'new/{devEui}/{event}' });
    await room.events.until(() => room.events.readies.length === 2);
    await room.server.uplink(DEV_EUI);
    await room.server.publishTo(`new/${DEV_EUI}/up`, room.server.published[0]?.payload ?? '');
    await room.events.until(() => room.events.uplinks.length === 1);
    expect(room.log.of('chirpstack.event_ignored')).toEqual([]);
  });

  it.each([
    ['deleted', (): void => room.connector.connectionDeleted(room.connectionId)],
    ['moved to another client', (): void => room.open({ clientId: 'other' }, { enabled: false })],
  ])('lets the broker forget a connection that was switched off and then %s', async (_, change) => {
    await start('json');
    room.open({}, { enabled: false });
    await room.events.until(() => room.events.detachments.length === 1);
    expect(await room.broker.keepsSession(`plantroom-${room.connectionId}`)).toBe(true);
    change();
    await room.connector.stop();
    expect(await room.broker.keepsSession(`plantroom-${room.connectionId}`)).toBe(false);
  });

  it('lets the broker forget a connection that was switched off already when the server started', async () => {
    await start('json');
    await room.restart();
    room.open({}, { enabled: false });
    expect(room.connector.peer(room.connectionId)).toBeUndefined();
    expect(await room.broker.keepsSession(`plantroom-${room.connectionId}`)).toBe(true);
    room.connector.connectionDeleted(room.connectionId);
    await room.connector.stop();
    expect(await room.broker.keepsSession(`plantroom-${room.connectionId}`)).toBe(false);
  });

  it('stores and acknowledges a frame that waits for the word of its device, before it stops', async () => {
    await start('json');
    room.server.addDevice(OTHER, 'CLASS_C');
    await room.enqueue({ clientDeviceId: OTHER, confirmed: true });
    await room.server.schedule(OTHER);
    await room.server.txAck(OTHER);
    await room.server.uplink(OTHER); // class C: no word about the acknowledgement comes with it
    await room.log.until('chirpstack.event', 2);
    await room.restart();
    expect(room.events.uplinks).toHaveLength(1);
    room.open();
    await room.server.uplink(DEV_EUI);
    await room.events.until(() => room.events.uplinks.at(-1)?.clientDeviceId === DEV_EUI);
    expect(room.events.uplinks).toHaveLength(2); // the first one was acknowledged
  });

  it('plays itself where it is told to', async () => {
    await start('protobuf', { auto: { reply: () => ({ open: true }) } });
    const executionId = await room.enqueue({ confirmed: true });
    await room.events.until(() => room.events.evidences.length === 2 && room.events.uplinks.length === 2);
    expect(room.evidenceOf(executionId)).toMatchObject([{ kind: 'transport_ok' }, { kind: 'ack' }]);
    expect(room.events.uplinks[1]?.payload).toMatchObject({ value: { object: { open: true } } });
  });

  it('leaves the queue of a network server that restarts as it is, and takes what comes after', async () => {
    await start('json');
    const executionId = await room.enqueue();
    await room.server.stop();
    await room.server.uplink(DEV_EUI); // nobody is told
    await room.server.start();
    expect(room.server.queueOf(DEV_EUI).map(({ id }) => id)).toEqual([executionId]);
    await room.server.txAck(DEV_EUI);
    await room.events.until(() => room.events.evidences.length === 1);
    expect(room.evidenceOf(executionId)).toMatchObject([{ kind: 'transport_ok', fCnt: undefined }]);
  });
});

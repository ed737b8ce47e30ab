import { ChirpStackInbox, type EventMessage } from '../../src/connections/connectors/chirpstack/chirpStackInbox';
import { JSON_CODEC } from '../../src/connections/connectors/chirpstack/chirpStackJson';
import { ChirpStackReader } from '../../src/connections/connectors/chirpstack/chirpStackReader';
import { ChirpStackTopics, DEFAULT_TOPICS } from '../../src/connections/connectors/chirpstack/chirpStackTopics';
import { Arrivals } from '../../src/connections/arrivals';
import { DomainError, notFound } from '../../src/kernel/errors';
import type { Event } from '../support/chirpStack/events';
import { write } from '../support/chirpStack/wire';
import { MemoryLog } from '../support/edge';
import { type CommandFacts, WINDOW_MS } from '../../src/connections/connectors/chirpstack/sentCommand';
import { TestClock } from '../support/testClock';
import { FakeEvents } from './fakeEvents';

const APPLICATION = '48f13ba9-7a3c-4d56-9e6d-0c6f2c1b7a11';
const DEV_EUI = '0101010101010101';
const OTHER = '0202020202020202';
const EXECUTION = '01900000-0000-7000-8000-000000000001';
const INFO = { applicationId: APPLICATION, devEui: DEV_EUI, deviceClassEnabled: 'CLASS_A' } as const;
const TIME = new TestClock().now();
const MINUTE = 60_000;
/** Of a message of QoS 1. */
const DELIVERY = { identity: { kind: 'delivery', slot: '1', digest: 'digest', isRepetition: false } } as const;

function up(deduplicationId: string, overrides: Partial<Event & { kind: 'up' }> = {}): Event {
  return { kind: 'up', deduplicationId, time: TIME, nsTime: TIME, deviceInfo: INFO, fCnt: 7, fPort: 1, data: Buffer.from('01', 'hex'), object: { level: 21 }, rssi: -57, snr: 9.5, ...overrides };
}

function ack(deduplicationId: string, acknowledged = true, queueItemId = EXECUTION): Event {
  return { kind: 'ack', deduplicationId, time: TIME + 50, deviceInfo: INFO, queueItemId, acknowledged, fCntDown: 1 };
}

function txAck(overrides: Partial<Event & { kind: 'txack' }> = {}): Event {
  return { kind: 'txack', time: TIME + 10, deviceInfo: INFO, queueItemId: EXECUTION, fCntDown: 1, ...overrides };
}

function log(code: (Event & { kind: 'log' })['code'], context: Record<string, string> = { queue_item_id: EXECUTION }): Event {
  return { kind: 'log', time: TIME, deviceInfo: INFO, level: 'ERROR', code, description: 'why', context };
}

class Room {
  readonly log = new MemoryLog();
  readonly events = new FakeEvents();
  rejections = 0;
  readonly clock = new TestClock();
  private readonly arrivals = new Arrivals(this.clock);
  readonly inbox: ChirpStackInbox;

  /** Uplinks are held until something ends that, for hours, unless said. */
  constructor(holdMs = 3_600_000) {
    const topics = new ChirpStackTopics(DEFAULT_TOPICS.eventTopic, DEFAULT_TOPICS.commandTopic, APPLICATION);
    const reader = new ChirpStackReader(topics, JSON_CODEC, APPLICATION);
    this.inbox = new ChirpStackInbox({ organizationId: 'org-1', connectionId: 'connection-1', reader, events: this.events, clock: this.clock, log: this.log, onRejected: () => (this.rejections += 1), onStalled: () => {}, holdMs, retryMs: 1 });
  }

  async take(event: Event, overrides: Partial<EventMessage> = {}): Promise<void> {
    await this.takeRaw(`application/${event.deviceInfo.applicationId}/device/${event.deviceInfo.devEui}/event/${event.kind}`, write(event, 'json'), overrides);
  }

  async takeRaw(topic: string, payload: Buffer | string, overrides: Partial<EventMessage> = {}): Promise<void> {
    await this.inbox.take({ topic, payload: Buffer.from(payload), retained: false, isBuffered: false, receivedAt: this.arrivals.stamp(), identity: { kind: 'none' }, signal: new AbortController().signal, ...overrides });
  }

  /** A command is sent whose time is up after a minute. */
  send(overrides: Partial<CommandFacts> = {}): void {
    this.inbox.sending({ clientDeviceId: DEV_EUI, executionId: EXECUTION, confirmed: true, deadline: this.clock.now() + MINUTE, ...overrides });
  }

  /** A confirmed command is sent, and a gateway takes it. */
  async transmit(devEui = DEV_EUI, executionId = EXECUTION): Promise<void> {
    this.send({ clientDeviceId: devEui, executionId });
    await this.take(txAck({ deviceInfo: { ...INFO, devEui }, queueItemId: executionId }));
    this.events.evidences.splice(0);
  }

  /** What was handed up, in order of the stamps. */
  get evidenceKinds(): string[] {
    return this.events.evidences.map(({ executionId, evidence }) => `${evidence.kind} ${executionId === EXECUTION ? 'E' : executionId}`);
  }
}

describe('events of ChirpStack, one device', () => {
  it('hands an uplink up with what it shows, its frame, its class, and the time of the network server', async () => {
    const room = new Room();
    await room.take(up('d-1'));
    expect(room.events.uplinks).toEqual([
      {
        organizationId: 'org-1',
        connectionId: 'connection-1',
        identity: { kind: 'id', uplinkId: 'd-1' },
        clientDeviceId: DEV_EUI,
        receivedAt: expect.any(Number) as number,
        time: TIME,
        clock: 'chirpstack',
        isBuffered: false,
        fCnt: 7,
        deviceClass: 'A',
        payload: { kind: 'json', value: { object: { level: 21 }, rssi: -57, snr: 9.5, fCnt: 7, fPort: 1, dr: 5 } },
        fPort: 1,
      },
    ]);
  });

  it('shows the data in hexadecimal where there is no object', async () => {
    const room = new Room();
    await room.take(up('d-1', { object: undefined, data: Buffer.from('0aff', 'hex') }));
    expect(room.events.uplinks[0]?.payload).toMatchObject({ value: { data: '0aff' } });
  });

  it('takes what waited at the broker, or was retained there, for old', async () => {
    const room = new Room();
    await room.take(up('d-1'), { isBuffered: true });
    await room.take(up('d-2'), { retained: true });
    expect(room.events.uplinks.map(({ isBuffered }) => isBuffered)).toEqual([true, true]);
  });

  it('brings statuses and locations as uplinks that prove nothing', async () => {
    const room = new Room();
    await room.take({ kind: 'status', deduplicationId: 'd-1', time: TIME, deviceInfo: INFO, margin: 10, externalPowerSource: false, batteryLevelUnavailable: false, batteryLevel: 75.5 });
    await room.take({ kind: 'location', deduplicationId: 'd-1', time: TIME, deviceInfo: INFO, latitude: 1.5, longitude: 2.5 });
    expect(room.events.uplinks.map(({ identity, isBuffered, payload }) => ({ identity, isBuffered, payload }))).toEqual([
      { identity: { kind: 'id', uplinkId: 'status:d-1' }, isBuffered: true, payload: { kind: 'json', value: { margin: 10, batteryLevel: 75.5 } } },
      { identity: { kind: 'id', uplinkId: 'location:d-1' }, isBuffered: true, payload: { kind: 'json', value: { location: { latitude: 1.5, longitude: 2.5, altitude: 0 } } } },
    ]);
  });

  it('tells of a txack with the frame whose window it was sent in, of class A only', async () => {
    const room = new Room();
    await room.take(up('d-1'));
    await room.take(txAck());
    await room.take(txAck({ deviceInfo: { ...INFO, deviceClassEnabled: 'CLASS_C' } }));
    expect(room.events.evidences.map(({ evidence }) => evidence)).toMatchObject([{ kind: 'transport_ok', time: TIME + 10, clock: 'chirpstack', fCnt: 7 }, { kind: 'transport_ok', fCnt: undefined }]);
    expect(room.events.evidences[0]).toMatchObject({ executionId: EXECUTION, source: 'chirpstack' });
  });

  it('does not go back to an older frame that comes again or late', async () => {
    const room = new Room();
    await room.take(up('d-2', { fCnt: 8, nsTime: TIME + 1000 }));
    await room.take(up('d-1', { fCnt: 7 }));
    await room.take(txAck());
    expect(room.events.evidences[0]?.evidence.fCnt).toBe(8);
  });

  it('forgets the frames at a join, and concludes nothing of the queue', async () => {
    const room = new Room();
    await room.take(up('d-1'));
    await room.take({ kind: 'join', deduplicationId: 'd-2', time: TIME, deviceInfo: INFO, devAddr: '00189440' });
    await room.take(txAck());
    expect(room.evidenceKinds).toEqual(['transport_ok E']);
    expect(room.events.evidences[0]?.evidence.fCnt).toBeUndefined();
    expect(room.log.of('chirpstack.joined')).toHaveLength(1);
  });

  it.each([
    ['DOWNLINK_PAYLOAD_SIZE', 'refused E'],
    ['F_CNT_DOWN', 'refused E'],
    ['EXPIRED', 'network_retry E'],
  ] as const)('tells of a log event %s by its queue item', async (code, seen) => {
    const room = new Room();
    await room.take(log(code));
    await room.take(log(code, {}));
    expect(room.evidenceKinds).toEqual([seen]);
    expect(room.events.evidences[0]?.evidence).toMatchObject({ code: code.toLowerCase(), message: 'why' });
  });

  it('tells in words only what can be stored and shown', async () => {
    const room = new Room();
    await room.take({ ...log('EXPIRED'), description: `a\u0000b\n\uD800${'x'.repeat(1000)}` } as Event);
    const { evidence } = room.events.evidences[0] ?? {};
    expect((evidence as { message: string }).message).toMatch(/^a b \uFFFDx{100,500}… \(\d+ more characters\)$/);
  });

  it('tells of DOWNLINK_GATEWAY by its device, and of other log events only in the log', async () => {
    const room = new Room();
    await room.take(log('DOWNLINK_GATEWAY', {}));
    await room.take(log('UPLINK_F_CNT_RESET'));
    expect(room.evidenceKinds).toEqual([`network_retry of ${DEV_EUI}`]);
    expect(room.log.of('chirpstack.log_event')).toHaveLength(2);
  });

  it('leaves downlinks of others alone', async () => {
    const room = new Room();
    await room.take(txAck({ queueItemId: '' }));
    await room.take(txAck({ queueItemId: 'not an id' }));
    expect(room.events.evidences).toEqual([]);
  });
});

/** What it comes to when ChirpStack says that, after this happened. */
async function endAfter(happened: (room: Room) => Promise<void> | void, overrides: Partial<Event & { kind: 'log' }> = {}): Promise<string[]> {
  const room = new Room();
  room.clock.advance(MINUTE); // since the link began
  await happened(room);
  room.clock.advance(MINUTE);
  const now = room.clock.now();
  room.events.evidences.splice(0);
  const frame = up('d-9', { fCnt: 9, nsTime: now, time: now }); // at which it looks at its queue
  await Promise.all([room.take(frame, DELIVERY), room.take({ ...log('EXPIRED'), ...overrides } as Event, DELIVERY)]);
  expect(room.events.evidences[0]?.evidence).toMatchObject({ code: 'expired', message: 'why' });
  return room.evidenceKinds;
}
/** A frame of the device comes in. */
async function heard(room: Room): Promise<void> {
  await room.take(up('d-1', { nsTime: room.clock.now() }), DELIVERY);
}

describe('a command that expired in the queue', () => {
  it.each([
    ['the device was never heard in its time', (room: Room): void => room.send()],
    ['it was unconfirmed', (room: Room): void => room.send({ confirmed: false })],
    ['the last frame before it had no open windows any more', async (room: Room): Promise<void> => (await heard(room), room.clock.advance(WINDOW_MS), room.send())],
    ['only statuses came', async (room: Room): Promise<void> => (room.send(), await room.take({ kind: 'status', deduplicationId: 'd-1', time: TIME, deviceInfo: INFO, margin: 10, externalPowerSource: false, batteryLevelUnavailable: false, batteryLevel: 1 }, DELIVERY))],
  ])('reached nobody, when %s', async (_, happened) => {
    expect(await endAfter(happened)).toEqual(['unreachable E']);
  });

  it.each([
    ['the device was heard in its time: the txack may be lost', async (room: Room): Promise<void> => (room.send(), await heard(room))],
    ['a frame does not say when it was received', async (room: Room): Promise<void> => (room.send(), await room.takeRaw(`application/${APPLICATION}/device/${DEV_EUI}/event/up`, write(up('d-1'), 'json').toString().replaceAll('"nsTime"', '"other"'), DELIVERY))],
    ['a frame had come just before', async (room: Room): Promise<void> => (await heard(room), room.clock.advance(WINDOW_MS - 1000), room.send())],
    ['the link had just begun', (room: Room): void => (room.inbox.linked(), room.send())],
    ['the link was interrupted', (room: Room): void => (room.send(), room.inbox.linked())],
    ['a gateway had taken it', async (room: Room): Promise<void> => (room.send(), await room.take(txAck(), DELIVERY))],
    ['the device joined', async (room: Room): Promise<void> => (room.send(), await room.take({ kind: 'join', deduplicationId: 'd-2', time: TIME, deviceInfo: INFO, devAddr: '00189440' }, DELIVERY))],
    ['events come with QoS 0', async (room: Room): Promise<void> => (room.send(), await room.take(log('UPLINK_F_CNT_RESET')))],
    ['this server has not sent it since it started', (): void => {}],
    ['another one was sent', (room: Room): void => room.send({ executionId: '01900000-0000-7000-8000-000000000002' })],
  ])('may have reached the device, when %s', async (_, happened) => {
    expect(await endAfter(happened)).toEqual(['network_retry E']);
  });

  it.each(['CLASS_B', 'CLASS_C'] as const)('may have reached a device of %s, which needs no frame to listen', async (deviceClassEnabled) => {
    expect(await endAfter((room) => room.send(), { deviceInfo: { ...INFO, deviceClassEnabled } })).toEqual(['network_retry E']);
  });
});

describe('an uplink that may hold an acknowledgement', () => {
  it('waits for it, and comes after it', async () => {
    const room = new Room();
    const order: string[] = [];
    room.events.onUplink = async () => (order.push('uplink'), { outcome: 'stored' });
    room.events.onEvidence = async () => (order.push('ack'), 'applied');
    await room.transmit();
    order.splice(0);
    await Promise.all([room.take(up('d-1')), room.take(ack('d-1'))]);
    expect(order).toEqual(['ack', 'uplink']);
    const [uplink, evidence] = [room.events.uplinks[0], room.events.evidences[0]?.evidence];
    expect(evidence).toMatchObject({ kind: 'ack', time: TIME - 1, clock: 'chirpstack', fCnt: 6 });
    expect(evidence?.receivedAt).toBeLessThan(uplink?.receivedAt ?? 0);
  });

  it('waits for the word that none was seen, too', async () => {
    const room = new Room();
    await room.transmit();
    await Promise.all([room.take(up('d-1')), room.take(ack('d-1', false))]);
    expect(room.events.evidences[0]?.evidence).toMatchObject({ kind: 'no_answer', code: 'no_ack', time: TIME - 1 });
  });

  it('waits no longer than it may', async () => {
    const room = new Room(1);
    await room.transmit();
    await room.take(up('d-1'));
    expect(room.events.uplinks).toHaveLength(1);
    await room.take(ack('d-1'));
    expect(room.events.evidences[0]?.evidence).toMatchObject({ kind: 'ack', time: TIME - 1 });
  });

  it.each([
    ['the next uplink', up('d-2', { fCnt: 8, nsTime: TIME + 1000 })],
    ['a txack', txAck()],
  ])('does not wait beyond %s, which comes after it would have', async (_, later) => {
    const room = new Room();
    await room.transmit();
    const first = room.take(up('d-1'));
    room.inbox.forget(EXECUTION);
    await Promise.all([first, room.take(later)]);
    expect(room.events.uplinks[0]?.identity).toEqual({ kind: 'id', uplinkId: 'd-1' });
  });

  it.each([
    ['no command is open', async (): Promise<void> => {}],
    ['no gateway has taken the command yet', async (room: Room): Promise<void> => room.send()],
    ['the command is unconfirmed', async (room: Room): Promise<void> => (room.send({ confirmed: false }), await room.take(txAck()))],
    ['the command ended', async (room: Room): Promise<void> => (await room.transmit(), room.inbox.forget(EXECUTION))],
    ['the command is that of another device', async (room: Room): Promise<void> => await room.transmit(OTHER)],
  ])('does not wait when %s', async (_, prepare) => {
    const room = new Room();
    await prepare(room);
    await room.take(up('d-1'));
    expect(room.events.uplinks).toHaveLength(1);
  });

  it('does not wait again when it is repeated, nor after its acknowledgement', async () => {
    const room = new Room();
    await room.transmit();
    await Promise.all([room.take(up('d-1')), room.take(ack('d-1'))]);
    await room.take(up('d-1'));
    await room.take(ack('d-1'));
    await room.take(up('d-2', { fCnt: 8 }));
    expect(room.events.uplinks).toHaveLength(3);
    expect(room.evidenceKinds).toEqual(['ack E', 'ack E']);
  });

  it('does not hold up other devices', async () => {
    const room = new Room();
    await room.transmit();
    const held = room.take(up('d-1'));
    await room.take(up('d-2', { deviceInfo: { ...INFO, devEui: OTHER } }));
    expect(room.events.uplinks.map(({ clientDeviceId }) => clientDeviceId)).toEqual([OTHER]);
    await room.inbox.drained();
    await held;
    expect(room.events.uplinks).toHaveLength(2);
  });

  it('waits for few devices at once, so that brokers go on bringing the events of the others', async () => {
    const room = new Room();
    const devices = Array.from({ length: 9 }, (_, at) => `030303030303030${at}`);
    for (const [at, devEui] of devices.entries()) await room.transmit(devEui, `01900000-0000-7000-8000-00000000001${at}`);
    const taken = devices.map(async (devEui) => await room.take(up(`d-${devEui}`, { deviceInfo: { ...INFO, devEui } })));
    await taken[0];
    expect(room.events.uplinks.map(({ clientDeviceId }) => clientDeviceId)).toEqual([devices[0]]);
    await room.inbox.drained();
    await Promise.all(taken);
    expect(room.events.uplinks).toHaveLength(9);
  });

  it('takes an acknowledgement that comes before its frame, or of a frame that is not known, as it is', async () => {
    const room = new Room();
    await room.transmit();
    await room.take(ack('d-1'));
    await room.take(up('d-1'));
    expect(room.events.evidences[0]?.evidence).toMatchObject({ kind: 'ack', time: TIME + 50 });
    expect(room.events.uplinks).toHaveLength(1);
  });
});

function deep(levels: number): object {
  return levels === 0 ? {} : { deeper: deep(levels - 1) };
}

describe('what is no event of the application', () => {
  const TOPIC = `application/${APPLICATION}/device/${DEV_EUI}/event/`;

  it.each([
    ['other_application', `application/${APPLICATION}/device/${DEV_EUI}/event/up`, write(up('d-1', { deviceInfo: { ...INFO, applicationId: '00000000-0000-4000-8000-000000000000' } }), 'json')],
    ['other_topic', `application/00000000-0000-4000-8000-000000000000/device/${DEV_EUI}/event/up`, write(up('d-1'), 'json')],
    ['other_topic', `${TOPIC}up/more`, '{}'],
    ['other_event', `${TOPIC}integration`, '{}'],
  ])('ignores it: %s', async (why, topic, payload) => {
    const room = new Room();
    await room.takeRaw(topic, payload);
    expect(room.log.of('chirpstack.event_ignored')).toMatchObject([{ reason: why, count: 1 }]);
    expect(room.events.uplinks).toEqual([]);
  });

  it.each([
    ['event_unreadable', `${TOPIC}up`, 'no json'],
    ['event_unreadable', `${TOPIC}up`, '[1'.padEnd(100_000, '[')],
    ['event_unreadable', `${TOPIC}txack`, '{"queueItemId": 5}'],
    ['f_port_invalid', `${TOPIC}up`, write(up('d-1', { fPort: 256 }), 'json')],
    ['event_too_large', `${TOPIC}up`, ' '.repeat(300_000)],
    ['dev_eui_invalid', `application/${APPLICATION}/device/+/event/up`, '{}'],
    ['dev_eui_differs', TOPIC.replace(DEV_EUI, '0202020202020202') + 'up', write(up('d-1'), 'json')],
    ['object_invalid', `${TOPIC}up`, write(up('d-1', { object: { deep: deep(40) } }), 'json')],
    ['object_invalid', `${TOPIC}up`, write(up('d-1'), 'json').toString().replace('"level"', '"__proto__"')],
    ['object_too_large', `${TOPIC}up`, write(up('d-1', { object: { text: 'x'.repeat(70_000) } }), 'json')],
  ])('throws it away for good: %s', async (why, topic, payload) => {
    const room = new Room();
    await room.takeRaw(topic, payload);
    expect(room.log.of('chirpstack.event_rejected')).toMatchObject([{ reason: why, count: 1 }]);
    expect(room.rejections).toBe(1);
    expect(room.events.uplinks).toEqual([]);
  });

  it('says of a flood only now and then that it is one', async () => {
    const room = new Room();
    for (let count = 1; count <= 100; count++) await room.takeRaw(`${TOPIC}up`, 'no json');
    expect(room.log.lines.filter(({ level, event }) => level === 'warn' && event === 'chirpstack.event_rejected')).toHaveLength(7);
  });
});

describe('when an event cannot be stored', () => {
  it('tries until it can', async () => {
    const room = new Room();
    let tries = 0;
    room.events.onUplink = async () => {
      tries += 1;
      if (tries < 3) throw new DomainError('unavailable', 'database_unavailable', 'away');
      return { outcome: 'stored' };
    };
    await room.take(up('d-1'));
    expect(tries).toBe(3);
  });

  it('counts what the rooms above will never store', async () => {
    const room = new Room();
    room.events.onUplink = async () => ({ outcome: 'rejected', reason: 'payload_too_deep' });
    await room.take(up('d-1'));
    expect(room.log.of('chirpstack.event_rejected')).toMatchObject([{ reason: 'uplink_rejected', detail: 'payload_too_deep' }]);
    expect(room.rejections).toBe(1);
  });

  it('gives up what no database takes, and goes on with what comes after', async () => {
    const room = new Room();
    room.events.onEvidence = async () => await Promise.reject(new Error('invalid byte sequence'));
    await Promise.all([room.take(txAck()), room.take(up('d-1'))]);
    expect(room.events.evidences).toHaveLength(5);
    expect(room.events.uplinks).toHaveLength(1);
    expect(room.log.of('chirpstack.storing_given_up')).toHaveLength(1);
    expect(room.rejections).toBe(1);
  });

  it('says now and then only that the database is away', async () => {
    const room = new Room();
    let tries = 0;
    room.events.onUplink = async () => {
      tries += 1;
      if (tries <= 40) throw new DomainError('unavailable', 'database_unavailable', 'away');
      return { outcome: 'stored' };
    };
    await room.take(up('d-1'));
    expect(room.log.of('chirpstack.storing_fails').map(({ failures }) => failures)).toEqual([1, 2, 4, 8, 16, 32]);
  });

  it('throws it away when the connection is deleted', async () => {
    const room = new Room();
    room.events.onUplink = async () => await Promise.reject(notFound('connection', 'connection-1'));
    await room.take(up('d-1'));
    expect(room.events.uplinks).toHaveLength(1);
  });

  it('leaves it to be sent again when nobody can acknowledge it any more', async () => {
    const room = new Room();
    room.events.onUplink = async () => await Promise.reject(new DomainError('unavailable', 'database_unavailable', 'away'));
    const over = new AbortController();
    const taking = room.take(up('d-1'), { signal: over.signal });
    taking.catch(() => {});
    await room.log.until('chirpstack.storing_fails');
    over.abort();
    await expect(taking).rejects.toThrow(/abort/i);
  });
});

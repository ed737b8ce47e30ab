import { DomainError, notFound } from '../../src/kernel/errors';
import type { Event } from '../support/chirpStack/events';
import { write } from '../support/chirpStack/wire';
import { RECEIVE_WINDOW_MS } from '../../src/connections/connectors/chirpstack/inFlightCommand';
import {
  ack,
  APPLICATION,
  DELIVERY,
  DEV_EUI,
  EXECUTION,
  InboxFixture,
  INFO,
  log,
  MINUTE,
  OTHER,
  TIME,
  txAck,
  up,
} from './inboxFixture';

describe('the ChirpStack inbox with one device', () => {
  it('reports an uplink with its values, frame, device class and the time of the network server', async () => {
    const fixture = new InboxFixture();
    await fixture.take(up('d-1'));
    expect(fixture.events.uplinks).toEqual([
      {
        organizationId: 'org-1',
        connectionId: 'connection-1',
        identity: { kind: 'id', uplinkId: 'd-1' },
        clientDeviceId: DEV_EUI,
        receivedAt: expect.any(Number) as number,
        time: TIME,
        timeSource: 'network',
        clock: 'chirpstack',
        isBuffered: false,
        isRetained: false,
        fCnt: 7,
        devAddr: '00189440',
        isDecodedByNetwork: true,
        deviceClass: 'A',
        payload: { kind: 'json', value: { object: { level: 21 }, rssi: -57, snr: 9.5, fCnt: 7, fPort: 1, dr: 5 } },
        fPort: 1,
      },
    ]);
  });

  it('shows the data in hexadecimal when there is no object', async () => {
    const fixture = new InboxFixture();
    await fixture.take(up('d-1', { object: undefined, data: Buffer.from('0aff', 'hex') }));
    expect(fixture.events.uplinks[0]?.payload).toMatchObject({ value: { data: '0aff' } });
  });

  it('marks buffered and retained messages as old', async () => {
    const fixture = new InboxFixture();
    await fixture.take(up('d-1'), { isBuffered: true });
    await fixture.take(up('d-2'), { retained: true });
    expect(fixture.events.uplinks.map(({ isBuffered, isRetained }) => [isBuffered, isRetained])).toEqual([
      [true, false],
      [true, true],
    ]);
  });

  it('reports statuses and locations as uplinks that are not evidence', async () => {
    const fixture = new InboxFixture();
    await fixture.take({
      kind: 'status',
      deduplicationId: 'd-1',
      time: TIME,
      deviceInfo: INFO,
      margin: 10,
      externalPowerSource: false,
      batteryLevelUnavailable: false,
      batteryLevel: 75.5,
    });
    await fixture.take({
      kind: 'location',
      deduplicationId: 'd-1',
      time: TIME,
      deviceInfo: INFO,
      latitude: 1.5,
      longitude: 2.5,
    });
    expect(
      fixture.events.uplinks.map(({ identity, isBuffered, payload }) => ({ identity, isBuffered, payload })),
    ).toEqual([
      {
        identity: { kind: 'id', uplinkId: 'status:d-1' },
        isBuffered: true,
        payload: { kind: 'json', value: { margin: 10, batteryLevel: 75.5 } },
      },
      {
        identity: { kind: 'id', uplinkId: 'location:d-1' },
        isBuffered: true,
        payload: { kind: 'json', value: { location: { latitude: 1.5, longitude: 2.5, altitude: 0 } } },
      },
    ]);
  });

  it('reports a txack with the frame whose receive window was used, for class A only', async () => {
    const fixture = new InboxFixture();
    await fixture.take(up('d-1'));
    await fixture.take(txAck());
    await fixture.take(txAck({ deviceInfo: { ...INFO, deviceClassEnabled: 'CLASS_C' } }));
    expect(fixture.events.evidences.map(({ evidence }) => evidence)).toMatchObject([
      { kind: 'transport_ok', time: TIME + 10, clock: 'chirpstack', fCnt: 7, devAddr: '00189440' },
      { kind: 'transport_ok' },
    ]);
    expect(fixture.events.evidences[1]?.evidence.fCnt).toBeUndefined();
    expect(fixture.events.evidences[0]).toMatchObject({ executionId: EXECUTION, source: 'chirpstack' });
  });

  it('does not return to an older frame that is repeated or late', async () => {
    const fixture = new InboxFixture();
    await fixture.take(up('d-2', { fCnt: 8, nsTime: TIME + 1000 }));
    await fixture.take(up('d-1', { fCnt: 7 }));
    await fixture.take(txAck());
    expect(fixture.events.evidences[0]?.evidence.fCnt).toBe(8);
  });

  it('forgets the frames after a join and draws no conclusion about the queue', async () => {
    const fixture = new InboxFixture();
    await fixture.take(up('d-1'));
    await fixture.take({ kind: 'join', deduplicationId: 'd-2', time: TIME, deviceInfo: INFO, devAddr: '00189440' });
    await fixture.take(txAck());
    expect(fixture.evidenceKinds).toEqual(['transport_ok E']);
    expect(fixture.events.evidences[0]?.evidence.fCnt).toBeUndefined();
    expect(fixture.log.of('chirpstack.joined')).toHaveLength(1);
  });

  it.each([
    ['DOWNLINK_PAYLOAD_SIZE', 'refused E'],
    ['F_CNT_DOWN', 'refused E'],
    ['EXPIRED', 'network_retry E'],
  ] as const)('reports a log event %s by its queue item', async (code, expected) => {
    const fixture = new InboxFixture();
    await fixture.take(log(code));
    await fixture.take(log(code, {}));
    expect(fixture.evidenceKinds).toEqual([expected]);
    expect(fixture.events.evidences[0]?.evidence).toMatchObject({ code: code.toLowerCase(), message: 'why' });
  });

  it('keeps messages storable and printable', async () => {
    const fixture = new InboxFixture();
    await fixture.take({ ...log('EXPIRED'), description: `a\u0000b\n\uD800${'x'.repeat(1000)}` } as Event);
    const { evidence } = fixture.events.evidences[0] ?? {};
    expect((evidence as { message: string }).message).toMatch(/^a b \uFFFDx{100,500}… \(\d+ more characters\)$/);
  });

  it('reports DOWNLINK_GATEWAY by its device, and writes other log events only to the log', async () => {
    const fixture = new InboxFixture();
    await fixture.take(log('DOWNLINK_GATEWAY', {}));
    await fixture.take(log('UPLINK_F_CNT_RESET'));
    expect(fixture.evidenceKinds).toEqual([`network_retry of ${DEV_EUI}`]);
    expect(fixture.log.of('chirpstack.log_event')).toHaveLength(2);
  });

  it('ignores downlinks of other clients', async () => {
    const fixture = new InboxFixture();
    await fixture.take(txAck({ queueItemId: '' }));
    await fixture.take(txAck({ queueItemId: 'not an id' }));
    expect(fixture.events.evidences).toEqual([]);
  });
});

/** Returns the evidence when ChirpStack reports an expired command after these events. */
async function getEvidenceAfterExpiry(
  happened: (fixture: InboxFixture) => Promise<void> | void,
  overrides: Partial<Event & { kind: 'log' }> = {},
): Promise<string[]> {
  const fixture = new InboxFixture();
  fixture.clock.advance(MINUTE); // The link has been up for a minute.
  await happened(fixture);
  fixture.clock.advance(MINUTE);
  const now = fixture.clock.now();
  fixture.events.evidences.splice(0);
  const frame = up('d-9', { fCnt: 9, nsTime: now, time: now }); // ChirpStack checks its queue at this frame.
  await Promise.all([
    fixture.take(frame, DELIVERY),
    fixture.take({ ...log('EXPIRED'), ...overrides } as Event, DELIVERY),
  ]);
  expect(fixture.events.evidences[0]?.evidence).toMatchObject({ code: 'expired', message: 'why' });
  return fixture.evidenceKinds;
}
/** Delivers a frame of the device. */
async function deliverFrame(fixture: InboxFixture): Promise<void> {
  await fixture.take(up('d-1', { nsTime: fixture.clock.now() }), DELIVERY);
}

describe('a command that expired in the queue', () => {
  it.each([
    ['no frame of the device arrived in that time', (fixture: InboxFixture): void => fixture.send()],
    ['it was unconfirmed', (fixture: InboxFixture): void => fixture.send({ confirmed: false })],
    [
      'the receive windows of the last frame had closed',
      async (fixture: InboxFixture): Promise<void> => (
        await deliverFrame(fixture),
        fixture.clock.advance(RECEIVE_WINDOW_MS),
        fixture.send()
      ),
    ],
    [
      'only statuses arrived',
      async (fixture: InboxFixture): Promise<void> => (
        fixture.send(),
        await fixture.take(
          {
            kind: 'status',
            deduplicationId: 'd-1',
            time: TIME,
            deviceInfo: INFO,
            margin: 10,
            externalPowerSource: false,
            batteryLevelUnavailable: false,
            batteryLevel: 1,
          },
          DELIVERY,
        )
      ),
    ],
  ])('did not reach the device when %s', async (_, happened) => {
    expect(await getEvidenceAfterExpiry(happened)).toEqual(['unreachable E']);
  });

  it.each([
    [
      'a frame of the device arrived in that time, because the txack may be lost',
      async (fixture: InboxFixture): Promise<void> => (fixture.send(), await deliverFrame(fixture)),
    ],
    [
      'a frame has no time of receipt',
      async (fixture: InboxFixture): Promise<void> => (
        fixture.send(),
        await fixture.takeRaw(
          `application/${APPLICATION}/device/${DEV_EUI}/event/up`,
          write(up('d-1'), 'json').toString().replaceAll('"nsTime"', '"other"'),
          DELIVERY,
        )
      ),
    ],
    [
      'a frame had arrived just before',
      async (fixture: InboxFixture): Promise<void> => (
        await deliverFrame(fixture),
        fixture.clock.advance(RECEIVE_WINDOW_MS - 1000),
        fixture.send()
      ),
    ],
    ['the link had just begun', (fixture: InboxFixture): void => (fixture.inbox.markConnected(), fixture.send())],
    ['the link was interrupted', (fixture: InboxFixture): void => (fixture.send(), fixture.inbox.markConnected())],
    [
      'a gateway had transmitted it',
      async (fixture: InboxFixture): Promise<void> => (fixture.send(), await fixture.take(txAck(), DELIVERY)),
    ],
    [
      'the device joined',
      async (fixture: InboxFixture): Promise<void> => (
        fixture.send(),
        await fixture.take(
          { kind: 'join', deduplicationId: 'd-2', time: TIME, deviceInfo: INFO, devAddr: '00189440' },
          DELIVERY,
        )
      ),
    ],
    [
      'events come with QoS 0',
      async (fixture: InboxFixture): Promise<void> => (fixture.send(), await fixture.take(log('UPLINK_F_CNT_RESET'))),
    ],
    ['this server has not sent it since it started', (): void => {}],
    [
      'another command was sent',
      (fixture: InboxFixture): void => fixture.send({ executionId: '01900000-0000-7000-8000-000000000002' }),
    ],
  ])('may have reached the device when %s', async (_, happened) => {
    expect(await getEvidenceAfterExpiry(happened)).toEqual(['network_retry E']);
  });

  it.each(['CLASS_B', 'CLASS_C'] as const)(
    'may have reached a device of %s, which listens without a frame',
    async (deviceClassEnabled) => {
      expect(
        await getEvidenceAfterExpiry((fixture) => fixture.send(), { deviceInfo: { ...INFO, deviceClassEnabled } }),
      ).toEqual(['network_retry E']);
    },
  );
});

describe('an uplink that may contain an acknowledgement', () => {
  it('waits for the acknowledgement event and is reported after it', async () => {
    const fixture = new InboxFixture();
    const order: string[] = [];
    fixture.events.onUplink = async () => (order.push('uplink'), { outcome: 'stored' });
    fixture.events.onEvidence = async () => (order.push('ack'), 'applied');
    await fixture.transmit();
    order.splice(0);
    await Promise.all([fixture.take(up('d-1')), fixture.take(ack('d-1'))]);
    expect(order).toEqual(['ack', 'uplink']);
    const [uplink, evidence] = [fixture.events.uplinks[0], fixture.events.evidences[0]?.evidence];
    expect(evidence).toMatchObject({ kind: 'ack', time: TIME - 1, clock: 'chirpstack', fCnt: 6 });
    expect(evidence?.receivedAt).toBeLessThan(uplink?.receivedAt ?? 0);
  });

  it('also waits for the event that reports a missing acknowledgement', async () => {
    const fixture = new InboxFixture();
    await fixture.transmit();
    await Promise.all([fixture.take(up('d-1')), fixture.take(ack('d-1', false))]);
    expect(fixture.events.evidences[0]?.evidence).toMatchObject({ kind: 'no_answer', code: 'no_ack', time: TIME - 1 });
  });

  it('waits no longer than the limit', async () => {
    const fixture = new InboxFixture(1);
    await fixture.transmit();
    await fixture.take(up('d-1'));
    expect(fixture.events.uplinks).toHaveLength(1);
    await fixture.take(ack('d-1'));
    expect(fixture.events.evidences[0]?.evidence).toMatchObject({ kind: 'ack', time: TIME - 1 });
  });

  it.each([
    ['the next uplink', up('d-2', { fCnt: 8, nsTime: TIME + 1000 })],
    ['a txack', txAck()],
  ])('stops waiting at %s, which would come after the acknowledgement event', async (_, later) => {
    const fixture = new InboxFixture();
    await fixture.transmit();
    const first = fixture.take(up('d-1'));
    fixture.inbox.forget(EXECUTION);
    await Promise.all([first, fixture.take(later)]);
    expect(fixture.events.uplinks[0]?.identity).toEqual({ kind: 'id', uplinkId: 'd-1' });
  });

  it.each([
    ['no command is open', async (): Promise<void> => {}],
    ['no gateway has transmitted the command yet', async (fixture: InboxFixture): Promise<void> => fixture.send()],
    [
      'the command is unconfirmed',
      async (fixture: InboxFixture): Promise<void> => (fixture.send({ confirmed: false }), await fixture.take(txAck())),
    ],
    [
      'the command ended',
      async (fixture: InboxFixture): Promise<void> => (await fixture.transmit(), fixture.inbox.forget(EXECUTION)),
    ],
    [
      'the command belongs to another device',
      async (fixture: InboxFixture): Promise<void> => await fixture.transmit(OTHER),
    ],
  ])('does not wait when %s', async (_, prepare) => {
    const fixture = new InboxFixture();
    await prepare(fixture);
    await fixture.take(up('d-1'));
    expect(fixture.events.uplinks).toHaveLength(1);
  });

  it('does not wait again when it is repeated or after its acknowledgement', async () => {
    const fixture = new InboxFixture();
    await fixture.transmit();
    await Promise.all([fixture.take(up('d-1')), fixture.take(ack('d-1'))]);
    await fixture.take(up('d-1'));
    await fixture.take(ack('d-1'));
    await fixture.take(up('d-2', { fCnt: 8 }));
    expect(fixture.events.uplinks).toHaveLength(3);
    expect(fixture.evidenceKinds).toEqual(['ack E', 'ack E']);
  });

  it('does not delay other devices', async () => {
    const fixture = new InboxFixture();
    await fixture.transmit();
    const held = fixture.take(up('d-1'));
    await fixture.take(up('d-2', { deviceInfo: { ...INFO, devEui: OTHER } }));
    expect(fixture.events.uplinks.map(({ clientDeviceId }) => clientDeviceId)).toEqual([OTHER]);
    await fixture.inbox.waitUntilIdle();
    await held;
    expect(fixture.events.uplinks).toHaveLength(2);
  });

  it('waits for only a few devices at once, so that the broker keeps delivering events of the others', async () => {
    const fixture = new InboxFixture();
    const devices = Array.from({ length: 9 }, (_, at) => `030303030303030${at}`);
    for (const [at, devEui] of devices.entries())
      await fixture.transmit(devEui, `01900000-0000-7000-8000-00000000001${at}`);
    const taken = devices.map(
      async (devEui) => await fixture.take(up(`d-${devEui}`, { deviceInfo: { ...INFO, devEui } })),
    );
    await taken[0];
    expect(fixture.events.uplinks.map(({ clientDeviceId }) => clientDeviceId)).toEqual([devices[0]]);
    await fixture.inbox.waitUntilIdle();
    await Promise.all(taken);
    expect(fixture.events.uplinks).toHaveLength(9);
  });

  it('does not affect an acknowledgement that arrives before its frame, or belongs to an unknown frame', async () => {
    const fixture = new InboxFixture();
    await fixture.transmit();
    await fixture.take(ack('d-1'));
    await fixture.take(up('d-1'));
    expect(fixture.events.evidences[0]?.evidence).toMatchObject({ kind: 'ack', time: TIME + 50 });
    expect(fixture.events.uplinks).toHaveLength(1);
  });
});

function deep(levels: number): object {
  return levels === 0 ? {} : { deeper: deep(levels - 1) };
}

describe('a message that is not an event of the application', () => {
  const TOPIC = `application/${APPLICATION}/device/${DEV_EUI}/event/`;

  it.each([
    [
      'other_application',
      `application/${APPLICATION}/device/${DEV_EUI}/event/up`,
      write(up('d-1', { deviceInfo: { ...INFO, applicationId: '00000000-0000-4000-8000-000000000000' } }), 'json'),
    ],
    [
      'other_topic',
      `application/00000000-0000-4000-8000-000000000000/device/${DEV_EUI}/event/up`,
      write(up('d-1'), 'json'),
    ],
    ['other_topic', `${TOPIC}up/more`, '{}'],
    ['other_event', `${TOPIC}integration`, '{}'],
  ])('is ignored: %s', async (why, topic, payload) => {
    const fixture = new InboxFixture();
    await fixture.takeRaw(topic, payload);
    expect(fixture.log.of('chirpstack.event_ignored')).toMatchObject([{ reason: why }]);
    expect(fixture.events.uplinks).toEqual([]);
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
  ])('is discarded permanently: %s', async (why, topic, payload) => {
    const fixture = new InboxFixture();
    await fixture.takeRaw(topic, payload);
    expect(fixture.rejections.map(({ reason }) => reason.split(':', 1))).toEqual([[why]]);
    expect(fixture.events.uplinks).toEqual([]);
  });
});

describe('an event that cannot be stored', () => {
  it('is retried until it is stored', async () => {
    const fixture = new InboxFixture();
    let tries = 0;
    fixture.events.onUplink = async () => {
      tries += 1;
      if (tries < 3) throw new DomainError('unavailable', 'database_unavailable', 'away');
      return { outcome: 'stored' };
    };
    await fixture.take(up('d-1'));
    expect(tries).toBe(3);
  });

  it('is counted when the handler rejects it permanently', async () => {
    const fixture = new InboxFixture();
    fixture.events.onUplink = async () => ({ outcome: 'rejected', reason: 'payload_too_deep' });
    await fixture.take(up('d-1'));
    expect(fixture.rejections).toMatchObject([{ clientDeviceId: DEV_EUI, reason: 'payload_too_deep' }]);
  });

  it('is discarded when no database accepts it, and later events are processed', async () => {
    const fixture = new InboxFixture();
    fixture.events.onEvidence = async () => await Promise.reject(new Error('invalid byte sequence'));
    await Promise.all([fixture.take(txAck()), fixture.take(up('d-1'))]);
    expect(fixture.events.evidences).toHaveLength(5);
    expect(fixture.events.uplinks).toHaveLength(1);
    expect(fixture.log.of('chirpstack.write_failed')).toHaveLength(1);
    expect(fixture.rejections).toMatchObject([
      { clientDeviceId: DEV_EUI, reason: expect.stringMatching(/^cannot_be_stored: /) as string },
    ]);
  });

  it('causes only occasional log lines while the database is unavailable', async () => {
    const fixture = new InboxFixture();
    let tries = 0;
    fixture.events.onUplink = async () => {
      tries += 1;
      if (tries <= 40) throw new DomainError('unavailable', 'database_unavailable', 'away');
      return { outcome: 'stored' };
    };
    await fixture.take(up('d-1'));
    expect(fixture.log.of('chirpstack.write_retry').map(({ failures }) => failures)).toEqual([1, 2, 4, 8, 16, 32]);
  });

  it('is discarded when the connection is deleted', async () => {
    const fixture = new InboxFixture();
    fixture.events.onUplink = async () => await Promise.reject(notFound('connection', 'connection-1'));
    await fixture.take(up('d-1'));
    expect(fixture.events.uplinks).toHaveLength(1);
  });

  it('is left for redelivery when it can no longer be acknowledged', async () => {
    const fixture = new InboxFixture();
    fixture.events.onUplink = async () =>
      await Promise.reject(new DomainError('unavailable', 'database_unavailable', 'away'));
    const over = new AbortController();
    const taking = fixture.take(up('d-1'), { signal: over.signal });
    taking.catch(() => {});
    await fixture.log.until('chirpstack.write_retry');
    over.abort();
    await expect(taking).rejects.toThrow(/abort/i);
  });
});

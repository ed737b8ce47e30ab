import { ChirpStackInbox } from '../../src/connections/connectors/chirpstack/chirpStackInbox';
import { JSON_CODEC } from '../../src/connections/connectors/chirpstack/chirpStackJson';
import { ChirpStackReader } from '../../src/connections/connectors/chirpstack/chirpStackReader';
import { ChirpStackTopics, DEFAULT_TOPICS } from '../../src/connections/connectors/chirpstack/chirpStackTopics';
import type { EventMessage } from '../../src/connections/connectors/chirpstack/eventMessage';
import { MonotonicTimestamps } from '../../src/connections/monotonicTimestamps';
import type { DataWarningCause } from '../../src/connections/dataWarning';
import type { Event } from '../support/chirpStack/events';
import { write } from '../support/chirpStack/wire';
import { MemoryLog } from '../support/edge';
import type { SentCommand } from '../../src/connections/connectors/chirpstack/inFlightCommand';
import { TestClock } from '../support/testClock';
import { FakeEvents } from './fakeEvents';

export const APPLICATION = '48f13ba9-7a3c-4d56-9e6d-0c6f2c1b7a11';
export const DEV_EUI = '0101010101010101';
export const OTHER = '0202020202020202';
export const EXECUTION = '01900000-0000-7000-8000-000000000001';
export const INFO = { applicationId: APPLICATION, devEui: DEV_EUI, deviceClassEnabled: 'CLASS_A' } as const;
export const TIME = new TestClock().now();
export const MINUTE = 60_000;
/** The metadata of a message with QoS 1. */
export const DELIVERY = { identity: { kind: 'delivery', slot: '1', digest: 'digest', isRepetition: false } } as const;

export function up(deduplicationId: string, overrides: Partial<Event & { kind: 'up' }> = {}): Event {
  return {
    kind: 'up',
    deduplicationId,
    time: TIME,
    nsTime: TIME,
    deviceInfo: INFO,
    fCnt: 7,
    fPort: 1,
    data: Buffer.from('01', 'hex'),
    object: { level: 21 },
    rssi: -57,
    snr: 9.5,
    ...overrides,
  };
}

export function ack(deduplicationId: string, acknowledged = true, queueItemId = EXECUTION): Event {
  return { kind: 'ack', deduplicationId, time: TIME + 50, deviceInfo: INFO, queueItemId, acknowledged, fCntDown: 1 };
}

export function txAck(overrides: Partial<Event & { kind: 'txack' }> = {}): Event {
  return { kind: 'txack', time: TIME + 10, deviceInfo: INFO, queueItemId: EXECUTION, fCntDown: 1, ...overrides };
}

export function log(
  code: (Event & { kind: 'log' })['code'],
  context: Record<string, string> = { queue_item_id: EXECUTION },
): Event {
  return { kind: 'log', time: TIME, deviceInfo: INFO, level: 'ERROR', code, description: 'why', context };
}

/** An inbox with a test clock and recorded events. */
export class InboxFixture {
  readonly log = new MemoryLog();
  readonly events = new FakeEvents();
  readonly rejections: DataWarningCause[] = [];
  readonly clock = new TestClock();
  private readonly arrivals = new MonotonicTimestamps(this.clock);
  readonly inbox: ChirpStackInbox;

  /** By default uplinks are held for hours, until an event releases them. */
  constructor(ackWaitMs = 3_600_000) {
    const topics = new ChirpStackTopics(DEFAULT_TOPICS.eventTopic, DEFAULT_TOPICS.commandTopic, APPLICATION);
    const reader = new ChirpStackReader(topics, JSON_CODEC, APPLICATION);
    this.inbox = new ChirpStackInbox({
      organizationId: 'org-1',
      connectionId: 'connection-1',
      reader,
      events: this.events,
      clock: this.clock,
      log: this.log,
      dataWarnings: { report: (_code, cause) => this.rejections.push(cause) },
      onStalled: () => {},
      ackWaitMs,
      retryMs: 1,
    });
  }

  async take(event: Event, overrides: Partial<EventMessage> = {}): Promise<void> {
    await this.takeRaw(
      `application/${event.deviceInfo.applicationId}/device/${event.deviceInfo.devEui}/event/${event.kind}`,
      write(event, 'json'),
      overrides,
    );
  }

  async takeRaw(topic: string, payload: Buffer | string, overrides: Partial<EventMessage> = {}): Promise<void> {
    await this.inbox.handleMessage({
      topic,
      payload: Buffer.from(payload),
      retained: false,
      isBuffered: false,
      receivedAt: this.arrivals.nextArrivalTime(),
      identity: { kind: 'none' },
      signal: new AbortController().signal,
      ...overrides,
    });
  }

  /** Sends a command that expires after a minute. */
  send(overrides: Partial<SentCommand> = {}): void {
    this.inbox.trackCommand({
      clientDeviceId: DEV_EUI,
      executionId: EXECUTION,
      confirmed: true,
      deadline: this.clock.now() + MINUTE,
      ...overrides,
    });
  }

  /** Sends a confirmed command that a gateway then transmits. */
  async transmit(devEui = DEV_EUI, executionId = EXECUTION): Promise<void> {
    this.send({ clientDeviceId: devEui, executionId });
    await this.take(txAck({ deviceInfo: { ...INFO, devEui }, queueItemId: executionId }));
    this.events.evidences.splice(0);
  }

  /** The kinds of the reported evidence, ordered by timestamp. */
  get evidenceKinds(): string[] {
    return this.events.evidences.map(
      ({ executionId, evidence }) => `${evidence.kind} ${executionId === EXECUTION ? 'E' : executionId}`,
    );
  }
}

import type { ConnectionCheck } from '../../connector';
import type { JsonObject } from '../../connectorType';
import { getBrokerSettings } from '../broker/brokerConfiguration';
import type { Incoming } from '../broker/mqttClientAdapter';
import { testBroker, type TestListener } from '../broker/brokerTest';
import type { ChirpStackCodec, EventKind } from './chirpStackEvent';
import { MAX_EVENT_BYTES } from './chirpStackReader';
import { getChirpStackSettings, type ChirpStackSettings } from './chirpStackSettings';
import { isEventKind } from './chirpStackTopics';

const DEFAULT_LISTEN_MS = 3000;

/** The options of a test, in addition to the settings. */
interface ChirpStackTestOptions {
  readonly signal: AbortSignal;
  /** The QoS of the last event on the running connection; undefined if none has arrived. */
  readonly lastQos: number | undefined;
  /** How long to listen for an event, milliseconds; default 3 s. */
  readonly listenMs?: number | undefined;
}

/** Tests the broker, listens for one event, and reports how ChirpStack encodes and publishes events. */
export async function testChirpStack(
  configuration: JsonObject,
  options: ChirpStackTestOptions,
): Promise<ConnectionCheck[]> {
  const { signal, lastQos, listenMs = DEFAULT_LISTEN_MS } = options;
  const listener = new EventListener(configuration, listenMs);
  const filters = [listener.settings.topics.filter];
  const checks = await testBroker(getBrokerSettings(configuration, ''), { filters, signal, listener });
  const subscribeOutcome = checks.find(({ name }) => name === 'subscribe')?.outcome;
  // A broker that grants only QoS 0 hides the QoS that ChirpStack publishes with.
  const qos = (subscribeOutcome === 'ok' ? listener.qos : undefined) ?? lastQos;
  const hasListened = subscribeOutcome === 'ok' || subscribeOutcome === 'warning';
  return [
    ...checks,
    hasListened ? listener.checkEncoding() : createEncodingCheck('skipped', 'skipped: an earlier check failed'),
    checkIntegration(qos),
  ];
}

/** Determines the encoding in which the events of the application arrive. */
class EventListener implements TestListener {
  readonly settings: ChirpStackSettings;
  /** The QoS of the last event; undefined if none has arrived. */
  qos: number | undefined;
  private readonly otherCodec: ChirpStackCodec;
  private readonly encoding: 'json' | 'protobuf';
  private readonly otherEncoding: 'json' | 'protobuf';
  private foundEncoding: 'configured' | 'other' | 'neither' | undefined;

  constructor(
    configuration: JsonObject,
    readonly listenMs: number,
  ) {
    this.encoding = configuration['encoding'] === 'protobuf' ? 'protobuf' : 'json';
    this.otherEncoding = this.encoding === 'json' ? 'protobuf' : 'json';
    this.settings = getChirpStackSettings(configuration);
    this.otherCodec = getChirpStackSettings({ ...configuration, encoding: this.otherEncoding }).codec;
  }

  /**
   * Records the encoding and the QoS of an event. Returns true if the event can be decoded in one of the encodings,
   * which ends the test. Retained messages are ignored, because they say nothing about the current settings of
   * ChirpStack.
   */
  examine({ packet: { topic, payload, retain }, messageId }: Incoming): boolean {
    const event = this.settings.topics.readEvent(topic)?.event;
    if (retain || payload.length > MAX_EVENT_BYTES || event === undefined || !isEventKind(event)) return false;
    const bytes = Buffer.from(payload);
    this.qos = messageId === undefined ? 0 : 1; // only QoS 1 messages have a packet id
    if (canDecode(this.settings.codec, event, bytes)) this.foundEncoding = 'configured';
    else this.foundEncoding = canDecode(this.otherCodec, event, bytes) ? 'other' : 'neither';
    return this.foundEncoding !== 'neither';
  }

  /** Reports whether the encoding of the connection is that of the events. */
  checkEncoding(): ConnectionCheck {
    const { encoding, otherEncoding, listenMs } = this;
    if (this.foundEncoding === 'configured') return createEncodingCheck('ok', `events arrive as ${encoding}`);
    if (this.foundEncoding === 'other')
      return createEncodingCheck(
        'failed',
        `events arrive as ${otherEncoding}, but the connection says ${encoding}: set encoding to ${otherEncoding}`,
      );
    if (this.foundEncoding === 'neither')
      return createEncodingCheck(
        'warning',
        'a message on the event topic is not a ChirpStack v4 event, neither as json nor as protobuf: allow only ChirpStack v4 to publish there',
      );
    return createEncodingCheck(
      'skipped',
      `no event arrived within ${listenMs / 1000} s: test again while devices send`,
    );
  }
}

function createEncodingCheck(outcome: ConnectionCheck['outcome'], message: string): ConnectionCheck {
  return { name: 'encoding', outcome, message };
}

/** Returns whether an event can be decoded in this encoding. */
function canDecode(codec: ChirpStackCodec, event: EventKind, bytes: Buffer): boolean {
  try {
    codec.decode(event, bytes);
    return true;
  } catch {
    return false;
  }
}

/** Reports how the integration publishes, which is only visible in its events. */
function checkIntegration(qos: number | undefined): ConnectionCheck {
  const name = 'integration';
  if (qos === 0)
    return {
      name,
      outcome: 'warning',
      message:
        'events arrive with QoS 0, so events that are published while this server is disconnected are lost; set `qos=1` in the MQTT integration of ChirpStack',
    };
  if (qos === undefined)
    return {
      name,
      outcome: 'warning',
      message:
        'the QoS of ChirpStack is unknown until an event arrives; check that its MQTT integration contains `qos=1`, because the default is 0',
    };
  return { name, outcome: 'ok', message: 'events arrive with QoS 1' };
}

import type { IPublishPacket } from 'mqtt-packet';
import type { Clock } from '../../../kernel/clock';
import type { BacklogDetector } from './backlogDetector';
import type { MqttClientAdapter } from './mqttClientAdapter';
import type { MessageBarrier } from './messageBarrier';

/** The maximum subscription identifier; the minimum is 1. */
const MAX_SUBSCRIPTION_ID = 268_435_455;
const MAX_WAIT_MS = 60_000;

/** The options of BufferedMessageDetector. */
interface BufferedMessageDetectorOptions {
  readonly adapter: MqttClientAdapter;
  readonly subscriptionId: number | undefined;
  readonly barrier: MessageBarrier;
  readonly backlogDetector: BacklogDetector;
  /** Whether this broker returned a barrier message on an earlier connection. */
  readonly isBarrierSupported: boolean;
  readonly clock: Clock;
  /** Called when the broker announces subscription identifiers but does not send them. */
  readonly onMissingIds: () => void;
}

/**
 * Determines which messages were buffered at the broker while this server was disconnected. With MQTT 5, buffered
 * messages match an older subscription, because each network connection subscribes with a new identifier. Without
 * identifiers, a barrier message decides, which this server sends to itself through the broker when it has connected:
 * messages that arrive before it were buffered. If it is unknown whether the broker allows barrier messages, messages
 * count as buffered until a minute without a backlog (messages that wait at the broker) has passed.
 */
export class BufferedMessageDetector {
  /** The start of the current wait for the barrier message, or for the end of the backlog, on the monotonic clock. */
  private waitStartedAt: number;
  /** Whether a barrier message returned without an identifier: no message after it was buffered. */
  private isBarrierPassed = false;
  private isBarrierSent = false;
  private isSubscribed = false;
  /** Whether the broker sent a subscription identifier with a barrier message, as it announced. */
  private areIdsConfirmed = false;

  constructor(private readonly options: BufferedMessageDetectorOptions) {
    this.waitStartedAt = options.clock.monotonic();
  }

  /** Sends the barrier message if one is needed. Call it when the subscriptions are active. */
  startDetection(): void {
    this.isSubscribed = true;
    this.waitStartedAt = this.options.clock.monotonic();
    const { adapter, subscriptionId } = this.options;
    if (adapter.isSessionPresent && subscriptionId === undefined) this.sendBarrier();
  }

  /** Returns whether the message was buffered at the broker. */
  isBuffered({ properties }: IPublishPacket): boolean {
    const { adapter, subscriptionId } = this.options;
    if (!adapter.isSessionPresent || this.isBarrierPassed) return false;
    if (subscriptionId === undefined) return this.isBeforeBarrier();
    const matchedIds = [properties?.subscriptionIdentifier].flat().filter((id) => id !== undefined);
    if (matchedIds.includes(subscriptionId)) return false;
    // A message that only matched older subscriptions was buffered before this connection subscribed.
    return matchedIds.length > 0 || this.isBufferedWithoutId();
  }

  /** Decides about a message without a subscription identifier from a broker that announced identifiers. */
  private isBufferedWithoutId(): boolean {
    if (this.areIdsConfirmed) return true;
    // The message matches a subscription of an older MQTT version, or the broker omits the identifiers.
    if (this.isSubscribed && !this.isBarrierSent) this.sendBarrier();
    return !this.isBarrierSent || this.isBeforeBarrier();
  }

  /**
   * Returns whether the barrier message may still arrive, so that the current message may have been buffered. After a
   * minute without it, on a connection that was idle for a minute too, the wait ends, or another barrier message is
   * sent.
   */
  private isBeforeBarrier(): boolean {
    if (!this.isSubscribed) return true; // the SUBACK comes after all buffered messages
    const { barrier, backlogDetector, clock, isBarrierSupported } = this.options;
    const waitedMs = clock.monotonic() - this.waitStartedAt;
    if (waitedMs < MAX_WAIT_MS || backlogDetector.idleMs < MAX_WAIT_MS) return true;
    if (!isBarrierSupported || barrier.isRejected) return false;
    this.sendBarrier(); // a broker with a full queue may have dropped the previous barrier message
    return true;
  }

  /** Sends a barrier message and restarts the wait for it. */
  private sendBarrier(): void {
    this.isBarrierSent = true;
    this.waitStartedAt = this.options.clock.monotonic();
    void this.awaitBarrier();
  }

  /** Waits for the barrier message. Its subscription identifier shows whether the broker sends identifiers at all. */
  private async awaitBarrier(): Promise<void> {
    const { barrier, subscriptionId, onMissingIds } = this.options;
    const packet = await barrier.send();
    if (!packet) return;
    this.areIdsConfirmed = packet.properties?.subscriptionIdentifier !== undefined;
    if (this.areIdsConfirmed) return;
    this.isBarrierPassed = true;
    if (subscriptionId !== undefined) onMissingIds();
  }
}

/** The last number that an identifier was derived from; global, so that no two connections use the same one. */
let lastSubscriptionId = 0;

/**
 * Creates an identifier that was not used in the last 310 days, even across restarts; later they repeat. `now`: Unix
 * milliseconds.
 */
export function createSubscriptionId(now: number): number {
  const tenthsOfASecond = Math.floor(now / 100); // 2^28 of them are 310 days
  lastSubscriptionId = Math.max(tenthsOfASecond, lastSubscriptionId + 1);
  return (lastSubscriptionId % MAX_SUBSCRIPTION_ID) + 1;
}

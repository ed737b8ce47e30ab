import type { IPublishPacket } from 'mqtt-packet';
import type { Clock } from '../../../kernel/clock';
import type { Backlog } from './backlog';
import type { BrokerConnection } from './brokerConnection';
import type { Fence } from './fence';

/** Subscription identifiers are 1 to this. */
const LARGEST_ID = 268_435_455;
const LONGEST_WAIT = 60_000;

/** What the end of waiting is told by. */
export interface WaitedMessagesOptions {
  readonly connection: BrokerConnection;
  readonly subscriptionId: number | undefined;
  readonly fence: Fence;
  readonly backlog: Backlog;
  /** Whether a fence came back from this broker on an earlier connection. */
  readonly isFenceProven: boolean;
  readonly clock: Clock;
  /** The broker says that it tells by which subscription a message came, and does not. */
  readonly onMissingIds: () => void;
}

/**
 * Which messages waited at the broker while we were away: with MQTT 5 they came by an older subscription, and each connection
 * subscribes with an identifier of its own. Else a fence decides: what comes before it waited. Where nobody knows whether the broker
 * allows it, a minute without a backlog must do.
 */
export class WaitedMessages {
  private since: number;
  private isBehindFence = false;
  private isRaised = false;
  private isSubscribed = false;
  private areIdsProven = false;

  constructor(private readonly options: WaitedMessagesOptions) {
    this.since = options.clock.monotonic();
  }

  /** Sets the fence, where one is needed. Call it when the subscriptions stand. */
  begin(): void {
    this.isSubscribed = true;
    const { connection, subscriptionId } = this.options;
    if (connection.isSessionPresent && subscriptionId === undefined) this.raise();
  }

  /** Whether it waited at the broker. */
  hasWaited({ properties }: IPublishPacket): boolean {
    const { connection, subscriptionId } = this.options;
    if (!connection.isSessionPresent || this.isBehindFence) return false;
    if (subscriptionId === undefined) return this.isBeforeFence();
    const ids = [properties?.subscriptionIdentifier].flat();
    return !ids.includes(subscriptionId) && (ids[0] !== undefined || this.hasWaitedWithoutId());
  }

  private hasWaitedWithoutId(): boolean {
    if (this.areIdsProven) return true;
    // By a subscription of an older version of MQTT, or the broker leaves them out.
    if (this.isSubscribed && !this.isRaised) this.raise();
    return !this.isRaised || this.isBeforeFence();
  }

  private isBeforeFence(): boolean {
    const { fence, backlog, clock, isFenceProven } = this.options;
    if (Math.min(clock.monotonic() - this.since, backlog.calmMs) < LONGEST_WAIT) return true;
    if (!isFenceProven || fence.isRefused) return false;
    this.raise(); // a broker whose queue is full drops it
    return true;
  }

  private raise(): void {
    this.isRaised = true;
    this.since = this.options.clock.monotonic();
    void this.pass();
  }

  private async pass(): Promise<void> {
    const { fence, subscriptionId, onMissingIds } = this.options;
    const packet = await fence.raise();
    if (!packet) return;
    this.areIdsProven = packet.properties?.subscriptionIdentifier !== undefined;
    if (this.areIdsProven) return;
    this.isBehindFence = true;
    if (subscriptionId !== undefined) onMissingIds();
  }
}

let lastId = 0;

/** Another one than any of the last 310 days, also after a restart; then they return. */
export function freshSubscriptionId(now: number): number {
  lastId = Math.max(Math.floor(now / 100), lastId + 1);
  return (lastId % LARGEST_ID) + 1;
}

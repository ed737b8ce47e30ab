import { randomUUID } from 'node:crypto';
import type { IPublishPacket } from 'mqtt-packet';
import type { Clock } from '../../../kernel/clock';
import type { BrokerConnection } from './brokerConnection';

/** Subscription identifiers are 1 to this. */
const LARGEST_ID = 268_435_455;
const LONGEST_WAIT = 60_000;

/**
 * Which messages waited at the broker while we were away: with MQTT 5 they came by an older subscription, and each connection
 * subscribes with an identifier of its own. Else we publish to a topic of our own, and what comes before that message waited; if it
 * never comes back (the broker does not allow it), a minute must do.
 */
export class WaitedMessages {
  /** What to subscribe with; undefined where the broker cannot tell. */
  readonly subscriptionId: number | undefined;
  private readonly since: number;
  private readonly mark = randomUUID();
  private isBehindFence = false;

  constructor(
    private readonly connection: BrokerConnection,
    private readonly clientId: string,
    private readonly clock: Clock,
  ) {
    this.since = clock.monotonic();
    this.subscriptionId = connection.hasSubscriptionIds ? freshId(clock.now()) : undefined;
  }

  /** Sets the fence, where one is needed. Call it when the subscriptions stand. */
  async begin(): Promise<void> {
    if (this.subscriptionId !== undefined || !this.connection.isSessionPresent) return;
    try {
      await this.connection.subscribe([this.fence], undefined);
      this.connection.publish({ topic: this.fence, payload: Buffer.from(this.mark) }, () => {});
    } catch {
      // The broker does not allow it, so the minute decides; if the connection is over, its end says so.
    }
  }

  /** Whether it is the fence itself, which is nobody's message. */
  isFence({ topic, payload }: IPublishPacket): boolean {
    if (topic !== this.fence) return false;
    this.isBehindFence ||= payload.toString() === this.mark;
    return true;
  }

  /** Whether it waited at the broker. */
  hasWaited({ properties }: IPublishPacket): boolean {
    if (!this.connection.isSessionPresent) return false;
    if (this.subscriptionId !== undefined) return ![properties?.subscriptionIdentifier].flat().includes(this.subscriptionId);
    return !this.isBehindFence && this.clock.monotonic() - this.since < LONGEST_WAIT;
  }

  private get fence(): string {
    return `plantroom/${this.clientId}/fence`;
  }
}

let lastId = 0;

/** Another one than any of the last years, also after a restart. */
function freshId(now: number): number {
  lastId = Math.max(Math.floor(now / 100), lastId + 1);
  return (lastId % LARGEST_ID) + 1;
}

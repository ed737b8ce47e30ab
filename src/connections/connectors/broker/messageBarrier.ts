import { randomUUID } from 'node:crypto';
import type { IPublishPacket } from 'mqtt-packet';
import type { MqttClientAdapter } from './mqttClientAdapter';

/**
 * Sends messages to this server itself through the broker: when such a barrier message returns, all messages that were
 * at the broker before it have arrived. It subscribes to the topic on first use. Some brokers silently drop the message
 * if the user of the connection has no permission for the topic.
 */
export class MessageBarrier {
  /** Whether a barrier message has ever returned. */
  hasReturned = false;
  /** Whether the broker rejected the subscription or the message. */
  isRejected = false;
  private readonly topic: string;
  /** Ends the wait for each barrier message that has not returned, by its token, which is its payload. */
  private readonly resolveByToken = new Map<string, (packet: IPublishPacket | undefined) => void>();
  private subscribing: Promise<unknown> | undefined;

  /** `subscriptionId`: the subscription identifier to use, if the broker supports those. */
  constructor(
    private readonly adapter: MqttClientAdapter,
    clientId: string,
    private readonly subscriptionId: number | undefined,
  ) {
    this.topic = `plantroom/${clientId.replace(/[+#/]/g, '_')}/fence`;
  }

  /**
   * Sends a barrier message. Resolves with the returned packet, or with undefined if it could not be sent; stays
   * pending if the broker drops it, or the connection is closed first.
   */
  async send(): Promise<IPublishPacket | undefined> {
    try {
      await (this.subscribing ??= this.adapter.subscribe([this.topic], this.subscriptionId));
    } catch {
      this.isRejected = true; // if the connection is closed, the adapter reports the reason
      return undefined;
    }
    const token = randomUUID();
    return await new Promise((resolve) => {
      this.resolveByToken.set(token, resolve);
      const isSent = this.adapter.publish({ topic: this.topic, payload: Buffer.from(token) }, ({ kind }) => {
        if (kind !== 'refused') return; // it returns, unless the broker drops it
        this.isRejected = true;
        this.resolveBarrier(token, undefined);
      });
      if (!isSent) this.resolveBarrier(token, undefined);
    });
  }

  /**
   * Returns whether the packet is a barrier message, of this connection or of an earlier one, and processes it. Such a
   * packet has no other recipient.
   */
  handleIfBarrier(packet: IPublishPacket): boolean {
    if (packet.topic !== this.topic) return false;
    this.resolveBarrier(packet.payload.toString(), packet);
    return true;
  }

  /** Ends the wait for the barrier message with this token. `packet`: the returned message; undefined if not sent. */
  private resolveBarrier(token: string, packet: IPublishPacket | undefined): void {
    const resolve = this.resolveByToken.get(token);
    if (!resolve) return;
    this.resolveByToken.delete(token);
    this.hasReturned ||= packet !== undefined;
    resolve(packet);
  }
}

import { randomUUID } from 'node:crypto';
import type { IPublishPacket } from 'mqtt-packet';
import type { BrokerConnection } from './brokerConnection';

/**
 * A message to ourselves over the broker: what comes before it was at the broker before it. Its topic is subscribed to when it is first
 * needed. Some brokers drop it and do not say so, if the user of the connection has no right to the topic.
 */
export class Fence {
  /** Whether one has come back. */
  isProven = false;
  /** Whether the broker said that it does not allow it. */
  isRefused = false;
  private readonly topic: string;
  private readonly marks = new Map<string, (packet: IPublishPacket | undefined) => void>();
  private subscribed: Promise<unknown> | undefined;

  /** `subscriptionId`: what to subscribe with, where the broker knows that. */
  constructor(
    private readonly connection: BrokerConnection,
    clientId: string,
    private readonly subscriptionId: number | undefined,
  ) {
    this.topic = `plantroom/${clientId.replace(/[+#/]/g, '_')}/fence`;
  }

  /** Sends one. Resolves with what came back, or with undefined if it could not be sent; never if the broker drops it, or the connection ends before. */
  async raise(): Promise<IPublishPacket | undefined> {
    try {
      await (this.subscribed ??= this.connection.subscribe([this.topic], this.subscriptionId));
    } catch {
      this.isRefused = true; // if the connection is over, its end says so
      return undefined;
    }
    const mark = randomUUID();
    return await new Promise((resolve) => {
      this.marks.set(mark, resolve);
      const isSent = this.connection.publish({ topic: this.topic, payload: Buffer.from(mark) }, ({ kind }) => {
        if (kind !== 'refused') return;
        this.isRefused = true;
        this.settle(mark, undefined);
      });
      if (!isSent) this.settle(mark, undefined);
    });
  }

  /** Whether it is one, of this connection or of an older one: nobody's message. */
  take(packet: IPublishPacket): boolean {
    if (packet.topic !== this.topic) return false;
    this.settle(packet.payload.toString(), packet);
    return true;
  }

  private settle(mark: string, packet: IPublishPacket | undefined): void {
    const resolve = this.marks.get(mark);
    if (!resolve) return;
    this.marks.delete(mark);
    this.isProven ||= packet !== undefined;
    resolve(packet);
  }
}

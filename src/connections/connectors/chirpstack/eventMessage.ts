import type { UplinkIdentity } from '../../connector';

/** A message from the broker. */
export interface EventMessage {
  readonly topic: string;
  readonly payload: Buffer;
  readonly retained: boolean;
  readonly isBuffered: boolean;
  readonly receivedAt: number;
  readonly identity: UplinkIdentity;
  /** See BrokerMessage. */
  readonly signal: AbortSignal;
}

/** The part of a message that its jobs need. `topic` and `payload` are undefined for a job without a message. */
export type Delivery = Pick<EventMessage, 'signal'> & Partial<Pick<EventMessage, 'topic' | 'payload'>>;

import type { UplinkIdentity } from '../../connector';

/** A message that came from the broker. */
export interface BrokerMessage {
  readonly topic: string;
  readonly payload: Buffer;
  readonly qos: 0 | 1 | 2;
  /** The broker had kept it for new subscribers: never news. */
  readonly retained: boolean;
  /** It waited at the broker while we were away, nobody knows how long. */
  readonly isBuffered: boolean;
  /** A stamp of Arrivals. */
  readonly receivedAt: number;
  readonly identity: UplinkIdentity;
  readonly correlationData: Buffer | undefined;
  /** Aborts when the network connection that brought it is over: nobody can acknowledge it any more, and with QoS 1 it comes again. */
  readonly signal: AbortSignal;
}

/** A message that is to be published with QoS 1, never retained. */
export interface BrokerPublication {
  readonly topic: string;
  readonly payload: Buffer;
  /** Unix milliseconds; less than a second before it, it is not sent any more, and with MQTT 5 the broker drops it then. */
  readonly deadline: number;
  /** MQTT 5 only. */
  readonly responseTopic?: string | undefined;
  /** MQTT 5 only. */
  readonly correlationData?: Buffer | undefined;
}

/** One network connection on which we are signed in and subscribed. */
export interface BrokerSession {
  /** Counts those of this server, over all links. */
  readonly number: number;
  /** False: 3.1.1, which knows no expiry and no reasons. */
  readonly isMqtt5: boolean;
  /** The broker grants some of the filters only with QoS 0: what comes while we are away, or as we are cut off, is lost. */
  readonly isAtMostOnce: boolean;
}

/** What a link tells. `up`, `ready` and `down` come one after another, never two at once. */
export interface BrokerHandlers {
  /**
   * A message came; called in order and not one after another. It is acknowledged when that resolves. Whoever cannot store it tries again
   * inside until `signal` aborts, and rejects then. None comes before `up` has resolved.
   */
  message(message: BrokerMessage): Promise<void>;
  /** There is a session; nothing can be published before this has resolved. If it rejects, the session is ended and another one is tried later. */
  up(session: BrokerSession): Promise<void>;
  /** From now on `publish` works. */
  ready(): void;
  /** The session is over, or none came about; `up` is not called again before this has resolved. `error` is empty if the link was stopped. */
  down(error: string, isFatal: boolean, code: string): Promise<void>;
}

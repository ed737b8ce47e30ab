import type { UplinkIdentity } from '../../connector';

/** A message from the broker. */
export interface BrokerMessage {
  readonly topic: string;
  readonly payload: Buffer;
  readonly qos: 0 | 1 | 2;
  /** The broker stored it for new subscribers, so it is not a new message. */
  readonly retained: boolean;
  /** It was buffered at the broker for an unknown time while this server was disconnected. */
  readonly isBuffered: boolean;
  /** The arrival time, from MonotonicTimestamps. */
  readonly receivedAt: number;
  readonly identity: UplinkIdentity;
  readonly correlationData: Buffer | undefined;
  /**
   * Aborts when the network connection of the message is closed, and with QoS 1 already when the connection is stopped:
   * unless it is being stored, it is not acknowledged, and the broker sends it again.
   */
  readonly signal: AbortSignal;
}

/** A command to publish, never retained. */
export interface BrokerPublication {
  readonly topic: string;
  readonly payload: Buffer;
  /**
   * Unix milliseconds. The message is not sent later than one second before it; with MQTT 5 the broker discards it at
   * the deadline.
   */
  readonly deadline: number;
  /** MQTT 5 only. */
  readonly responseTopic?: string | undefined;
  /** MQTT 5 only. */
  readonly correlationData?: Buffer | undefined;
}

/** A network connection on which the broker accepted this server. */
export interface BrokerSession {
  /** A number that is unique over all broker connections of this server process. */
  readonly number: number;
  /** False: 3.1.1, which has no message expiry and no reason codes. */
  readonly isMqtt5: boolean;
}

/** A session with active subscriptions. */
export interface SubscribedSession extends BrokerSession {
  /**
   * What the broker limits, as warning codes of the status. `subscribed_at_most_once`: it grants some filters only with
   * QoS 0, so messages that arrive while this server is disconnected, or as the connection is lost, are lost.
   * `session_expiry_shortened`: it stores messages for less time than the connection asks for. `qos_not_supported`: it
   * accepts only QoS 0, so commands are rejected.
   */
  readonly warnings: readonly string[];
}

/** The event handlers of MqttConnectionManager. `onUp`, `onReady` and `onDown` are never called concurrently. */
export interface BrokerHandlers {
  /**
   * Called for each message, in order and concurrently. The message is acknowledged when this resolves. A handler that
   * cannot store it retries until `signal` aborts, and then rejects. Not called before `onUp` has resolved.
   */
  onMessage(message: BrokerMessage): Promise<void>;
  /**
   * Called when the broker has accepted us, and has sent a message of a stored session or acknowledged the
   * subscription. Nothing can be published before `onReady`. If it rejects, the session is closed and another one is
   * tried later.
   */
  onUp(session: BrokerSession): Promise<void>;
  /** Called when the subscriptions are active: from now on `publish` works. */
  onReady(): void;
  /**
   * Called when the session is closed, or an attempt failed; `onUp` is not called again before this has resolved.
   * `error` is empty if the connection was stopped.
   */
  onDown(error: string, isFatal: boolean, code: string): Promise<void>;
}

import type { Clock } from '../../../kernel/clock';
import { BacklogDetector } from './backlogDetector';
import type { BrokerSession } from './brokerTraffic';
import { BufferedMessageDetector, createSubscriptionId } from './bufferedMessageDetector';
import { MessageBarrier } from './messageBarrier';
import type { MqttClientAdapter } from './mqttClientAdapter';
import { SessionSetup } from './sessionSetup';

/** The state that is needed to process the messages of one network connection. */
export interface InboundState {
  readonly session: BrokerSession;
  /** Calls the `onUp` handler before the first message, or when the subscriptions are active. */
  readonly setup: SessionSetup;
  /** The subscription identifier; undefined if the broker cannot report which subscription a message matched. */
  readonly subscriptionId: number | undefined;
  /** Sends messages to this server itself, to detect when all earlier messages at the broker have arrived. */
  readonly barrier: MessageBarrier;
  /** Detects whether the broker holds messages back until earlier ones are acknowledged. */
  readonly backlogDetector: BacklogDetector;
  /** Detects which messages were buffered at the broker while this server was disconnected. */
  readonly bufferedMessageDetector: BufferedMessageDetector;
  /** When the first message arrived or the broker accepted the connection, from MonotonicTimestamps. */
  readonly startedAt: number;
  /**
   * Acknowledgements that were sent before this time certainly reached the broker, from MonotonicTimestamps; 0 if
   * unknown.
   */
  readonly acknowledgedBefore: number;
}

/** What createInboundState needs. */
interface InboundStateOptions {
  readonly adapter: MqttClientAdapter;
  readonly session: BrokerSession;
  /** The client id of this server at the broker. */
  readonly clientId: string;
  /** Whether this broker returned a barrier message on an earlier connection. */
  readonly isBarrierSupported: boolean;
  readonly startedAt: number;
  readonly acknowledgedBefore: number;
  readonly clock: Clock;
  /** Called when the broker announces subscription identifiers but does not send them. */
  readonly onMissingIds: () => void;
  /** Work that must be done before the first message is processed. */
  readonly setUp: () => Promise<void>;
}

/**
 * Creates the state for the messages of a new network connection. The barrier and the two detectors share one
 * subscription identifier, which is undefined if the broker does not support those.
 */
export function createInboundState(options: InboundStateOptions): InboundState {
  const { adapter, session, clientId, isBarrierSupported, clock, onMissingIds, setUp } = options;
  const subscriptionId = adapter.capabilities.hasSubscriptionIds ? createSubscriptionId(clock.now()) : undefined;
  const barrier = new MessageBarrier(adapter, clientId, subscriptionId);
  const backlogDetector = new BacklogDetector(barrier, clock, adapter.signal);
  return {
    session,
    setup: new SessionSetup(setUp),
    subscriptionId,
    barrier,
    backlogDetector,
    bufferedMessageDetector: new BufferedMessageDetector({
      adapter,
      subscriptionId,
      barrier,
      backlogDetector,
      isBarrierSupported,
      clock,
      onMissingIds,
    }),
    startedAt: options.startedAt,
    acknowledgedBefore: options.acknowledgedBefore,
  };
}

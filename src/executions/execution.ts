import type { VerificationStrategy } from '../commands';
import type { ConnectorKind } from '../connections';
import type { Violation } from '../kernel/errors';
import type { JsonObject, JsonValue } from '../kernel/jsonValue';
import type { ValueType } from '../sensorTemplates';

/** The states of an execution; docs/executions.md describes what each one means. */
export const EXECUTION_STATES = [
  'enqueued',
  'in_transit',
  'delivered',
  'accepted',
  'converged',
  'accepted_no_l4',
  'unconfirmed',
  'protocol_rejected',
  'transport_unreachable',
  'transport_rejected',
  'request_rejected',
] as const;

/** One of EXECUTION_STATES. */
export type ExecutionState = (typeof EXECUTION_STATES)[number];

/** The states that can still change, in the order of progress. */
const OPEN_STATES: readonly ExecutionState[] = ['enqueued', 'in_transit', 'delivered', 'accepted'];

/** Whether the state can no longer change. */
export function isFinal(state: ExecutionState): boolean {
  return !OPEN_STATES.includes(state);
}

/**
 * Returns the rank of a state: enqueued 0, in_transit 1, delivered 2, accepted 3, every final state 4. Only a confirmed
 * failure to deliver lowers it.
 */
export function computeRank(state: ExecutionState): number {
  const rank = OPEN_STATES.indexOf(state);
  return rank === -1 ? OPEN_STATES.length : rank;
}

/**
 * The evidence for a state beyond delivered. `implicit_uplink`: an uplink arrived after delivery, which is not an
 * acknowledgement.
 */
export type ExecutionEvidence = 'native_ack' | 'implicit_uplink' | 'query' | 'sensor';

/** Why an execution was rejected at submission. */
export type RejectionReason = 'validation_failed' | 'device_queue_full';

/** A value that a sensor is expected to report, frozen at submission. */
export interface ExpectedValue {
  readonly sensorId: string;
  /** Defines how the value is compared. */
  readonly valueType: ValueType;
  readonly value: JsonValue;
}

/** What is sent: JSON, or the encoder's bytes. */
export type ExecutionPayload =
  { readonly kind: 'json'; readonly value: unknown } | { readonly kind: 'bytes'; readonly bytes: Uint8Array };

/** The query command of an execution, frozen at submission. */
export interface FrozenQuery {
  readonly commandId: string;
  readonly commandName: string;
  readonly commandRevision: number;
  /** The parent's parameters that the query declares, with defaults applied. */
  readonly params: JsonObject;
  readonly paramsHash: string;
  readonly kind: ConnectorKind;
  readonly fPort: number | undefined;
  readonly confirmed: boolean;
  readonly topic: string;
  /**
   * The sensors that the query command expects states of. An uplink with a reading of one of them answers the query;
   * undefined in the executions of older versions.
   */
  readonly askedSensorIds?: readonly string[] | undefined;
  /** The payloads of the first and second try. Each try is an execution whose id may be part of its payload. */
  readonly tries: readonly { readonly executionId: string; readonly payload: ExecutionPayload }[];
}

/**
 * What the connection and the device determine for an execution, frozen at submission: time limits in milliseconds, the
 * device class, and who encodes. It is stored as JSON, so the names must not change.
 */
export interface ExecutionPolicy {
  /** From submission to the delivery deadline. */
  readonly deliveryMs: number;
  /** How long the device has to respond; for gateway and MQTT, in addition to the delivery deadline. */
  readonly ackMs: number;
  /** The interval between the device's uplinks. */
  readonly uplinkIntervalMs: number;
  /** Whether it is a LoRaWAN device of class A, which listens only after its own uplink. */
  readonly classA: boolean;
  /** Time limit for the next uplink if it is the acknowledgement; undefined: derived from the uplink interval. */
  readonly implicitAckMs?: number | undefined;
  /** Time limit for the effect; undefined: derived from the uplink interval. */
  readonly convergenceMs?: number | undefined;
  /**
   * Whether the network server (ChirpStack) encodes the payload with its codec for the device. If it has none, it sends
   * an empty frame without notice.
   */
  readonly isEncodedByNetwork?: boolean | undefined;
}

/** The absolute timers in Unix milliseconds; undefined: not running. */
interface Deadlines {
  readonly tDelivery: number | undefined;
  readonly tAck: number | undefined;
  readonly tConv: number | undefined;
  /** When the query is sent a second time. */
  readonly tQuery: number | undefined;
}

/** The fields that a transition may change. */
export interface ExecutionProgress extends Deadlines {
  readonly state: ExecutionState;
  /** A code with details of the state, or empty. While in transit: the last error, or `delivery_unconfirmed`. */
  readonly detail: string;
  readonly detailMessage: string;
  readonly evidence: ExecutionEvidence | undefined;
  /** How often the execution was handed to the transport. */
  readonly attempts: number;
  /** Whether the execution occupies the single slot of its physical device: one command at a time is on its way. */
  readonly holdsSlot: boolean;
  /** The execution is not sent again before this time. */
  readonly notBefore: number | undefined;
  /** The peer of the last attempt, and its boot id. */
  readonly sentTo: string | undefined;
  readonly sentBoot: string | undefined;
  readonly dispatchedAt: number | undefined;
  readonly deliveredAt: number | undefined;
  /** The arrival time of the delivery report. Everything that arrived later has a greater one. */
  readonly deliveredArrival: number | undefined;
  /**
   * The delivery time on the peer's clock, or the first time that was reported after it; undefined if none was
   * reported.
   */
  readonly peerDeliveredAt: number | undefined;
  /** Identifies the clock of `peerDeliveredAt`, for example by the id of a gateway. */
  readonly peerDeliveredBy: string | undefined;
  /**
   * LoRaWAN: the frame counter of the uplink that opened the receive window of the delivery; undefined if not reported.
   */
  readonly deliveredFCnt: number | undefined;
  /** LoRaWAN: the device address of the session of `deliveredFCnt`. */
  readonly deliveredDevAddr: string | undefined;
  /** How many tries of the query became executions. */
  readonly queriesSent: number;
  readonly finishedAt: number | undefined;
}

/** The fields that are frozen at submission. All times are Unix milliseconds. */
interface ExecutionSubmission {
  readonly id: string;
  readonly organizationId: string;
  readonly deviceId: string;
  /** The route; undefined if the execution was rejected before it was known. */
  readonly physicalDeviceId: string | undefined;
  readonly connectionId: string | undefined;
  readonly clientDeviceId: string | undefined;
  readonly kind: ConnectorKind | undefined;
  /** In views, undefined once the command is deleted. */
  readonly commandId: string | undefined;
  readonly commandName: string;
  readonly commandRevision: number;
  readonly parentExecutionId: string | undefined;
  readonly triggerId: string;
  readonly params: Readonly<Record<string, unknown>>;
  readonly paramsHash: string;
  readonly strategy: VerificationStrategy;
  readonly expected: readonly ExpectedValue[];
  /** Seconds. */
  readonly convergenceTimeout: number | undefined;
  /** Undefined if the execution was rejected before it was rendered or encoded. */
  readonly payload: ExecutionPayload | undefined;
  readonly fPort: number | undefined;
  readonly confirmed: boolean;
  /** May be empty. */
  readonly topic: string;
  readonly policy: ExecutionPolicy;
  /** Queries the device for its state; undefined with another strategy, or if this execution is a query itself. */
  readonly query: FrozenQuery | undefined;
  readonly rejectionReason: RejectionReason | undefined;
  readonly violations: readonly Violation[];
  readonly enqueuedAt: number;
}

/** One execution of a command. */
export interface Execution extends ExecutionSubmission, ExecutionProgress {
  /** Counts changes. A write names the version that it read. */
  readonly version: number;
  readonly eventCount: number;
  readonly updatedAt: number;
}

/** The fields of an execution that a list shows. */
export type ListedExecution = Pick<
  Execution,
  'id' | 'triggerId' | 'commandId' | 'commandName' | 'state' | 'rejectionReason' | 'updatedAt' | 'enqueuedAt'
>;

/**
 * An execution as the API shows it: without the payload, the expected values and the query, which only its processing
 * reads.
 */
export type ShownExecution = Omit<Execution, 'payload' | 'expected' | 'query'>;

/** One stored entry of an execution's event log. */
export interface ExecutionLogEntry {
  /** Position in the organization's events, without gaps, in commit order. */
  readonly position: number;
  readonly executionId: string;
  readonly deviceId: string;
  /** Position in the execution's events, from 1. */
  readonly sequence: number;
  readonly time: number;
  /** 1 request, 2 transport, 3 device, 4 sensors. */
  readonly layer: number;
  readonly event: string;
  /** Undefined for the first entry. */
  readonly from: ExecutionState | undefined;
  readonly to: ExecutionState;
  readonly source: string;
  readonly data: Readonly<Record<string, unknown>>;
}

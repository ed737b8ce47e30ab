import type { VerificationStrategy } from '../commands';
import type { ConnectorKind } from '../connections';
import type { Violation } from '../kernel/errors';
import type { JsonObject, JsonValue } from '../kernel/jsonValue';
import type { ValueType } from '../sensorTemplates';

/** The states of an execution; what each claims is in docs/executions.md. */
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

const OPEN_STATES: readonly ExecutionState[] = ['enqueued', 'in_transit', 'delivered', 'accepted'];

/** Whether nothing can change the state any more. */
export function isFinal(state: ExecutionState): boolean {
  return !OPEN_STATES.includes(state);
}

/** How much a state claims: enqueued 0, in_transit 1, delivered 2, accepted 3, every final one 4. Only a proven failure to deliver lowers it. */
export function rankOf(state: ExecutionState): number {
  const rank = OPEN_STATES.indexOf(state);
  return rank === -1 ? OPEN_STATES.length : rank;
}

/** What a state beyond delivered rests on. */
export type ExecutionEvidence = 'native_ack' | 'implicit_uplink' | 'query' | 'sensor';

/** Why an execution was never admitted. */
export type RejectionReason = 'validation_failed' | 'device_queue_full';

/** A value that a sensor has to show, frozen when the command was submitted. */
export interface ExpectedValue {
  readonly sensorId: string;
  /** Says how the value is compared. */
  readonly valueType: ValueType;
  readonly value: JsonValue;
}

/** What is sent: JSON, or the encoder's bytes. */
export type ExecutionPayload = { readonly kind: 'json'; readonly value: unknown } | { readonly kind: 'bytes'; readonly bytes: Uint8Array };

/** The query command of an execution, frozen with it. */
export interface FrozenQuery {
  readonly commandId: string;
  readonly commandName: string;
  readonly commandRevision: number;
  /** Those of the parent that it declares, defaults filled in. */
  readonly params: JsonObject;
  readonly paramsHash: string;
  readonly kind: ConnectorKind;
  readonly fPort: number | undefined;
  readonly confirmed: boolean;
  readonly topic: string;
  /** What is sent at the first and at the second try; each is an execution of its own, whose id may stand in its payload. */
  readonly tries: readonly { readonly executionId: string; readonly payload: ExecutionPayload }[];
}

/** The times of the connection and the device, frozen at submit, in milliseconds. */
export interface ExecutionTimes {
  /** From submit to the end of delivery. */
  readonly deliveryMs: number;
  /** What a device has for its answer; gateway and mqtt: beyond the delivery deadline. */
  readonly ackMs: number;
  /** How far apart the device's uplinks are. */
  readonly uplinkIntervalMs: number;
  /** A LoRaWAN device that listens only after its own uplink. */
  readonly classA: boolean;
  /** What the next uplink has to come in, where that is the acknowledgement; undefined: by the uplink interval. */
  readonly implicitAckMs?: number | undefined;
  /** What the effect has to show in; undefined: by the uplink interval. */
  readonly convergenceMs?: number | undefined;
}

/** The timers, absolute, in Unix milliseconds; undefined: not armed. */
export interface Deadlines {
  readonly tDelivery: number | undefined;
  readonly tAck: number | undefined;
  readonly tConv: number | undefined;
  /** When the query is asked a second time. */
  readonly tQuery: number | undefined;
}

/** What a transition may change. */
export interface ExecutionProgress extends Deadlines {
  readonly state: ExecutionState;
  /** A code that says more about the state; empty: nothing to add. While in transit: the last error, or `delivery_unknown`. */
  readonly detail: string;
  readonly detailMessage: string;
  readonly evidence: ExecutionEvidence | undefined;
  /** How often it was handed to the transport. */
  readonly attempts: number;
  /** Holds the one slot of its physical device. */
  readonly holdsSlot: boolean;
  /** It is not sent again before that time. */
  readonly notBefore: number | undefined;
  /** The other side that the last attempt went to, and its boot. */
  readonly sentTo: string | undefined;
  readonly sentBoot: string | undefined;
  readonly dispatchedAt: number | undefined;
  readonly deliveredAt: number | undefined;
  /** The stamp of the arrival of the sign of delivery: what came later has a greater one. */
  readonly deliveredArrival: number | undefined;
  /** The delivery on the clock of the other side, or the first time after it that was told; undefined: it told no time. */
  readonly peerDeliveredAt: number | undefined;
  /** Whose clock that is. */
  readonly peerDeliveredBy: string | undefined;
  /** LoRaWAN: the frame counter of the uplink that opened the receive window of the delivery; undefined: nobody told it. */
  readonly deliveredFCnt: number | undefined;
  /** How many of the query's tries became executions. */
  readonly queriesSent: number;
  readonly finishedAt: number | undefined;
}

/** What is frozen when an execution is submitted. All times are Unix milliseconds. */
export interface ExecutionSubmission {
  readonly id: string;
  readonly organizationId: string;
  readonly deviceId: string;
  /** The route; undefined when it was rejected before one was known. */
  readonly physicalDeviceId: string | undefined;
  readonly connectionId: string | undefined;
  readonly clientDeviceId: string | undefined;
  readonly kind: ConnectorKind | undefined;
  /** In what is shown: undefined once the command was deleted. */
  readonly commandId: string | undefined;
  readonly commandName: string;
  readonly commandRevision: number;
  readonly parentExecutionId: string | undefined;
  readonly triggerId: string;
  /** The caller's own trigger id, while it is remembered. */
  readonly triggerKey: string | undefined;
  /** Of the params as the caller sent them with it, before defaults; undefined without a trigger id of the caller. */
  readonly triggerHash: string | undefined;
  readonly params: Readonly<Record<string, unknown>>;
  readonly paramsHash: string;
  readonly strategy: VerificationStrategy;
  readonly expected: readonly ExpectedValue[];
  /** Seconds. */
  readonly convergenceTimeout: number | undefined;
  /** Undefined when it was rejected before it was rendered or encoded. */
  readonly payload: ExecutionPayload | undefined;
  readonly fPort: number | undefined;
  readonly confirmed: boolean;
  /** Empty: none. */
  readonly topic: string;
  readonly times: ExecutionTimes;
  /** Asks the device for its state; undefined: the strategy is another one, or this is a query itself. */
  readonly query: FrozenQuery | undefined;
  readonly rejectionReason: RejectionReason | undefined;
  readonly violations: readonly Violation[];
  readonly enqueuedAt: number;
}

/** One execution of a command. */
export interface Execution extends ExecutionSubmission, ExecutionProgress {
  /** Counts its changes; a write names the one that it read. */
  readonly version: number;
  readonly eventCount: number;
  readonly updatedAt: number;
}

/** What a list shows of an execution. */
export type ListedExecution = Pick<Execution, 'id' | 'triggerId' | 'commandId' | 'commandName' | 'state' | 'rejectionReason' | 'updatedAt' | 'enqueuedAt'>;

/** All that is shown of an execution: not what is sent, nor what is expected. */
export type ShownExecution = Omit<Execution, 'payload' | 'expected' | 'query'>;

/** One line of an execution's event log, as it is kept. */
export interface ExecutionLogEntry {
  /** Counts the organization's events without gaps, in commit order. */
  readonly position: number;
  readonly executionId: string;
  readonly deviceId: string;
  /** Counts the execution's events from 1. */
  readonly sequence: number;
  readonly time: number;
  /** 1 request, 2 transport, 3 device, 4 sensors. */
  readonly layer: number;
  readonly event: string;
  /** Undefined for the first. */
  readonly from: ExecutionState | undefined;
  readonly to: ExecutionState;
  readonly source: string;
  readonly data: Readonly<Record<string, unknown>>;
}

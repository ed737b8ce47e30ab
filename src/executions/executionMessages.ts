import {
  type ExecuteCommandRequest,
  type ExecuteCommandResponse,
  type ExecutionEvent as EventMessage,
  ExecutionEvidence as WireEvidence,
  type Execution as ExecutionMessage,
  ExecutionState as WireState,
  type ListExecutionsResponse,
  RejectionReason as WireReason,
  type WatchExecutionsRequest,
  type WatchExecutionsResponse,
} from '../gen/actuator_command/v2/actuator_command_service';
import { optionalTimestamp, toTimestamp } from '../kernel/timestamps';
import type {
  ExecutionEvidence,
  ExecutionLogEntry,
  ExecutionState,
  ListedExecution,
  RejectionReason,
  ShownExecution,
} from './execution';
import type { ExecuteOutcome, ExecutionPage } from './executionService';
import { getWaitEnd } from './machine/executionTimes';
import type { WatchItem, WatchQuery } from './watch/executionWatch';
import type { SubmitRequest } from './submit/submission';

const STATES: Readonly<Record<ExecutionState, WireState>> = {
  enqueued: WireState.EXECUTION_STATE_ENQUEUED,
  in_transit: WireState.EXECUTION_STATE_IN_TRANSIT,
  delivered: WireState.EXECUTION_STATE_DELIVERED,
  accepted: WireState.EXECUTION_STATE_ACCEPTED,
  converged: WireState.EXECUTION_STATE_CONVERGED,
  accepted_no_l4: WireState.EXECUTION_STATE_ACCEPTED_NO_L4,
  unconfirmed: WireState.EXECUTION_STATE_UNCONFIRMED,
  protocol_rejected: WireState.EXECUTION_STATE_PROTOCOL_REJECTED,
  transport_unreachable: WireState.EXECUTION_STATE_TRANSPORT_UNREACHABLE,
  transport_rejected: WireState.EXECUTION_STATE_TRANSPORT_REJECTED,
  request_rejected: WireState.EXECUTION_STATE_REQUEST_REJECTED,
};

const REASONS: Readonly<Record<RejectionReason, WireReason>> = {
  validation_failed: WireReason.REJECTION_REASON_VALIDATION_FAILED,
  device_queue_full: WireReason.REJECTION_REASON_DEVICE_QUEUE_FULL,
};

const EVIDENCE: Readonly<Record<ExecutionEvidence, WireEvidence>> = {
  native_ack: WireEvidence.EXECUTION_EVIDENCE_NATIVE_ACK,
  implicit_uplink: WireEvidence.EXECUTION_EVIDENCE_IMPLICIT_UPLINK,
  query: WireEvidence.EXECUTION_EVIDENCE_QUERY,
  sensor: WireEvidence.EXECUTION_EVIDENCE_SENSOR,
};

/** Reads the execution request. */
export function submitFromMessage(message: ExecuteCommandRequest, requestId: string): SubmitRequest {
  return {
    deviceId: message.id,
    commandId: message.commandId,
    params: message.params ?? {},
    triggerId: message.triggerId,
    requestId,
  };
}

/** Reads the watch request. */
export function watchFromMessage(message: WatchExecutionsRequest): Omit<WatchQuery, 'keyScope'> {
  return {
    deviceId: message.id,
    executionId: message.executionId,
    resumeToken: message.resumeToken,
    endsWhenFinal: message.endsWhenFinal,
  };
}

/** Creates the response to an execution request. A repeat of a rejected request gets the same rejection. */
export function outcomeToMessage({ execution, duplicate }: ExecuteOutcome): ExecuteCommandResponse {
  return {
    accepted: execution.state !== 'request_rejected',
    duplicate,
    executionId: execution.id,
    state: STATES[execution.state],
    rejectionReason: execution.rejectionReason && REASONS[execution.rejectionReason],
    violations: [...execution.violations],
  };
}

/** Converts one page of executions to its proto message. */
export function executionPageToMessage(page: ExecutionPage): ListExecutionsResponse {
  return { items: page.executions.map(listedToMessage), nextCursor: page.nextCursor };
}

/** Converts a complete execution to its proto message; without `events` the log is omitted. */
export function executionToMessage(
  execution: ShownExecution,
  events: readonly ExecutionLogEntry[] = [],
): ExecutionMessage {
  return {
    ...listedToMessage(execution),
    organizationId: execution.organizationId,
    deviceId: execution.deviceId,
    commandRevision: execution.commandRevision,
    params: execution.params,
    detail: execution.detail,
    detailMessage: execution.detailMessage,
    evidence: execution.evidence && EVIDENCE[execution.evidence],
    deadlineAt: optionalTimestamp(getWaitEnd(execution)),
    attempts: execution.attempts,
    parentExecutionId: execution.parentExecutionId,
    deliveredAt: optionalTimestamp(execution.deliveredAt),
    finishedAt: optionalTimestamp(execution.finishedAt),
    violations: [...execution.violations],
    events: events.map(eventToMessage),
  };
}

/** Converts one item of a watch to its response; a missing update gives only the resume token. */
export function watchItemToMessage({ update, resumeToken }: WatchItem): WatchExecutionsResponse {
  return {
    execution: update && executionToMessage(update.execution),
    event: update && eventToMessage(update.event),
    resumeToken,
  };
}

/** Sets the fields that lists show; the others stay empty. */
function listedToMessage(execution: ListedExecution): ExecutionMessage {
  return {
    id: execution.id,
    triggerId: execution.triggerId,
    commandId: execution.commandId,
    commandNameSnapshot: execution.commandName,
    state: STATES[execution.state],
    rejectionReason: execution.rejectionReason && REASONS[execution.rejectionReason],
    updatedAt: toTimestamp(execution.updatedAt),
    enqueuedAt: toTimestamp(execution.enqueuedAt),
    organizationId: '',
    deviceId: '',
    commandRevision: 0,
    params: undefined,
    detail: '',
    detailMessage: '',
    deadlineAt: undefined,
    attempts: 0,
    deliveredAt: undefined,
    finishedAt: undefined,
    violations: [],
    events: [],
  };
}

/** Converts an entry of the event log. */
function eventToMessage(entry: ExecutionLogEntry): EventMessage {
  return {
    sequence: entry.sequence,
    time: toTimestamp(entry.time),
    layer: entry.layer,
    event: entry.event,
    from: entry.from ? STATES[entry.from] : WireState.EXECUTION_STATE_UNSPECIFIED,
    to: STATES[entry.to],
    source: entry.source,
    data: entry.data,
  };
}

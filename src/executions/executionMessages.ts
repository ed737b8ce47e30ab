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
import type { ExecutionEvidence, ExecutionLogEntry, ExecutionState, ListedExecution, RejectionReason, ShownExecution } from './execution';
import type { ExecuteOutcome, ExecutionPage } from './executionService';
import { waitEnd } from './machine/executionTimes';
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

/** What a caller wants executed. */
export function submitFromMessage(message: ExecuteCommandRequest, requestId: string): SubmitRequest {
  return { deviceId: message.id, commandId: message.commandId, params: message.params ?? {}, triggerId: message.triggerId, requestId };
}

/** What to watch. */
export function watchFromMessage(message: WatchExecutionsRequest): Omit<WatchQuery, 'reach'> {
  return { deviceId: message.id, executionId: message.executionId, resumeToken: message.resumeToken, endsWhenFinal: message.endsWhenFinal };
}

/** The answer to a request to execute. A repeated request that was refused is answered with that refusal. */
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

/** One page in the shape of lists. */
export function executionPageToMessage(page: ExecutionPage): ListExecutionsResponse {
  return { items: page.executions.map(listedToMessage), nextCursor: page.nextCursor };
}

/** The whole execution; without `events` the log is left out. */
export function executionToMessage(x: ShownExecution, events: readonly ExecutionLogEntry[] = []): ExecutionMessage {
  return {
    ...listedToMessage(x),
    organizationId: x.organizationId,
    deviceId: x.deviceId,
    commandRevision: x.commandRevision,
    params: x.params,
    detail: x.detail,
    detailMessage: x.detailMessage,
    evidence: x.evidence && EVIDENCE[x.evidence],
    deadlineAt: optionalTimestamp(waitEnd(x)),
    attempts: x.attempts,
    parentExecutionId: x.parentExecutionId,
    deliveredAt: optionalTimestamp(x.deliveredAt),
    finishedAt: optionalTimestamp(x.finishedAt),
    violations: [...x.violations],
    events: events.map(eventToMessage),
  };
}

/** One answer of the watch. */
export function watchItemToMessage({ happened, resumeToken }: WatchItem): WatchExecutionsResponse {
  return { execution: happened && executionToMessage(happened.execution), event: happened && eventToMessage(happened.event), resumeToken };
}

/** The fields that lists show; the others are empty. */
function listedToMessage(x: ListedExecution): ExecutionMessage {
  return {
    id: x.id,
    triggerId: x.triggerId,
    commandId: x.commandId,
    commandNameSnapshot: x.commandName,
    state: STATES[x.state],
    rejectionReason: x.rejectionReason && REASONS[x.rejectionReason],
    updatedAt: toTimestamp(x.updatedAt),
    enqueuedAt: toTimestamp(x.enqueuedAt),
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

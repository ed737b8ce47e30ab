import type { VerificationStrategy } from '../../commands';
import type { ConnectorKind } from '../../connections';
import type { SqlValue } from '../../database';
import type { Violation } from '../../kernel/errors';
import {
  type Execution,
  type ExecutionEvidence,
  type ExecutionLogEntry,
  type ExecutionPayload,
  type ExecutionState,
  type ExecutionTimes,
  type ExpectedValue,
  type ListedExecution,
  type RejectionReason,
  type ShownExecution,
  isFinal,
} from '../execution';
import { nextDeadline } from '../machine/executionTimes';
import { queryFromText, queryToText } from './frozenQuery';

/** A row of `executions`, as far as it is read back. */
export interface ExecutionRow {
  readonly id: string;
  readonly organization_id: string;
  readonly device_id: string;
  readonly physical_device_id: string | null;
  readonly connection_id: string | null;
  readonly client_device_id: string | null;
  readonly connector_kind: ConnectorKind | null;
  readonly command_id: string | null;
  readonly command_name: string;
  readonly command_revision: number;
  readonly parent_execution_id: string | null;
  readonly trigger_id: string;
  readonly trigger_key: string | null;
  readonly trigger_hash: string | null;
  readonly params: string;
  readonly params_hash: string;
  readonly strategy: VerificationStrategy;
  readonly expected: string;
  readonly convergence_timeout: number | null;
  readonly payload_json: string | null;
  readonly payload_bytes: Uint8Array | null;
  readonly f_port: number | null;
  readonly confirmed: number;
  readonly topic: string;
  readonly policy: string;
  readonly query: string | null;
  readonly rejection_reason: RejectionReason | null;
  readonly violations: string | null;
  readonly enqueued_at: number;
  readonly state: ExecutionState;
  readonly version: number;
  readonly detail: string;
  readonly detail_message: string;
  readonly evidence: ExecutionEvidence | null;
  readonly attempts: number;
  readonly holds_slot: number;
  readonly not_before: number | null;
  readonly sent_to: string | null;
  readonly sent_boot: string | null;
  readonly t_delivery: number | null;
  readonly t_ack: number | null;
  readonly t_conv: number | null;
  readonly t_query: number | null;
  readonly dispatched_at: number | null;
  readonly delivered_at: number | null;
  readonly delivered_arrival: number | null;
  readonly peer_delivered_at: number | null;
  readonly peer_delivered_by: string | null;
  readonly delivered_f_cnt: number | null;
  readonly queries_sent: number;
  readonly finished_at: number | null;
  readonly updated_at: number;
  readonly event_count: number;
}

/** A row as far as it is shown. */
export type ShownRow = Omit<ExecutionRow, 'payload_json' | 'payload_bytes' | 'expected' | 'query'>;

/** A row as far as a list shows it. */
export type ListedRow = Pick<ExecutionRow, 'id' | 'trigger_id' | 'command_id' | 'command_name' | 'state' | 'rejection_reason' | 'updated_at' | 'enqueued_at'>;

/** A column, and what it holds of an execution. */
export type Column = readonly [name: string, value: (x: Execution) => string | number | boolean | Uint8Array | undefined];

/** What is frozen at submit. */
export const SUBMISSION_COLUMNS: readonly Column[] = [
  ['id', (x) => x.id],
  ['organization_id', (x) => x.organizationId],
  ['device_id', (x) => x.deviceId],
  ['physical_device_id', (x) => x.physicalDeviceId],
  ['connection_id', (x) => x.connectionId],
  ['client_device_id', (x) => x.clientDeviceId],
  ['connector_kind', (x) => x.kind],
  ['command_id', (x) => x.commandId],
  ['command_name', (x) => x.commandName],
  ['command_revision', (x) => x.commandRevision],
  ['parent_execution_id', (x) => x.parentExecutionId],
  ['trigger_id', (x) => x.triggerId],
  ['trigger_key', (x) => x.triggerKey],
  ['trigger_hash', (x) => x.triggerHash],
  ['params', (x) => JSON.stringify(x.params)],
  ['params_hash', (x) => x.paramsHash],
  ['strategy', (x) => x.strategy],
  ['expected', (x) => JSON.stringify(x.expected)],
  ['convergence_timeout', (x) => x.convergenceTimeout],
  ['payload_json', (x) => x.payload?.kind === 'json' ? JSON.stringify(x.payload.value) : undefined],
  ['payload_bytes', (x) => x.payload?.kind === 'bytes' ? x.payload.bytes : undefined],
  ['f_port', (x) => x.fPort],
  ['confirmed', (x) => x.confirmed],
  ['topic', (x) => x.topic],
  ['policy', (x) => JSON.stringify(x.times)],
  ['query', (x) => (x.query ? queryToText(x.query) : undefined)],
  ['rejection_reason', (x) => x.rejectionReason],
  ['violations', (x) => x.violations.length > 0 ? JSON.stringify(x.violations) : undefined],
  ['enqueued_at', (x) => x.enqueuedAt],
];

/** What a transition may change. */
export const PROGRESS_COLUMNS: readonly Column[] = [
  ['state', (x) => x.state],
  ['final', (x) => isFinal(x.state)],
  ['version', (x) => x.version],
  ['detail', (x) => x.detail],
  ['detail_message', (x) => x.detailMessage],
  ['evidence', (x) => x.evidence],
  ['attempts', (x) => x.attempts],
  ['holds_slot', (x) => x.holdsSlot],
  ['not_before', (x) => x.notBefore],
  ['sent_to', (x) => x.sentTo],
  ['sent_boot', (x) => x.sentBoot],
  ['t_delivery', (x) => x.tDelivery],
  ['t_ack', (x) => x.tAck],
  ['t_conv', (x) => x.tConv],
  ['t_query', (x) => x.tQuery],
  ['next_deadline', (x) => nextDeadline(x)],
  ['dispatched_at', (x) => x.dispatchedAt],
  ['delivered_at', (x) => x.deliveredAt],
  ['delivered_arrival', (x) => x.deliveredArrival],
  ['peer_delivered_at', (x) => x.peerDeliveredAt],
  ['peer_delivered_by', (x) => x.peerDeliveredBy],
  ['delivered_f_cnt', (x) => x.deliveredFCnt],
  ['queries_sent', (x) => x.queriesSent],
  ['finished_at', (x) => x.finishedAt],
  ['updated_at', (x) => x.updatedAt],
  ['event_count', (x) => x.eventCount],
];

/** What these columns hold, in their order. */
export function valuesOf(columns: readonly Column[], x: Execution): SqlValue[] {
  return columns.map(([, valueOf]) => {
    const value = valueOf(x);
    return typeof value === 'boolean' ? Number(value) : (value ?? null);
  });
}

/** A row as an execution. */
export function executionFromRow(row: ExecutionRow): Execution {
  return { ...shownFromRow(row), expected: JSON.parse(row.expected) as ExpectedValue[], payload: payloadFromRow(row), query: row.query === null ? undefined : queryFromText(row.query) };
}

/** A row as it is shown. */
export function shownFromRow(row: ShownRow): ShownExecution {
  return { ...listedFromRow(row), ...submissionFromRow(row), ...progressFromRow(row), version: row.version, eventCount: row.event_count };
}

/** A row as a list shows it. */
export function listedFromRow(row: ListedRow): ListedExecution {
  return {
    id: row.id,
    triggerId: row.trigger_id,
    commandId: row.command_id ?? undefined,
    commandName: row.command_name,
    state: row.state,
    rejectionReason: row.rejection_reason ?? undefined,
    updatedAt: row.updated_at,
    enqueuedAt: row.enqueued_at,
  };
}

function submissionFromRow(row: ShownRow) {
  return {
    organizationId: row.organization_id,
    deviceId: row.device_id,
    ...routeFromRow(row),
    commandRevision: row.command_revision,
    parentExecutionId: row.parent_execution_id ?? undefined,
    triggerKey: row.trigger_key ?? undefined,
    triggerHash: row.trigger_hash ?? undefined,
    params: JSON.parse(row.params) as Record<string, unknown>,
    paramsHash: row.params_hash,
    strategy: row.strategy,
    convergenceTimeout: row.convergence_timeout ?? undefined,
    fPort: row.f_port ?? undefined,
    confirmed: row.confirmed === 1,
    topic: row.topic,
    times: JSON.parse(row.policy) as ExecutionTimes,
    violations: row.violations ? (JSON.parse(row.violations) as Violation[]) : [],
  };
}

function routeFromRow(row: ShownRow) {
  return {
    physicalDeviceId: row.physical_device_id ?? undefined,
    connectionId: row.connection_id ?? undefined,
    clientDeviceId: row.client_device_id ?? undefined,
    kind: row.connector_kind ?? undefined,
  };
}

function payloadFromRow(row: ExecutionRow): ExecutionPayload | undefined {
  if (row.payload_json !== null) return { kind: 'json', value: JSON.parse(row.payload_json) as unknown };
  return row.payload_bytes === null ? undefined : { kind: 'bytes', bytes: row.payload_bytes };
}

function progressFromRow(row: ShownRow) {
  return {
    detail: row.detail,
    detailMessage: row.detail_message,
    evidence: row.evidence ?? undefined,
    attempts: row.attempts,
    holdsSlot: row.holds_slot === 1,
    queriesSent: row.queries_sent,
    notBefore: row.not_before ?? undefined,
    sentTo: row.sent_to ?? undefined,
    sentBoot: row.sent_boot ?? undefined,
    ...timesFromRow(row),
    ...deliveryFromRow(row),
  };
}

function timesFromRow(row: ShownRow) {
  return {
    tDelivery: row.t_delivery ?? undefined,
    tAck: row.t_ack ?? undefined,
    tConv: row.t_conv ?? undefined,
    tQuery: row.t_query ?? undefined,
    dispatchedAt: row.dispatched_at ?? undefined,
    finishedAt: row.finished_at ?? undefined,
  };
}

function deliveryFromRow(row: ShownRow) {
  return {
    deliveredAt: row.delivered_at ?? undefined,
    deliveredArrival: row.delivered_arrival ?? undefined,
    peerDeliveredAt: row.peer_delivered_at ?? undefined,
    peerDeliveredBy: row.peer_delivered_by ?? undefined,
    deliveredFCnt: row.delivered_f_cnt ?? undefined,
  };
}

/** A row of `execution_events`. */
export interface ExecutionEventRow {
  readonly position: number;
  readonly execution_id: string;
  readonly device_id: string;
  readonly sequence: number;
  readonly time: number;
  readonly layer: number;
  readonly event: string;
  readonly from_state: ExecutionState | null;
  readonly to_state: ExecutionState;
  readonly source: string;
  readonly data: string;
}

/** A row as a line of the event log. */
export function logEntryFromRow(row: ExecutionEventRow): ExecutionLogEntry {
  return {
    position: row.position,
    executionId: row.execution_id,
    deviceId: row.device_id,
    sequence: row.sequence,
    time: row.time,
    layer: row.layer,
    event: row.event,
    from: row.from_state ?? undefined,
    to: row.to_state,
    source: row.source,
    data: JSON.parse(row.data) as Record<string, unknown>,
  };
}

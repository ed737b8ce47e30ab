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
  type ExecutionPolicy,
  type ExpectedValue,
  type ListedExecution,
  type RejectionReason,
  type ShownExecution,
  isFinal,
} from '../execution';
import { getNextDeadline } from '../machine/executionTimes';
import { queryFromText, queryToText } from './frozenQuery';

/** A row of `executions` with the columns that are read back. */
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
  readonly delivered_dev_addr: string | null;
  readonly queries_sent: number;
  readonly finished_at: number | null;
  readonly updated_at: number;
  readonly event_count: number;
}

/** A row with the columns of a ShownExecution. */
export type ShownRow = Omit<ExecutionRow, 'payload_json' | 'payload_bytes' | 'expected' | 'query'>;

/** A row with the columns of a ListedExecution. */
export type ListedRow = Pick<
  ExecutionRow,
  'id' | 'trigger_id' | 'command_id' | 'command_name' | 'state' | 'rejection_reason' | 'updated_at' | 'enqueued_at'
>;

/** A column and its value for an execution. */
export type Column = readonly [
  name: string,
  value: (execution: Execution) => string | number | boolean | Uint8Array | undefined,
];

/** The columns that are frozen at submission. */
export const SUBMISSION_COLUMNS: readonly Column[] = [
  ['id', (execution) => execution.id],
  ['organization_id', (execution) => execution.organizationId],
  ['device_id', (execution) => execution.deviceId],
  ['physical_device_id', (execution) => execution.physicalDeviceId],
  ['connection_id', (execution) => execution.connectionId],
  ['client_device_id', (execution) => execution.clientDeviceId],
  ['connector_kind', (execution) => execution.kind],
  ['command_id', (execution) => execution.commandId],
  ['command_name', (execution) => execution.commandName],
  ['command_revision', (execution) => execution.commandRevision],
  ['parent_execution_id', (execution) => execution.parentExecutionId],
  ['trigger_id', (execution) => execution.triggerId],
  ['params', (execution) => JSON.stringify(execution.params)],
  ['params_hash', (execution) => execution.paramsHash],
  ['strategy', (execution) => execution.strategy],
  ['expected', (execution) => JSON.stringify(execution.expected)],
  ['convergence_timeout', (execution) => execution.convergenceTimeout],
  [
    'payload_json',
    (execution) => (execution.payload?.kind === 'json' ? JSON.stringify(execution.payload.value) : undefined),
  ],
  ['payload_bytes', (execution) => (execution.payload?.kind === 'bytes' ? execution.payload.bytes : undefined)],
  ['f_port', (execution) => execution.fPort],
  ['confirmed', (execution) => execution.confirmed],
  ['topic', (execution) => execution.topic],
  ['policy', (execution) => JSON.stringify(execution.policy)],
  ['query', (execution) => (execution.query ? queryToText(execution.query) : undefined)],
  ['rejection_reason', (execution) => execution.rejectionReason],
  ['violations', (execution) => (execution.violations.length > 0 ? JSON.stringify(execution.violations) : undefined)],
  ['enqueued_at', (execution) => execution.enqueuedAt],
];

/** The columns that a transition may change. */
export const PROGRESS_COLUMNS: readonly Column[] = [
  ['state', (execution) => execution.state],
  ['final', (execution) => isFinal(execution.state)],
  ['version', (execution) => execution.version],
  ['detail', (execution) => execution.detail],
  ['detail_message', (execution) => execution.detailMessage],
  ['evidence', (execution) => execution.evidence],
  ['attempts', (execution) => execution.attempts],
  ['holds_slot', (execution) => execution.holdsSlot],
  ['not_before', (execution) => execution.notBefore],
  ['sent_to', (execution) => execution.sentTo],
  ['sent_boot', (execution) => execution.sentBoot],
  ['t_delivery', (execution) => execution.tDelivery],
  ['t_ack', (execution) => execution.tAck],
  ['t_conv', (execution) => execution.tConv],
  ['t_query', (execution) => execution.tQuery],
  ['next_deadline', (execution) => getNextDeadline(execution)],
  ['dispatched_at', (execution) => execution.dispatchedAt],
  ['delivered_at', (execution) => execution.deliveredAt],
  ['delivered_arrival', (execution) => execution.deliveredArrival],
  ['peer_delivered_at', (execution) => execution.peerDeliveredAt],
  ['peer_delivered_by', (execution) => execution.peerDeliveredBy],
  ['delivered_f_cnt', (execution) => execution.deliveredFCnt],
  ['delivered_dev_addr', (execution) => execution.deliveredDevAddr],
  ['queries_sent', (execution) => execution.queriesSent],
  ['finished_at', (execution) => execution.finishedAt],
  ['updated_at', (execution) => execution.updatedAt],
  ['event_count', (execution) => execution.eventCount],
];

/** Returns the values of these columns, in their order. */
export function listValues(columns: readonly Column[], execution: Execution): SqlValue[] {
  return columns.map(([, getColumnValue]) => {
    const value = getColumnValue(execution);
    return typeof value === 'boolean' ? Number(value) : (value ?? null);
  });
}

/** Converts a row to an execution. */
export function executionFromRow(row: ExecutionRow): Execution {
  return {
    ...shownFromRow(row),
    expected: JSON.parse(row.expected) as ExpectedValue[],
    payload: payloadFromRow(row),
    query: row.query === null ? undefined : queryFromText(row.query),
  };
}

/** Converts a row to an execution as the API shows it. */
export function shownFromRow(row: ShownRow): ShownExecution {
  return {
    ...listedFromRow(row),
    ...submissionFromRow(row),
    ...progressFromRow(row),
    version: row.version,
    eventCount: row.event_count,
  };
}

/** Converts a row to an execution as lists show it. */
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

/** Reads the fields that are frozen at submission. */
function submissionFromRow(row: ShownRow) {
  return {
    organizationId: row.organization_id,
    deviceId: row.device_id,
    ...routeFromRow(row),
    commandRevision: row.command_revision,
    parentExecutionId: row.parent_execution_id ?? undefined,
    params: JSON.parse(row.params) as Record<string, unknown>,
    paramsHash: row.params_hash,
    strategy: row.strategy,
    convergenceTimeout: row.convergence_timeout ?? undefined,
    fPort: row.f_port ?? undefined,
    confirmed: row.confirmed === 1,
    topic: row.topic,
    policy: JSON.parse(row.policy) as ExecutionPolicy,
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

/** Reads the fields that a transition may change. */
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
    deliveredDevAddr: row.delivered_dev_addr ?? undefined,
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

/** Converts a row to an entry of the event log. */
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

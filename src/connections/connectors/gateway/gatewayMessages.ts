import {
  type AttachResponse,
  type Command,
  CommandResultCode,
  GatewayStore,
  type Hello,
  type CommandSnapshot,
  CommandSnapshotStatus,
  ResultOutcome,
  UplinkOutcome as WireOutcome,
} from '../../../gen/gateway/v1/gateway_service';
import { UUID } from '../../../kernel/ids';
import { getProgramVersion } from '../../../kernel/programVersion';
import { fromTimestamp, toTimestamp, type TimestampMessage } from '../../../kernel/timestamps';
import type { Attachment, Downlink, Evidence, EvidenceOutcome, KnownExecution, UplinkOutcome } from '../../connector';
import { findRejection } from './invalidMessages';

/** The outcome of a command, as reported in any message of a gateway. */
interface Report {
  readonly code: string;
  readonly message: string;
  readonly time: TimestampMessage | undefined;
}

/** The kind of evidence and the default code of each result. */
const RESULT_EVIDENCE: Readonly<
  Partial<Record<CommandResultCode, readonly [kind: Exclude<Evidence['kind'], 'transport_ok'>, code: string]>>
> = {
  [CommandResultCode.COMMAND_RESULT_CODE_ACCEPTED]: ['ack', ''],
  [CommandResultCode.COMMAND_RESULT_CODE_REJECTED]: ['negative', 'rejected'],
  [CommandResultCode.COMMAND_RESULT_CODE_FAILED]: ['negative', 'failed'],
  [CommandResultCode.COMMAND_RESULT_CODE_NO_ANSWER]: ['no_answer', 'no_answer'],
  [CommandResultCode.COMMAND_RESULT_CODE_UNREACHABLE]: ['unreachable', 'unreachable'],
  [CommandResultCode.COMMAND_RESULT_CODE_EXPIRED]: ['unreachable', 'expired'],
  [CommandResultCode.COMMAND_RESULT_CODE_REFUSED]: ['refused', 'refused'],
};

/** The result of a command in a Hello. A status that is absent here means that the command was only received. */
const SNAPSHOT_RESULT: Readonly<Partial<Record<CommandSnapshotStatus, CommandResultCode>>> = {
  [CommandSnapshotStatus.COMMAND_SNAPSHOT_STATUS_ACCEPTED]: CommandResultCode.COMMAND_RESULT_CODE_ACCEPTED,
  [CommandSnapshotStatus.COMMAND_SNAPSHOT_STATUS_REJECTED]: CommandResultCode.COMMAND_RESULT_CODE_REJECTED,
  [CommandSnapshotStatus.COMMAND_SNAPSHOT_STATUS_FAILED]: CommandResultCode.COMMAND_RESULT_CODE_FAILED,
  [CommandSnapshotStatus.COMMAND_SNAPSHOT_STATUS_NO_ANSWER]: CommandResultCode.COMMAND_RESULT_CODE_NO_ANSWER,
  [CommandSnapshotStatus.COMMAND_SNAPSHOT_STATUS_UNREACHABLE]: CommandResultCode.COMMAND_RESULT_CODE_UNREACHABLE,
  [CommandSnapshotStatus.COMMAND_SNAPSHOT_STATUS_EXPIRED]: CommandResultCode.COMMAND_RESULT_CODE_EXPIRED,
  [CommandSnapshotStatus.COMMAND_SNAPSHOT_STATUS_REFUSED]: CommandResultCode.COMMAND_RESULT_CODE_REFUSED,
};

const RESULT_OUTCOME: Readonly<Record<EvidenceOutcome, ResultOutcome>> = {
  applied: ResultOutcome.RESULT_OUTCOME_APPLIED,
  late: ResultOutcome.RESULT_OUTCOME_LATE,
  unknown: ResultOutcome.RESULT_OUTCOME_UNKNOWN,
};

const UPLINK_OUTCOME: Readonly<Record<UplinkOutcome['outcome'], WireOutcome>> = {
  stored: WireOutcome.UPLINK_OUTCOME_STORED,
  duplicate: WireOutcome.UPLINK_OUTCOME_DUPLICATE,
  rejected: WireOutcome.UPLINK_OUTCOME_REJECTED,
};

/** Converts a command_received message. */
export function toReceiptEvidence(time: TimestampMessage | undefined): Evidence {
  return { kind: 'transport_ok', time: time && fromTimestamp(time) };
}

/** Converts a command_result message. The default of `code` depends on the result. */
export function toResultEvidence(result: CommandResultCode, report: Report): Evidence {
  // Field validation accepts no other value.
  const [kind, defaultCode] = RESULT_EVIDENCE[result] ?? ['no_answer', 'no_answer'];
  return {
    kind,
    code: report.code || defaultCode,
    message: report.message,
    time: report.time && fromTimestamp(report.time),
  };
}

/** Creates the evidence of an invalid result, which the server rejects for this reason. */
export function toRejectedResultEvidence(reason: string): Evidence {
  return { kind: 'answer_not_understood', message: `the server rejected the result of the gateway: ${reason}` };
}

/**
 * Converts a Hello. The valid entries of its `known` (commands that the gateway still has) become `known` of the
 * attachment. Of the invalid ones, only the ids are used, and that a result was not understood. `arrival`: the arrival
 * time and the clock of the Hello.
 */
export function toAttachment(
  organizationId: string,
  hello: Hello,
  arrival: Pick<Evidence, 'receivedAt' | 'clock'>,
): Attachment {
  return {
    organizationId,
    connectionId: hello.connectionId,
    peerId: hello.gatewayId,
    bootId: hello.bootId,
    source: `gateway:${hello.gatewayId}`,
    durable: hello.store === GatewayStore.GATEWAY_STORE_DURABLE,
    known: hello.known.flatMap((entry) => {
      const evidence = toSnapshotEvidence(entry);
      return evidence ? [{ executionId: entry.executionId, evidence: { ...evidence, ...arrival } }] : [];
    }),
    alsoHeld: hello.known.filter((entry) => findRejection(entry) !== undefined).map(({ executionId }) => executionId),
  };
}

/**
 * Creates the responses to `known` of a Hello, the commands that the gateway still has: first the acknowledgements of
 * stored results, then the rejections of invalid entries.
 */
export function createKnownResponses(
  hello: Hello,
  attachment: Attachment,
  outcomeByExecution: ReadonlyMap<KnownExecution, EvidenceOutcome>,
): AttachResponse[] {
  return [...acknowledgeResults(attachment.known, outcomeByExecution), ...rejectInvalidEntries(hello.known)];
}

/** Acknowledges the results that were stored. One without an outcome could not be stored, so the gateway keeps it. */
function acknowledgeResults(
  executions: readonly KnownExecution[],
  outcomeByExecution: ReadonlyMap<KnownExecution, EvidenceOutcome>,
): AttachResponse[] {
  return executions.flatMap((execution) => {
    const { kind } = execution.evidence;
    // A receipt needs no acknowledgement, and an invalid result is rejected.
    const isAcknowledged = kind !== 'transport_ok' && kind !== 'answer_not_understood';
    const outcome = outcomeByExecution.get(execution);
    return !isAcknowledged || outcome === undefined ? [] : [createResultAck(execution.executionId, outcome)];
  });
}

/** Rejects the invalid entries of `known` in a Hello; the kind of rejection depends on whether it reports a result. */
function rejectInvalidEntries(entries: readonly CommandSnapshot[]): AttachResponse[] {
  return entries.flatMap((entry) => {
    const reason = findRejection(entry);
    if (reason === undefined) return [];
    return [(isResult(entry) ? createResultRejection : createMessageRejection)(entry.executionId, reason)];
  });
}

/** Whether an entry of `known` in a Hello reports a result, not only that the command was received. */
function isResult({ status }: CommandSnapshot): boolean {
  return SNAPSHOT_RESULT[status] !== undefined;
}

/**
 * Converts an entry of `known` in a Hello, which reports a result or only that the command was received. Undefined if
 * the entry is invalid and reports nothing about an execution.
 */
function toSnapshotEvidence(entry: CommandSnapshot): Evidence | undefined {
  const reason = findRejection(entry);
  if (reason !== undefined)
    return isResult(entry) && UUID.test(entry.executionId) ? toRejectedResultEvidence(reason) : undefined;
  const result = SNAPSHOT_RESULT[entry.status];
  return result === undefined ? toReceiptEvidence(entry.time) : toResultEvidence(result, entry);
}

/** Creates the message for an accepted Hello. `now`: Unix milliseconds. */
export function createWelcome(now: number, maxInFlight: number, protocolVersion: number): AttachResponse {
  return {
    message: {
      $case: 'welcome',
      value: { serverTime: toTimestamp(now), maxInFlight, protocolVersion, serverVersion: getProgramVersion().version },
    },
  };
}

/** Converts a command that is sent at `now` (Unix milliseconds); undefined if it has expired. */
export function commandToMessage(downlink: Downlink, now: number): AttachResponse | undefined {
  const remainingMs = downlink.deadline - now;
  if (remainingMs <= 0) return undefined;
  const value: Command = {
    executionId: downlink.executionId,
    attempt: downlink.attempt,
    deadline: toTimestamp(downlink.deadline),
    expiresIn: toTimestamp(remainingMs), // a Duration has the same two fields as a Timestamp
    clientDeviceId: downlink.clientDeviceId,
    payload: payloadToMessage(downlink.payload),
    fPort: downlink.fPort,
    confirmed: downlink.confirmed,
    topic: downlink.topic,
  };
  return { message: { $case: 'command', value } };
}

function payloadToMessage(payload: Downlink['payload']): Command['payload'] {
  if (payload.kind === 'json') return { $case: 'json', value: payload.value };
  return { $case: 'bytes', value: Buffer.from(payload.bytes) };
}

/** Creates the acknowledgement of a result. */
export function createResultAck(executionId: string, outcome: EvidenceOutcome): AttachResponse {
  const value = { executionId, outcome: RESULT_OUTCOME[outcome], reason: '' };
  return { message: { $case: 'commandResultAck', value } };
}

/** Creates the rejection of an invalid result; the gateway may delete it. */
export function createResultRejection(executionId: string, reason: string): AttachResponse {
  const value = { executionId, outcome: ResultOutcome.RESULT_OUTCOME_REJECTED, reason };
  return { message: { $case: 'commandResultAck', value } };
}

/** Creates the rejection of another invalid message about an execution. */
export function createMessageRejection(executionId: string, reason: string): AttachResponse {
  return { message: { $case: 'messageRejected', value: { executionId, reason } } };
}

/** Creates the acknowledgement of an uplink. */
export function createUplinkAck(uplinkId: string, outcome: UplinkOutcome): AttachResponse {
  const reason = outcome.outcome === 'rejected' ? outcome.reason : '';
  return { message: { $case: 'uplinkAck', value: { uplinkId, outcome: UPLINK_OUTCOME[outcome.outcome], reason } } };
}

import { type AttachResponse, type Command, CommandResultCode, GatewayStore, type Hello, type KnownCommand, KnownStatus, ResultOutcome, UplinkOutcome as WireOutcome } from '../../../gen/gateway/v1/gateway_service';
import { programVersion } from '../../../kernel/programVersion';
import { fromTimestamp, toTimestamp, type TimestampMessage } from '../../../kernel/timestamps';
import type { Attachment, Downlink, Evidence, EvidenceOutcome, UplinkOutcome } from '../../connector';

/** What a gateway says of the end of a command, wherever it says it. */
interface Report {
  readonly code: string;
  readonly message: string;
  readonly time: TimestampMessage | undefined;
}

const KIND_OF_RESULT: Readonly<Partial<Record<CommandResultCode, readonly [kind: Exclude<Evidence['kind'], 'transport_ok'>, code: string]>>> = {
  [CommandResultCode.COMMAND_RESULT_CODE_ACCEPTED]: ['ack', ''],
  [CommandResultCode.COMMAND_RESULT_CODE_REJECTED]: ['negative', 'rejected'],
  [CommandResultCode.COMMAND_RESULT_CODE_FAILED]: ['negative', 'failed'],
  [CommandResultCode.COMMAND_RESULT_CODE_NO_ANSWER]: ['no_answer', 'no_answer'],
  [CommandResultCode.COMMAND_RESULT_CODE_UNREACHABLE]: ['unreachable', 'unreachable'],
  [CommandResultCode.COMMAND_RESULT_CODE_EXPIRED]: ['unreachable', 'expired'],
  [CommandResultCode.COMMAND_RESULT_CODE_REFUSED]: ['refused', 'refused'],
};

const RESULT_OF_KNOWN: Readonly<Partial<Record<KnownStatus, CommandResultCode>>> = {
  [KnownStatus.KNOWN_STATUS_ACCEPTED]: CommandResultCode.COMMAND_RESULT_CODE_ACCEPTED,
  [KnownStatus.KNOWN_STATUS_REJECTED]: CommandResultCode.COMMAND_RESULT_CODE_REJECTED,
  [KnownStatus.KNOWN_STATUS_FAILED]: CommandResultCode.COMMAND_RESULT_CODE_FAILED,
  [KnownStatus.KNOWN_STATUS_NO_ANSWER]: CommandResultCode.COMMAND_RESULT_CODE_NO_ANSWER,
  [KnownStatus.KNOWN_STATUS_UNREACHABLE]: CommandResultCode.COMMAND_RESULT_CODE_UNREACHABLE,
  [KnownStatus.KNOWN_STATUS_EXPIRED]: CommandResultCode.COMMAND_RESULT_CODE_EXPIRED,
  [KnownStatus.KNOWN_STATUS_REFUSED]: CommandResultCode.COMMAND_RESULT_CODE_REFUSED,
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

/** What command_received says. */
export function evidenceOfReceipt(time: TimestampMessage | undefined): Evidence {
  return { kind: 'transport_ok', time: time && fromTimestamp(time) };
}

/** What command_result says; a code that the gateway left out is that of the result. */
export function evidenceOfResult(result: CommandResultCode, report: Report): Evidence {
  const [kind, code] = KIND_OF_RESULT[result] ?? ['no_answer', 'no_answer']; // the field rules let no other through
  return { kind, code: report.code || code, message: report.message, time: report.time && fromTimestamp(report.time) };
}

/** What a Hello says, with what the server knows of how that came. */
export function attachmentFromHello(organizationId: string, hello: Hello, came: Pick<Evidence, 'receivedAt' | 'clock'>): Attachment {
  return {
    organizationId,
    connectionId: hello.connectionId,
    peerId: hello.gatewayId,
    bootId: hello.bootId,
    source: `gateway:${hello.gatewayId}`,
    durable: hello.store === GatewayStore.GATEWAY_STORE_DURABLE,
    known: hello.known.map((known) => ({ executionId: known.executionId, evidence: { ...evidenceOfKnown(known), ...came } })),
  };
}

function evidenceOfKnown(known: KnownCommand): Evidence {
  const result = RESULT_OF_KNOWN[known.status];
  return result === undefined ? evidenceOfReceipt(known.time) : evidenceOfResult(result, known);
}

/** The Hello was accepted. */
export function welcomeMessage(now: number, maxInFlight: number, protocolVersion: number): AttachResponse {
  return { message: { $case: 'welcome', value: { serverTime: toTimestamp(now), maxInFlight, protocolVersion, serverVersion: programVersion().version } } };
}

/** A command as it leaves at `now` (Unix milliseconds); undefined once it has expired. */
export function commandToMessage(downlink: Downlink, now: number): AttachResponse | undefined {
  const remaining = downlink.deadline - now;
  if (remaining <= 0) return undefined;
  const value: Command = {
    executionId: downlink.executionId,
    attempt: downlink.attempt,
    deadline: toTimestamp(downlink.deadline),
    expiresIn: toTimestamp(remaining), // a Duration has the same two fields
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

/** A result was taken. */
export function resultAckMessage(executionId: string, outcome: EvidenceOutcome): AttachResponse {
  return { message: { $case: 'commandResultAck', value: { executionId, outcome: RESULT_OUTCOME[outcome] } } };
}

/** An uplink was taken. */
export function uplinkAckMessage(uplinkId: string, outcome: UplinkOutcome): AttachResponse {
  const reason = outcome.outcome === 'rejected' ? outcome.reason : '';
  return { message: { $case: 'uplinkAck', value: { uplinkId, outcome: UPLINK_OUTCOME[outcome.outcome], reason } } };
}

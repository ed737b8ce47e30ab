import {
  Command,
  type CommandResult,
  type CommandSnapshot,
  CommandSnapshotStatus,
  ResultOutcome,
} from '../../gen/gateway/v1/gateway_service';
import { GatewayError } from '../gatewayError';
import type { DeliveredCommand } from '../options';
import type { StoredCommand } from '../store/gatewayStore';
import { getResultName } from './outcome';

/** Converts a command to the form in events. */
export function toCommandSummary({ executionId, attempt, clientDeviceId, payload, fPort }: Command): Pick<
  DeliveredCommand,
  'executionId' | 'attempt' | 'clientDeviceId' | 'fPort'
> & {
  readonly payload: DeliveredCommand['payload'] | undefined;
} {
  return { executionId, attempt, clientDeviceId, payload: payload && toPayload(payload), fPort };
}

/**
 * Converts a command to the argument of `deliver`. A command without a payload, which no server sends, becomes JSON
 * null.
 */
export function toDeliveredCommand(command: Command): DeliveredCommand {
  const { confirmed, topic } = command;
  return {
    ...toCommandSummary(command),
    payload: toPayload(command.payload ?? { $case: 'json', value: null }),
    confirmed,
    topic,
  };
}

function toPayload(payload: NonNullable<Command['payload']>): DeliveredCommand['payload'] {
  return payload.$case === 'json'
    ? { kind: 'json', value: payload.value as unknown }
    : { kind: 'bytes', bytes: payload.value };
}

/** Builds the message with the result of a command. */
export function buildResultMessage({ executionId, result, code, text, time }: StoredCommand): CommandResult {
  return { executionId, result, code, message: text, time: new Date(time) };
}

/** Converts the result of a command to the form in events. */
export function toResultSummary({ executionId, result, code, text }: StoredCommand): {
  readonly executionId: string;
  readonly result: string;
  readonly code: string;
  readonly message: string;
} {
  return { executionId, result: getResultName(result), code, message: text };
}

/**
 * Builds the snapshot of a command for Hello, the first message of a stream. `withText` false: without code and text,
 * because Hello would be too long.
 */
export function buildCommandSnapshot(
  { executionId, result, code, text, time }: StoredCommand,
  hasResult: boolean,
  withText: boolean,
): CommandSnapshot {
  // CommandSnapshotStatus is RECEIVED (1), followed by the values of CommandResultCode in the same order.
  const status: CommandSnapshotStatus = hasResult ? result + 1 : CommandSnapshotStatus.COMMAND_SNAPSHOT_STATUS_RECEIVED;
  return {
    executionId,
    status,
    code: hasResult && withText ? code : '',
    message: hasResult && withText ? text : '',
    time: new Date(time),
  };
}

const OUTCOMES: Readonly<Partial<Record<ResultOutcome, string>>> = {
  [ResultOutcome.RESULT_OUTCOME_APPLIED]: 'applied',
  [ResultOutcome.RESULT_OUTCOME_LATE]: 'late',
  [ResultOutcome.RESULT_OUTCOME_UNKNOWN]: 'unknown',
  [ResultOutcome.RESULT_OUTCOME_REJECTED]: 'rejected',
};

/** Returns the name of the outcome of a result in events; undefined for an unknown outcome. */
export function findOutcomeName(outcome: ResultOutcome): string | undefined {
  return OUTCOMES[outcome];
}

/** Decodes the message of a stored command. Throws GatewayError `store_corrupt` if it is invalid. */
export function decodeStoredMessage({ executionId, message }: StoredCommand): Command {
  try {
    return Command.decode(message);
  } catch (error) {
    throw new GatewayError('store_corrupt', `the stored command ${executionId} is unreadable`, { cause: error });
  }
}

/** Encodes a command for the store. */
export function encodeCommand(command: Command): Uint8Array {
  return Command.encode(command).finish();
}

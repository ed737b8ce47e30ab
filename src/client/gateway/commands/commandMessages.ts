import { Command, type CommandResult, type KnownCommand, KnownStatus, ResultOutcome } from '../../gen/gateway/v1/gateway_service';
import { GatewayError } from '../gatewayError';
import type { DeliveredCommand } from '../options';
import type { KeptCommand } from '../store/gatewayStore';
import { nameOf } from './outcome';

/** A command as events show it. */
export function commandShown({ executionId, attempt, clientDeviceId, payload, fPort }: Command): Pick<DeliveredCommand, 'executionId' | 'attempt' | 'clientDeviceId' | 'fPort'> & { readonly payload: DeliveredCommand['payload'] | undefined } {
  return { executionId, attempt, clientDeviceId, payload: payload && payloadOf(payload), fPort };
}

/** A command as the callback is given it. One without a payload, which no server sends, is JSON null. */
export function deliveredCommand(command: Command): DeliveredCommand {
  const { confirmed, topic } = command;
  return { ...commandShown(command), payload: payloadOf(command.payload ?? { $case: 'json', value: null }), confirmed, topic };
}

function payloadOf(payload: NonNullable<Command['payload']>): DeliveredCommand['payload'] {
  return payload.$case === 'json' ? { kind: 'json', value: payload.value as unknown } : { kind: 'bytes', bytes: payload.value };
}

/** What is said of the end of a command. */
export function resultMessage({ executionId, result, code, text, time }: KeptCommand): CommandResult {
  return { executionId, result, code, message: text, time: new Date(time) };
}

/** The end of a command, as events show it. */
export function answerShown({ executionId, result, code, text }: KeptCommand): { readonly executionId: string; readonly result: string; readonly code: string; readonly message: string } {
  return { executionId, result: nameOf(result), code, message: text };
}

/** What Hello says of a command. `withText` false: without code and text, which would make it too long. */
export function knownCommand({ executionId, result, code, text, time }: KeptCommand, isTold: boolean, withText: boolean): KnownCommand {
  // KnownStatus is RECEIVED (1), then the codes of CommandResultCode in their order.
  const status: KnownStatus = isTold ? result + 1 : KnownStatus.KNOWN_STATUS_RECEIVED;
  return { executionId, status, code: isTold && withText ? code : '', message: isTold && withText ? text : '', time: new Date(time) };
}

const OUTCOMES: Readonly<Partial<Record<ResultOutcome, string>>> = {
  [ResultOutcome.RESULT_OUTCOME_APPLIED]: 'applied',
  [ResultOutcome.RESULT_OUTCOME_LATE]: 'late',
  [ResultOutcome.RESULT_OUTCOME_UNKNOWN]: 'unknown',
};

/** What became of a result, as events show it; undefined: nothing that is known here. */
export function findOutcomeName(outcome: ResultOutcome): string | undefined {
  return OUTCOMES[outcome];
}

/** The message of a command that is kept. Throws GatewayError `store_damaged` where its bytes are none. */
export function keptMessage({ executionId, message }: KeptCommand): Command {
  try {
    return Command.decode(message);
  } catch (error) {
    throw new GatewayError('store_damaged', `what is kept of command ${executionId} cannot be read`, { cause: error });
  }
}

/** The message as it is kept. */
export function commandBytes(command: Command): Uint8Array {
  return Command.encode(command).finish();
}

import { types } from 'node:util';
import { CommandResultCode } from '../../gen/gateway/v1/gateway_service';
import type { DeliveryResult } from '../options';

/** The result of a command, as it is stored and sent. */
export interface Outcome {
  readonly result: CommandResultCode;
  readonly code: string;
  readonly text: string;
  /** Unix milliseconds by the clock of the gateway. */
  readonly time: number;
}

const RESULTS: Readonly<Record<DeliveryResult['result'], CommandResultCode>> = {
  accepted: CommandResultCode.COMMAND_RESULT_CODE_ACCEPTED,
  rejected: CommandResultCode.COMMAND_RESULT_CODE_REJECTED,
  failed: CommandResultCode.COMMAND_RESULT_CODE_FAILED,
  no_answer: CommandResultCode.COMMAND_RESULT_CODE_NO_ANSWER,
  unreachable: CommandResultCode.COMMAND_RESULT_CODE_UNREACHABLE,
  refused: CommandResultCode.COMMAND_RESULT_CODE_REFUSED,
};

/** The maximum lengths of a code and a message on the server, in characters. */
const MAX_CODE_LENGTH = 128;
const MAX_TEXT_LENGTH = 2000;
// The times that a protobuf Timestamp allows: the years 1 to 9999.
const MIN_TIME = -62_135_596_800_000;
const MAX_TIME = 253_402_300_799_999;

/** Creates an outcome with the current time. */
export function createOutcome(result: DeliveryResult['result'], code: string, text: string): Outcome {
  return { result: RESULTS[result], code, text, time: Date.now() };
}

/** Creates the outcome of a command that was not started in time. Nothing reached the device. */
export function createExpiredOutcome(text: string): Outcome {
  return { result: CommandResultCode.COMMAND_RESULT_CODE_EXPIRED, code: 'expired', text, time: Date.now() };
}

/**
 * Converts the return value of `deliver`. Texts that are too long are truncated. An invalid result becomes `no_answer`.
 */
export function parseOutcome(returnValue: unknown): Outcome {
  const { result, code, message, time } = (returnValue ?? {}) as Partial<Record<keyof DeliveryResult, unknown>>;
  if (typeof result !== 'string' || !Object.hasOwn(RESULTS, result)) {
    return createOutcome(
      'no_answer',
      'result_unknown',
      `deliver returned the unknown result ${describeValue(result)}; use one of ${Object.keys(RESULTS).join(', ')}`,
    );
  }
  return {
    result: RESULTS[result as DeliveryResult['result']],
    code: toText(code, MAX_CODE_LENGTH),
    text: toText(message, MAX_TEXT_LENGTH),
    time: toTime(time),
  };
}

/** Converts an error of `deliver`. It is unknown what reached the device. */
export function toErrorOutcome(error: unknown): Outcome {
  const text = error instanceof Error ? error.message : String(error);
  return createOutcome('no_answer', 'delivery_failed', toText(text, MAX_TEXT_LENGTH));
}

/** Returns the name of a result in events, for example `accepted` or `expired`. */
export function getResultName(result: number): string {
  return (CommandResultCode[result] ?? 'unknown').replace('COMMAND_RESULT_CODE_', '').toLowerCase();
}

/** Returns a text or a number as text, at most `maxLength` characters; empty for anything else. */
function toText(value: unknown, maxLength: number): string {
  const text = typeof value === 'number' ? String(value) : value;
  return typeof text === 'string' ? text.slice(0, maxLength) : '';
}

function describeValue(value: unknown): string {
  return typeof value === 'string' ? JSON.stringify(value.slice(0, 40)) : typeof value;
}

/** Returns the time of a Date between the years 1 and 9999; the current time for anything else. */
function toTime(time: unknown): number {
  const milliseconds = types.isDate(time) ? time.getTime() : Number.NaN;
  return milliseconds >= MIN_TIME && milliseconds <= MAX_TIME ? milliseconds : Date.now();
}

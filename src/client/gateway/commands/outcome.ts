import { types } from 'node:util';
import { CommandResultCode } from '../../gen/gateway/v1/gateway_service';
import type { DeliveryResult } from '../options';

/** How a command ended, as it is kept and told. */
export interface Outcome {
  readonly result: CommandResultCode;
  readonly code: string;
  readonly text: string;
  /** Unix milliseconds, by the gateway's clock. */
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

/** What the server takes of a code and of a message, in characters. */
const LONGEST_CODE = 128;
const LONGEST_TEXT = 2000;
// The years 1 to 9999.
const FIRST_TIME = -62_135_596_800_000;
const LAST_TIME = 253_402_300_799_999;

/** An outcome of now. */
export function outcome(result: DeliveryResult['result'], code: string, text: string): Outcome {
  return { result: RESULTS[result], code, text, time: Date.now() };
}

/** It was not begun in time: nothing reached the device. */
export function expired(text: string): Outcome {
  return { result: CommandResultCode.COMMAND_RESULT_CODE_EXPIRED, code: 'expired', text, time: Date.now() };
}

/** What a delivery answered, as the server takes it: what is too long is cut, and what is no result at all is `no_answer`. */
export function outcomeOf(given: unknown): Outcome {
  const { result, code, message, time } = (given ?? {}) as Partial<Record<keyof DeliveryResult, unknown>>;
  if (typeof result !== 'string' || !Object.hasOwn(RESULTS, result)) {
    return outcome('no_answer', 'result_unknown', `deliver answered ${shown(result)}, which is no result; give one of ${Object.keys(RESULTS).join(', ')}`);
  }
  return { result: RESULTS[result as DeliveryResult['result']], code: textOf(code, LONGEST_CODE), text: textOf(message, LONGEST_TEXT), time: timeOf(time) };
}

/** What a delivery threw: nobody knows what reached the device. */
export function outcomeOfError(error: unknown): Outcome {
  const text = error instanceof Error ? error.message : String(error);
  return outcome('no_answer', 'delivery_failed', textOf(text, LONGEST_TEXT));
}

/** The name of a result in events: `accepted`, `expired`, … */
export function nameOf(result: number): string {
  return (CommandResultCode[result] ?? 'unknown').replace('COMMAND_RESULT_CODE_', '').toLowerCase();
}

function textOf(value: unknown, longest: number): string {
  const text = typeof value === 'number' ? String(value) : value;
  return typeof text === 'string' ? text.slice(0, longest) : '';
}

function shown(value: unknown): string {
  return typeof value === 'string' ? JSON.stringify(value.slice(0, 40)) : typeof value;
}

function timeOf(time: unknown): number {
  const given = types.isDate(time) ? time.getTime() : Number.NaN;
  return given >= FIRST_TIME && given <= LAST_TIME ? given : Date.now();
}

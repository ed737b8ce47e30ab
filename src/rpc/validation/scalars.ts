import { ScalarType, type DescEnum, type DescMessage } from '@bufbuild/protobuf';
import type { Violation } from '../../kernel/errors';
import type { FieldRules } from '../descriptors';
import { jsonCheck } from './json';
import { stringFault, type Fault } from './strings';

/** Adds what is wrong with one value that was given. */
export type ValueCheck = (value: unknown, path: string, out: Violation[]) => void;

/** The check of a scalar; undefined where every value is right. */
export function scalarCheck(type: ScalarType, rules: FieldRules | undefined): ValueCheck | undefined {
  if (type === ScalarType.BOOL) return undefined;
  if (type === ScalarType.STRING) return checkOf(stringFault(rules));
  if (type === ScalarType.BYTES) return rules?.maxBytes ? checkOf(bytesFault(rules.maxBytes)) : undefined;
  return checkOf(numberFault(rules?.min ?? -Infinity, rules?.max ?? Infinity));
}

/** The check of an enum: its number must be one that the proto names. */
export function enumCheck(desc: DescEnum): ValueCheck {
  const known = new Set(desc.values.map((value) => value.number));
  const prefix = desc.sharedPrefix ?? '';
  const names = desc.values.filter((value) => value.number !== 0).map((value) => `\`${value.name.slice(prefix.length).toLowerCase()}\``);
  const fault = `is not a value of ${desc.name}; choose one of ${names.join(', ')}`;
  return checkOf((value: number) => (known.has(value) ? undefined : fault));
}

/** The check of a message of google.protobuf that ts-proto treats in its own way; undefined for any other message. */
export function wellKnownCheck(desc: DescMessage, rules: FieldRules | undefined): ValueCheck | undefined {
  switch (desc.typeName) {
    case 'google.protobuf.Struct':
    case 'google.protobuf.Value':
    case 'google.protobuf.ListValue':
      return jsonCheck(rules);
    case 'google.protobuf.Timestamp':
      return checkOf(timestampFault);
    case 'google.protobuf.Duration':
      return checkOf(durationFault);
    default:
      if (desc.typeName.startsWith('google.protobuf.')) throw new Error(`the field rules do not know ${desc.typeName} yet; add it to src/rpc/validation/scalars.ts`);
      return undefined;
  }
}

function checkOf<Value>(fault: Fault<Value>): ValueCheck {
  return (value, path, out) => {
    const found = fault(value as Value);
    if (found) out.push({ field: path, description: found });
  };
}

function bytesFault(most: number): Fault<Uint8Array> {
  return (bytes) => (bytes.length > most ? `is ${bytes.length} bytes long; at most ${most} are allowed` : undefined);
}

function numberFault(least: number, most: number): Fault<number> {
  const range = rangeInWords(least, most);
  return (value) => {
    if (!Number.isFinite(value)) return `is not a finite number${range && `; it must be ${range}`}`;
    return value < least || value > most ? `is ${value}; it must be ${range}` : undefined;
  };
}

function rangeInWords(least: number, most: number): string {
  if (least === -Infinity) return most === Infinity ? '' : `at most ${most}`;
  return most === Infinity ? `at least ${least}` : `${least} to ${most}`;
}

interface SecondsAndNanos {
  readonly seconds: number;
  readonly nanos: number;
}

// 0001-01-01T00:00:00Z to 9999-12-31T23:59:59Z, the range of google.protobuf.Timestamp.
const FIRST_SECOND = -62_135_596_800;
const LAST_SECOND = 253_402_300_799;

function timestampFault({ seconds, nanos }: SecondsAndNanos): string | undefined {
  if (seconds >= FIRST_SECOND && seconds <= LAST_SECOND && nanos >= 0 && nanos <= 999_999_999) return undefined;
  return 'is not a time between the years 1 and 9999 (with nanos from 0 to 999999999)';
}

const LONGEST_DURATION = 315_576_000_000;

function durationFault({ seconds, nanos }: SecondsAndNanos): string | undefined {
  const sameSign = seconds === 0 || nanos === 0 || Math.sign(seconds) === Math.sign(nanos);
  if (Math.abs(seconds) <= LONGEST_DURATION && Math.abs(nanos) <= 999_999_999 && sameSign) return undefined;
  return 'is not a duration of at most 10000 years (with nanos of the same sign)';
}

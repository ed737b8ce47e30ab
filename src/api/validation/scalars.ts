import { ScalarType, type DescEnum, type DescMessage } from '@bufbuild/protobuf';
import type { Violation } from '../../kernel/errors';
import { isValidTimestamp } from '../../kernel/timestamps';
import type { FieldRules } from '../descriptors/descriptors';
import { MAX_DURATION_SECONDS, type SecondsAndNanos } from '../json/times';
import { createJsonCheck } from './json';
import { createStringRule, type Rule } from './strings';

/** Appends the violations of a value to `out`. Not called for unset fields. */
export type ValueCheck = (value: unknown, path: string, out: Violation[]) => void;

/** Creates the check of a scalar; undefined if every value is valid. */
export function createScalarCheck(type: ScalarType, rules: FieldRules | undefined): ValueCheck | undefined {
  if (type === ScalarType.BOOL) return undefined;
  if (type === ScalarType.STRING) return createCheck(createStringRule(rules));
  if (type === ScalarType.BYTES) return rules?.maxBytes ? createCheck(createBytesRule(rules.maxBytes)) : undefined;
  return createCheck(createNumberRule(rules?.min ?? -Infinity, rules?.max ?? Infinity));
}

/** Creates the check of an enum: its number must be declared in the proto. */
export function createEnumCheck(desc: DescEnum): ValueCheck {
  const declaredNumbers = new Set(desc.values.map((value) => value.number));
  const prefix = desc.sharedPrefix ?? '';
  const names = desc.values
    .filter((value) => value.number !== 0)
    .map((value) => `\`${value.name.slice(prefix.length).toLowerCase()}\``);
  const violation = `is not a value of ${desc.name}: use one of ${names.join(', ')}`;
  return createCheck((value: number) => (declaredNumbers.has(value) ? undefined : violation));
}

/**
 * Creates the check of a google.protobuf message that ts-proto maps to its own type; undefined for other messages.
 * Throws for a google.protobuf message that is not supported.
 */
export function createWellKnownCheck(desc: DescMessage, rules: FieldRules | undefined): ValueCheck | undefined {
  switch (desc.typeName) {
    case 'google.protobuf.Struct':
    case 'google.protobuf.Value':
    case 'google.protobuf.ListValue':
      return createJsonCheck(rules);
    case 'google.protobuf.Timestamp':
      return createCheck(findTimestampViolation);
    case 'google.protobuf.Duration':
      return createCheck(findDurationViolation);
    default:
      if (desc.typeName.startsWith('google.protobuf.'))
        throw new Error(`field rules do not support ${desc.typeName}: add it to src/api/validation/scalars.ts`);
      return undefined;
  }
}

/** Converts a rule, which returns the description of what is wrong, to a check, which appends a violation with it. */
function createCheck<Value>(rule: Rule<Value>): ValueCheck {
  return (value, path, out) => {
    const description = rule(value as Value);
    if (description) out.push({ field: path, description });
  };
}

/** Creates the rule for the maximum number of bytes. */
function createBytesRule(max: number): Rule<Uint8Array> {
  return (bytes) =>
    bytes.length > max ? `is ${bytes.length} bytes long: at most ${max} bytes are allowed` : undefined;
}

/** Creates the rule for the range of a number. Infinite numbers and NaN are invalid. */
function createNumberRule(min: number, max: number): Rule<number> {
  const range = formatRange(min, max);
  return (value) => {
    if (!Number.isFinite(value)) return `must be a finite number${range && ` ${range}`} (got ${value})`;
    return value < min || value > max ? `must be a number ${range} (got ${value})` : undefined;
  };
}

/** Formats the range of a number for a message; empty if there are no limits. */
function formatRange(min: number, max: number): string {
  if (min === -Infinity) return max === Infinity ? '' : `of at most ${max}`;
  return max === Infinity ? `of at least ${min}` : `from ${min} to ${max}`;
}

/** Returns what is wrong with a google.protobuf.Timestamp; undefined if it is valid. */
function findTimestampViolation(time: SecondsAndNanos): string | undefined {
  if (isValidTimestamp(time)) return undefined;
  return 'must be a time between the years 1 and 9999, with nanos from 0 to 999999999';
}

/** Returns what is wrong with a google.protobuf.Duration; undefined if it is valid. */
function findDurationViolation({ seconds, nanos }: SecondsAndNanos): string | undefined {
  const hasSameSign = seconds === 0 || nanos === 0 || Math.sign(seconds) === Math.sign(nanos);
  if (Math.abs(seconds) <= MAX_DURATION_SECONDS && Math.abs(nanos) <= 999_999_999 && hasSameSign) return undefined;
  return 'must be a duration of at most 10000 years, with seconds and nanos of the same sign';
}

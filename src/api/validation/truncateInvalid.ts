import { ScalarType, type DescField } from '@bufbuild/protobuf';
import type { Violation } from '../../kernel/errors';
import type { FieldRules } from '../descriptors/descriptors';
import type { ValueCheck } from './scalars';
import { MAX_LENGTH_BY_FORMAT } from './strings';

/** Checks the value of `key` in `container`, a message, list or map. May replace an invalid value. */
export type ContainedValueCheck = (
  container: Record<string | number, unknown>,
  key: string | number,
  path: string,
  out: Violation[],
) => void;

/**
 * Extends a check so that it truncates an invalid string in place to the size that its rules allow, and empties invalid
 * JSON. Handlers that inspect an invalid message, in order to report all violations together, then take no longer than
 * with a valid message.
 */
export function addTruncation(
  field: DescField,
  rules: FieldRules | undefined,
  check: ValueCheck | undefined,
): ContainedValueCheck | undefined {
  if (!check) return undefined;
  const truncate =
    field.scalar === ScalarType.STRING
      ? createTextTruncation(rules)
      : EMPTY_VALUE_BY_TYPE[field.message?.typeName ?? ''];
  if (!truncate) return (container, key, path, out) => check(container[key], path, out);
  return (container, key, path, out) => {
    const earlierCount = out.length;
    check(container[key], path, out);
    // Only a violation of the value itself, not of one of its fields.
    if (out.slice(earlierCount).some((violation) => violation.field === path))
      container[key] = truncate(container[key]);
  };
}

const EMPTY_VALUE_BY_TYPE: Readonly<Record<string, () => unknown>> = {
  'google.protobuf.Struct': () => ({}),
  'google.protobuf.ListValue': () => [],
  'google.protobuf.Value': () => null,
};

/** Creates the function that truncates a string to the size that its rules allow; undefined if they do not limit it. */
function createTextTruncation(rules: FieldRules | undefined): ((value: unknown) => unknown) | undefined {
  const max = rules && (rules.maxLength || rules.maxBytes || MAX_LENGTH_BY_FORMAT[rules.format]);
  return max ? (text) => (text as string).slice(0, max) : undefined;
}

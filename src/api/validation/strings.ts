import { hasPrintableText, NO_PRINTABLE_TEXT } from '../../kernel/printableText';
import type { FieldRules } from '../descriptors/descriptors';

/** Returns what is wrong with a value and what would be right; undefined if the value is valid. */
export type Rule<Value> = (value: Value) => string | undefined;

/** The numbers of `plantroom.v1.StringFormat`. */
export const FORMAT = { none: 0, name: 1, id: 2, etag: 3 } as const;

/** The maximum number of characters of a string, by its format. */
export const MAX_LENGTH_BY_FORMAT: Readonly<Record<number, number>> = {
  [FORMAT.name]: 255,
  [FORMAT.id]: 128,
  [FORMAT.etag]: 128,
};

/** The maximum number of bytes of a UTF-16 code unit in UTF-8. A short text is therefore valid without counting. */
const MAX_BYTES_PER_UNIT = 3;
const NUL = '\0';
// The control characters of Unicode, and the two separators that break a line.
const CONTROL = /[\p{Cc}\u2028\u2029]/u;
const CONTROL_OR_SPACE = /[\p{Cc}\s]/u;

/**
 * Counts the characters (Unicode code points) of a string. A surrogate pair is two code units, but one character, so
 * its first half is not counted.
 */
export function countCharacters(text: string): number {
  let count = text.length;
  for (let index = 0; index < text.length; index += 1) {
    const code = text.charCodeAt(index);
    if (code >= 0xd800 && code <= 0xdbff) count -= 1;
  }
  return count;
}

/** Creates a rule that returns the first violation of a string: of Unicode, of its format or of its field rules. */
export function createStringRule(rules: FieldRules | undefined): Rule<string> {
  const stringRules = [
    findUnicodeViolation,
    ...createFormatRules(rules?.format ?? FORMAT.none),
    ...(rules ? createFieldRules(rules) : []),
  ];
  return (text) => {
    for (const rule of stringRules) {
      const violation = rule(text);
      if (violation) return violation;
    }
    return undefined;
  };
}

/** Checks what applies to every string: no NUL character, and well-formed Unicode. */
export function findUnicodeViolation(text: string): string | undefined {
  if (text.includes(NUL)) return 'contains the NUL character: remove it';
  return text.isWellFormed()
    ? undefined
    : 'is not well-formed Unicode (half of a surrogate pair): send complete characters';
}

/** Creates the rules of a string format, without those of every string; empty for a string without a format. */
function createFormatRules(format: number): Rule<string>[] {
  switch (format) {
    case FORMAT.name:
      return [
        createLengthRule(1, 255, 'characters after trimming'),
        (text) =>
          CONTROL.test(text)
            ? 'contains a control character: use 1 to 255 characters without control characters'
            : undefined,
        (text) => (hasPrintableText(text) ? undefined : NO_PRINTABLE_TEXT),
      ];
    case FORMAT.id:
      return [
        createLengthRule(1, 128, 'characters'),
        (text) =>
          CONTROL_OR_SPACE.test(text)
            ? 'contains white space or a control character: use the identifier as the server returned it'
            : undefined,
      ];
    case FORMAT.etag:
      return [
        (text) =>
          text.length < 1 || text.length > 128 || CONTROL_OR_SPACE.test(text)
            ? 'is not a valid etag: use the etag that was returned with the record, or omit it'
            : undefined,
      ];
    default:
      return [];
  }
}

/**
 * Creates the rules for the length and the allowed values of a string. A maximum of 0 in the field rules means none.
 */
function createFieldRules(rules: FieldRules): Rule<string>[] {
  const stringRules: Rule<string>[] = [];
  const { minLength, maxLength, maxBytes } = rules;
  if (minLength > 0 || maxLength > 0)
    stringRules.push(createLengthRule(minLength, maxLength || Infinity, 'characters'));
  if (maxBytes > 0) {
    stringRules.push((text) =>
      text.length * MAX_BYTES_PER_UNIT > maxBytes && Buffer.byteLength(text) > maxBytes
        ? `is ${Buffer.byteLength(text)} bytes long in UTF-8: at most ${maxBytes} bytes are allowed`
        : undefined,
    );
  }
  if (rules.in.length > 0) {
    const allowed = new Set(rules.in);
    const list = rules.in.map((value) => `\`${value}\``).join(', ');
    stringRules.push((text) => (allowed.has(text) ? undefined : `must be one of ${list}`));
  }
  return stringRules;
}

/**
 * Creates the rule for the number of characters. A text whose number of code units is between 2 * min and max is valid
 * without counting, because a character has one or two code units.
 */
function createLengthRule(min: number, max: number, unit: string): Rule<string> {
  const range = max === Infinity ? `at least ${min} ${unit}` : `${min} to ${max} ${unit}`;
  return (text) => {
    if (text.length >= min * 2 && text.length <= max) return undefined;
    const count = countCharacters(text);
    return count < min || count > max ? `must have ${range} (got ${count})` : undefined;
  };
}

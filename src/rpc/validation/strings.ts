import { isVisible, NOTHING_VISIBLE } from '../../kernel/visible';
import type { FieldRules } from '../descriptors';

/** Says what is wrong with a value and what would be right; undefined when nothing is. */
export type Fault<Value> = (value: Value) => string | undefined;

/** `plantroom.v1.StringFormat`. */
export const FORMAT = { none: 0, name: 1, id: 2, etag: 3 } as const;

/** The most characters that a text of a format has. */
export const LONGEST_OF_FORMAT: Readonly<Record<number, number>> = { [FORMAT.name]: 255, [FORMAT.id]: 128, [FORMAT.etag]: 128 };

const NUL = '\0';
// Control characters of Unicode, and the two separators that break a line.
const CONTROL = /[\p{Cc}\u2028\u2029]/u;
const CONTROL_OR_SPACE = /[\p{Cc}\s]/u;

/** The number of characters (Unicode code points). */
export function characters(text: string): number {
  let count = text.length;
  for (let at = 0; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    if (code >= 0xd800 && code <= 0xdbff) count -= 1;
  }
  return count;
}

/** What may be wrong with one string that was given. */
export function stringFault(rules: FieldRules | undefined): Fault<string> {
  const faults = [textFault, ...formatFaults(rules?.format ?? FORMAT.none), ...(rules ? ruleFaults(rules) : [])];
  return (text) => {
    for (const fault of faults) {
      const found = fault(text);
      if (found) return found;
    }
    return undefined;
  };
}

/** What no string may hold, whatever its rules. */
export function textFault(text: string): string | undefined {
  if (text.includes(NUL)) return 'holds the character NUL; leave it out';
  return text.isWellFormed() ? undefined : 'is not well-formed Unicode (half of a surrogate pair); send whole characters';
}

function formatFaults(format: number): Fault<string>[] {
  switch (format) {
    case FORMAT.name:
      return [
        length(1, 255, 'characters after trimming'),
        (text) => (CONTROL.test(text) ? 'holds a control character; a name is 1 to 255 characters, none of them a control character' : undefined),
        (text) => (isVisible(text) ? undefined : NOTHING_VISIBLE),
      ];
    case FORMAT.id:
      return [
        length(1, 128, 'characters'),
        (text) => (CONTROL_OR_SPACE.test(text) ? 'holds white space or a control character; give an identifier as the server gave it out' : undefined),
      ];
    case FORMAT.etag:
      return [(text) => (text.length < 1 || text.length > 128 || CONTROL_OR_SPACE.test(text) ? 'is not an etag; give the one that was read with the record, or none' : undefined)];
    default:
      return [];
  }
}

function ruleFaults(rules: FieldRules): Fault<string>[] {
  const faults: Fault<string>[] = [];
  const { minLength, maxLength, maxBytes } = rules;
  if (minLength > 0 || maxLength > 0) faults.push(length(minLength, maxLength || Infinity, 'characters'));
  if (maxBytes > 0) {
    faults.push((text) => (text.length * 3 > maxBytes && Buffer.byteLength(text) > maxBytes ? `is ${Buffer.byteLength(text)} bytes of UTF-8 long; at most ${maxBytes} are allowed` : undefined));
  }
  if (rules.in.length > 0) {
    const allowed = new Set(rules.in);
    const list = rules.in.map((one) => `\`${one}\``).join(', ');
    faults.push((text) => (allowed.has(text) ? undefined : `must be one of ${list}`));
  }
  return faults;
}

function length(least: number, most: number, unit: string): Fault<string> {
  const right = most === Infinity ? `at least ${least} ${unit}` : `${least} to ${most} ${unit}`;
  return (text) => {
    if (text.length >= least * 2 && text.length <= most) return undefined;
    const count = characters(text);
    return count < least || count > most ? `is ${count} characters long; it must be ${right}` : undefined;
  };
}

import type { GuestProblem } from '../sandboxProtocol';
import { concat, isArray, stringify, toText } from './intrinsics';
import { describeValue, formatValue } from './formatValue';

// Compared with the number of characters: each takes at least one byte. The host checks the exact number of bytes.
const MAX_BYTES = 65_536;
const MAX_DEPTH = 32;
/** The maximum length of the JSON text of all NonFiniteNumbers, before the last one. */
const MAX_NON_FINITE_LENGTH = 10_000;
const TOO_LARGE: GuestProblem = { code: 'too_large', message: 'data is larger than 65536 bytes as JSON; return less' };
const TOO_DEEP: GuestProblem = { code: 'bad_output', message: 'data is nested deeper than 32 levels; make it flatter' };

/** The JSON text (undefined if JSON.stringify returns undefined), or why the value cannot be written. */
export interface JsonOrProblem {
  readonly text: string | undefined;
  /** JSON text: the first NonFiniteNumbers of the value, which JSON.stringify writes as null. */
  readonly nonFinite: string;
  readonly problem: GuestProblem | undefined;
}

/** An object or list that is being written. */
interface Container {
  readonly value: unknown;
  readonly isList: boolean;
  /** Its key in the parent. */
  readonly key: string;
  readonly depth: number;
  readonly parent: Container | undefined;
}

/**
 * Writes a value like JSON.stringify, but stops as soon as it is too large, too deep or circular: the engine itself
 * continues until the memory is used up, and cannot be interrupted while it does. Throws what the script's own getters
 * and toJSON methods throw.
 */
export function writeJson(data: object): JsonOrProblem {
  let container: Container | undefined;
  let remainingCharacters = MAX_BYTES;
  let problem: GuestProblem | undefined;
  let nonFinite = '';

  /**
   * The replacer of JSON.stringify, which calls it for each value before it writes it. `this` is the object or list
   * that holds the value, so containers that are complete can be recognized and left.
   */
  function checkBeforeWriting(this: unknown, key: string, value: unknown): unknown {
    while (container !== undefined && container.value !== this) container = container.parent;
    if (isOmitted(value, container)) return value;
    remainingCharacters -= getMinLength(key, value, container);
    problem = remainingCharacters < 0 ? TOO_LARGE : findProblem(key, value, container);
    if (problem) throw problem; // stops JSON.stringify; caught below
    if (isNonFinite(value)) nonFinite = appendNonFinite(nonFinite, key, value, container);
    if (typeof value === 'object' && value !== null)
      container = { value, isList: isArray(value), key, depth: getDepth(container), parent: container };
    return value;
  }

  try {
    const text = stringify(data, checkBeforeWriting);
    return { text, nonFinite: concat('[', nonFinite, ']'), problem };
  } catch (thrown) {
    if (problem === undefined) throw thrown;
    return { text: undefined, nonFinite: '[]', problem };
  }
}

/** Returns why a value cannot be written at its position; undefined if it can. */
function findProblem(key: string, value: unknown, container: Container | undefined): GuestProblem | undefined {
  if (getDepth(container) > MAX_DEPTH) return TOO_DEEP;
  if (typeof value === 'bigint')
    return createProblemAt(
      key,
      container,
      concat(' is ', describeValue(value), '; JSON has no such numbers: return Number(...) of it'),
    );
  return typeof value === 'object' && value !== null && isCircular(value, container)
    ? createProblemAt(key, container, ' is an object that holds it; return no circles')
    : undefined;
}

function createProblemAt(key: string, container: Container | undefined, text: string): GuestProblem {
  return { code: 'bad_output', message: concat(formatPath(key, container), text) };
}

/** Returns the depth of a value in the container. The outermost value has depth 1. */
function getDepth(container: Container | undefined): number {
  return container === undefined ? 1 : container.depth + 1;
}

/** Whether JSON.stringify omits the value. In a list it writes null instead. */
function isOmitted(value: unknown, container: Container | undefined): boolean {
  return (
    (value === undefined || typeof value === 'function' || typeof value === 'symbol') && container?.isList !== true
  );
}

/** Returns a lower bound of the characters that a value and its key take, without the values inside it. */
function getMinLength(key: string, value: unknown, container: Container | undefined): number {
  const keyLength = container === undefined || container.isList ? 0 : key.length + 3; // two quotes and a colon
  return keyLength + (typeof value === 'string' ? value.length + 2 : 1); // a string has two quotes
}

/** Whether the value is one of the containers around it. */
function isCircular(value: object, container: Container | undefined): boolean {
  for (let outer = container; outer !== undefined; outer = outer.parent) if (outer.value === value) return true;
  return false;
}

/** Whether a value is a number that JSON does not have. The subtraction is 0 for every finite number. */
function isNonFinite(value: unknown): value is number {
  return typeof value === 'number' && value - value !== 0;
}

/** Appends a NonFiniteNumber to the JSON text of earlier ones, unless that is too long already. */
function appendNonFinite(earlier: string, key: string, value: number, container: Container | undefined): string {
  if (earlier.length > MAX_NON_FINITE_LENGTH) return earlier;
  const comma = earlier === '' ? '' : ',';
  return concat(earlier, comma, '{"path":[', formatSteps(key, container), '],"text":"', toText(value), '"}');
}

/** Formats the keys that lead to a value as JSON texts, without the empty key of the outermost value. */
function formatSteps(key: string, container: Container | undefined): string {
  if (container === undefined) return '';
  const outer = formatSteps(container.key, container.parent);
  return concat(outer, outer === '' ? '' : ',', stringify(key));
}

/** Formats the position of a value, for example `data.readings[3].name`. */
function formatPath(key: string, container: Container | undefined): string {
  if (container === undefined) return 'data';
  const shownKey = formatValue(key, 40);
  return container.isList
    ? concat(formatPath(container.key, container.parent), '[', shownKey, ']')
    : concat(formatPath(container.key, container.parent), '.', shownKey);
}

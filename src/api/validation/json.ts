import type { Violation } from '../../kernel/errors';
import type { FieldRules } from '../descriptors/descriptors';
import { findUnicodeViolation } from './strings';

// Deeper values are rejected regardless of the rules, so that recursive code is safe.
const MAX_DEPTH = 100;

interface Node {
  readonly value: unknown;
  readonly path: string;
  readonly depth: number;
}

/**
 * Creates the check of a JSON value (Struct, Value, ListValue): its depth and size, no NUL characters, finite numbers,
 * and no key `__proto__`. It uses a stack instead of recursion, because a deep value could overflow the call stack.
 */
export function createJsonCheck(
  rules: FieldRules | undefined,
): (value: unknown, path: string, out: Violation[]) => void {
  const maxDepth = rules?.maxDepth || MAX_DEPTH;
  const maxBytes = rules?.maxBytes ?? 0;
  return (value, path, out) => {
    const earlierCount = out.length;
    const stack: Node[] = [{ value, path, depth: 1 }];
    let remainingBytes = maxBytes || Infinity;
    for (let node = stack.pop(); node; node = stack.pop()) {
      if (node.depth > maxDepth) {
        out.push({ field: path, description: `is nested too deeply: at most ${maxDepth} levels are allowed` });
        return;
      }
      remainingBytes -= getMinBytes(node.value);
      if (remainingBytes < 0) {
        out.push({ field: path, description: `is too large: at most ${maxBytes} bytes of JSON are allowed` });
        return;
      }
      if (typeof node.value === 'object' && node.value !== null) pushChildren(node, stack, out);
      else checkLeaf(node, out);
    }
    if (maxBytes > 0 && out.length === earlierCount) checkSize(value, path, maxBytes, out);
  };
}

/**
 * Returns the minimum size of a value as JSON, in bytes, including its keys but without nested values. A character
 * takes at least one byte.
 */
function getMinBytes(value: unknown): number {
  if (typeof value === 'string') return value.length + 2; // its quotes
  if (typeof value !== 'object' || value === null) return 1;
  if (Array.isArray(value)) return value.length + 1; // its brackets, and a comma between two items
  return Object.keys(value).reduce((sum, key) => sum + key.length + 4, 1); // quotes, colon and comma of each key
}

/** Checks the keys of an object, and pushes its values, or the items of an array, to the stack of values to check. */
function pushChildren(node: Node, stack: Node[], out: Violation[]): void {
  const { value, path, depth } = node;
  if (Array.isArray(value)) {
    for (let index = value.length - 1; index >= 0; index -= 1)
      stack.push({ value: value[index], path: `${path}[${index}]`, depth: depth + 1 });
    return;
  }
  if (!hasPlainKeys(value as object))
    out.push({ field: path, description: 'contains the key `__proto__`: use another name' });
  for (const [key, inner] of Object.entries(value as object)) {
    const violation = findUnicodeViolation(key);
    if (violation) out.push({ field: path, description: `has a key that ${violation}` });
    stack.push({ value: inner, path: `${path}.${key}`, depth: depth + 1 });
  }
}

/** Checks a value that is not an object or array. */
function checkLeaf({ value, path }: Node, out: Violation[]): void {
  if (typeof value === 'string') {
    const violation = findUnicodeViolation(value);
    if (violation) out.push({ field: path, description: violation });
  } else if (typeof value === 'number') {
    if (!Number.isFinite(value)) out.push({ field: path, description: `must be a finite number (got ${value})` });
  } else if (value === undefined) {
    out.push({ field: path, description: 'has no value: send null instead' });
  }
}

/** Checks the exact size as JSON. It is only computed for values that could be too large by their minimum size. */
function checkSize(value: unknown, path: string, maxBytes: number, out: Violation[]): void {
  const bytes = Buffer.byteLength(JSON.stringify(value) ?? '');
  if (bytes > maxBytes)
    out.push({ field: path, description: `is ${bytes} bytes of JSON: at most ${maxBytes} bytes are allowed` });
}

/**
 * Returns false if an object was received with the key `__proto__`: as an own key, or as a prototype that a decoder set
 * from it.
 */
export function hasPlainKeys(value: object): boolean {
  const prototype = Object.getPrototypeOf(value) as unknown;
  return (
    (prototype === Object.prototype || prototype === null || isObjectPrototypeOfOtherRealm(prototype)) &&
    !Object.hasOwn(value, '__proto__')
  );
}

/**
 * Detects the Object.prototype of another realm, for example of a test environment: it has no prototype itself, but it
 * has the methods of objects.
 */
function isObjectPrototypeOfOtherRealm(prototype: unknown): boolean {
  return Object.getPrototypeOf(prototype) === null && Object.hasOwn(prototype as object, 'isPrototypeOf');
}

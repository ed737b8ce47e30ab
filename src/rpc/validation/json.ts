import type { Violation } from '../../kernel/errors';
import type { FieldRules } from '../descriptors';
import { textFault } from './strings';

// Deeper values are refused whatever the rules, so that nobody has to recurse into them.
const DEEPEST = 100;

interface Node {
  readonly value: unknown;
  readonly path: string;
  readonly depth: number;
}

/** Checks a JSON value (Struct, Value, ListValue): depth, size, no NUL, finite numbers, no key `__proto__`. */
export function jsonCheck(rules: FieldRules | undefined): (value: unknown, path: string, out: Violation[]) => void {
  const deepest = rules?.maxDepth || DEEPEST;
  const most = rules?.maxBytes ?? 0;
  return (value, path, out) => {
    const before = out.length;
    const stack: Node[] = [{ value, path, depth: 1 }];
    let left = most || Infinity;
    for (let node = stack.pop(); node; node = stack.pop()) {
      if (node.depth > deepest) {
        out.push({ field: path, description: `is nested too deep; at most ${deepest} levels are allowed` });
        return;
      }
      left -= leastBytes(node.value);
      if (left < 0) {
        out.push({ field: path, description: `is more than ${most} bytes of JSON; send at most that` });
        return;
      }
      if (typeof node.value === 'object' && node.value !== null) open(node, stack, out);
      else leaf(node, out);
    }
    if (most > 0 && out.length === before) sized(value, path, most, out);
  };
}

/** How many bytes a value takes as JSON at least, what is inside of it left out but for its keys. */
function leastBytes(value: unknown): number {
  if (typeof value === 'string') return value.length + 2;
  if (typeof value !== 'object' || value === null) return 1;
  if (Array.isArray(value)) return value.length + 1;
  return Object.keys(value).reduce((sum, key) => sum + key.length + 4, 1);
}

function open(node: Node, stack: Node[], out: Violation[]): void {
  const { value, path, depth } = node;
  if (Array.isArray(value)) {
    for (let at = value.length - 1; at >= 0; at -= 1) stack.push({ value: value[at], path: `${path}[${at}]`, depth: depth + 1 });
    return;
  }
  if (!hasPlainKeys(value as object)) out.push({ field: path, description: 'holds the key `__proto__`; choose another name' });
  for (const [key, inner] of Object.entries(value as object)) {
    const fault = textFault(key);
    if (fault) out.push({ field: path, description: `has a key that ${fault}` });
    stack.push({ value: inner, path: `${path}.${key}`, depth: depth + 1 });
  }
}

function leaf({ value, path }: Node, out: Violation[]): void {
  if (typeof value === 'string') {
    const fault = textFault(value);
    if (fault) out.push({ field: path, description: fault });
  } else if (typeof value === 'number') {
    if (!Number.isFinite(value)) out.push({ field: path, description: 'is not a number that JSON can hold; send a finite one' });
  } else if (value === undefined) {
    out.push({ field: path, description: 'has no value; send null where there is none' });
  }
}

function sized(value: unknown, path: string, most: number, out: Violation[]): void {
  const bytes = Buffer.byteLength(JSON.stringify(value) ?? '');
  if (bytes > most) out.push({ field: path, description: `is ${bytes} bytes of JSON; at most ${most} are allowed` });
}

/** False when a key `__proto__` came in: as a key of its own, or as a prototype that a decoder set by it. */
export function hasPlainKeys(value: object): boolean {
  const prototype = Object.getPrototypeOf(value) as unknown;
  return (prototype === Object.prototype || prototype === null || isForeign(prototype)) && !Object.hasOwn(value, '__proto__');
}

// A plain object of another realm: its prototype is the end of the chain and makes objects.
function isForeign(prototype: unknown): boolean {
  return Object.getPrototypeOf(prototype) === null && Object.hasOwn(prototype as object, 'isPrototypeOf');
}

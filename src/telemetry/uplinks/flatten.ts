import { itemPath, LONGEST_SOURCE_PATH, memberPath } from '../../devices';

/** A value of an uplink and its source path. Values are what JSON can hold; of objects and lists only empty ones. */
export type Sample = readonly [path: string, value: unknown];

/** What a payload holds: its first samples in its own order, or why it can never be stored. */
export type Flattened = { readonly samples: readonly Sample[]; readonly isComplete: boolean } | { readonly reason: string };

/** The greatest depth of a payload; a scalar has depth 1. */
export const DEEPEST_PAYLOAD = 32;

/** The most samples taken of one uplink, and the most paths kept of one physical device. */
export const MOST_PATHS = 500;

interface Walk {
  readonly samples: Sample[];
  isComplete: boolean;
}

/**
 * The values of a JSON object by their paths. Member names are only data, `__proto__` too, though a gateway's uplink with that one is refused before.
 * Of more than MOST_PATHS values the first are taken; a path that is too long to be mapped is left out.
 * Reasons: `payload_too_deep`, `payload_not_json` (a number that is not finite, or a value that JSON does not have).
 */
export function flatten(payload: Readonly<Record<string, unknown>>): Flattened {
  const walk: Walk = { samples: [], isComplete: true };
  const reason = visit(walk, '', payload, 1);
  return reason === undefined ? walk : { reason };
}

function visit(walk: Walk, path: string, value: unknown, depth: number): string | undefined {
  if (depth > DEEPEST_PAYLOAD) return 'payload_too_deep';
  if (!isJson(value)) return 'payload_not_json';
  const children = childrenOf(path, value);
  if (children.length === 0) return take(walk, path, value);
  for (const [childPath, child] of children) {
    if (walk.samples.length >= MOST_PATHS) {
      walk.isComplete = false;
      return undefined;
    }
    const reason = visit(walk, childPath, child, depth + 1);
    if (reason !== undefined) return reason;
  }
  return undefined;
}

function take(walk: Walk, path: string, value: unknown): undefined {
  if (path === '') return; // an empty payload has no values
  if (path.length > LONGEST_SOURCE_PATH) walk.isComplete = false;
  else walk.samples.push([path, value]);
}

function childrenOf(path: string, value: unknown): [string, unknown][] {
  if (Array.isArray(value)) return value.slice(0, MOST_PATHS + 1).map((item: unknown, index) => [itemPath(path, index), item]);
  if (typeof value === 'object' && value !== null) return Object.entries(value).map(([name, member]) => [memberPath(path, name), member]);
  return [];
}

function isJson(value: unknown): boolean {
  return value === null || typeof value === 'string' || typeof value === 'boolean' || typeof value === 'object' || Number.isFinite(value);
}

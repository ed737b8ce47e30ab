import { appendIndex, MAX_SOURCE_PATH_LENGTH, appendField } from '../../devices';

/** A value of an uplink and its source path. A value is a JSON scalar, an empty object or an empty list. */
export type Sample = readonly [path: string, value: unknown];

/**
 * The first samples of a payload in its order (`isComplete`: these are all), or the reason why it can never be stored.
 */
type FlattenResult =
  { readonly samples: readonly Sample[]; readonly isComplete: boolean } | { readonly reason: string };

/** The maximum depth of a payload; a scalar has depth 1. */
export const MAX_PAYLOAD_DEPTH = 32;

/** The maximum number of samples per uplink, and of stored paths per physical device. */
export const MAX_PATHS = 500;

/** The samples that are found so far. */
interface Walk {
  readonly samples: Sample[];
  isComplete: boolean;
}

/**
 * Lists the values of a JSON object with their paths. Any field name is allowed here, including `__proto__`, although
 * uplinks of gateways with that name are rejected earlier. Only the first MAX_PATHS values are returned, and paths that
 * are too long for a mapping are skipped. Reasons: `payload_too_deep`, `payload_not_json` (a number that is not finite,
 * or a value that JSON does not have).
 */
export function flatten(payload: Readonly<Record<string, unknown>>): FlattenResult {
  const walk: Walk = { samples: [], isComplete: true };
  const reason = collectSamples(walk, '', payload, 1);
  return reason === undefined ? walk : { reason };
}

/** Adds the values at and below a path to the walk. Returns the reason if the payload can never be stored. */
function collectSamples(walk: Walk, path: string, value: unknown, depth: number): string | undefined {
  if (depth > MAX_PAYLOAD_DEPTH) return 'payload_too_deep';
  if (!isJsonType(value)) return 'payload_not_json';
  const children = listChildren(path, value);
  if (children.length === 0) return addSample(walk, path, value);
  for (const [childPath, child] of children) {
    if (walk.samples.length >= MAX_PATHS) {
      walk.isComplete = false;
      return undefined;
    }
    const reason = collectSamples(walk, childPath, child, depth + 1);
    if (reason !== undefined) return reason;
  }
  return undefined;
}

/** Adds one value, unless its path is too long for a mapping. */
function addSample(walk: Walk, path: string, value: unknown): undefined {
  if (path === '') return; // an empty payload has no values
  if (path.length > MAX_SOURCE_PATH_LENGTH) walk.isComplete = false;
  else walk.samples.push([path, value]);
}

/**
 * Lists the fields of an object or the items of a list with their paths; empty for a scalar, an empty object or list.
 */
function listChildren(path: string, value: unknown): [string, unknown][] {
  if (Array.isArray(value))
    // One more than the limit, so that `collectSamples` notices that the samples are incomplete.
    return value.slice(0, MAX_PATHS + 1).map((item: unknown, index) => [appendIndex(path, index), item]);
  if (typeof value === 'object' && value !== null)
    return Object.entries(value).map(([name, child]) => [appendField(path, name), child]);
  return [];
}

/** Whether a value has a type that JSON has; the fields of objects and lists are not checked. */
function isJsonType(value: unknown): boolean {
  return (
    value === null ||
    typeof value === 'string' ||
    typeof value === 'boolean' ||
    typeof value === 'object' ||
    Number.isFinite(value)
  );
}

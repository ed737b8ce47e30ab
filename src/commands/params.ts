import { canonicalHash } from '../kernel/canonicalJson';
import type { Violation } from '../kernel/errors';
import type { JsonObject, JsonValue } from '../kernel/jsonValue';
import { valueProblem, wantedValue, type ParamsSchema } from './paramSchema';

/** Parameters with the defaults filled in. Only good if there are no violations. */
export interface EvaluatedParams {
  readonly params: JsonObject;
  /** Each names its parameter: `params.<name>`. */
  readonly violations: readonly Violation[];
}

// Beyond this nobody reads them one by one.
const MOST_UNKNOWN_NAMED = 50;

/** Holds the given parameters against the schema of a command and fills in the defaults. */
export function evaluateParams(schema: ParamsSchema, given: JsonObject): EvaluatedParams {
  const values: [string, JsonValue][] = [];
  const violations = unknownParams(schema, given);
  for (const [name, entry] of Object.entries(schema)) {
    const value = Object.hasOwn(given, name) ? given[name] : entry.default;
    const problem = value === undefined ? `is required; give ${wantedValue(entry)}` : valueProblem(entry, value);
    if (problem !== undefined) violations.push({ field: `params.${name}`, description: problem });
    else if (value !== undefined) values.push([name, value]);
  }
  return { params: Object.fromEntries(values), violations };
}

/** SHA-256 of the canonical form (RFC 8785) of evaluated parameters, hex: equal parameters, equal hashes. */
export function paramsHash(params: JsonObject): string {
  return canonicalHash(params);
}

function unknownParams(schema: ParamsSchema, given: JsonObject): Violation[] {
  const unknown = Object.keys(given).filter((name) => !Object.hasOwn(schema, name));
  const known = Object.keys(schema).join(', ') || 'none';
  if (unknown.length > MOST_UNKNOWN_NAMED) return [{ field: 'params', description: `holds ${unknown.length} parameters that the command does not have; it takes ${known}` }];
  return unknown.map((name) => ({ field: `params.${name}`, description: `is not a parameter of the command; it takes ${known}` }));
}

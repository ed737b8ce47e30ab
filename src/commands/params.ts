import { canonicalHash } from '../kernel/canonicalJson';
import type { Violation } from '../kernel/errors';
import type { JsonObject, JsonValue } from '../kernel/jsonValue';
import { findValueProblem, describeAllowedValue, type ParamsSchema } from './paramSchema';

/** Parameters with defaults applied. Valid only if there are no violations. */
interface EvaluatedParams {
  readonly params: JsonObject;
  /** Each names its parameter: `params.<name>`. */
  readonly violations: readonly Violation[];
}

// A longer list is not useful to read.
const MAX_LISTED_UNKNOWN = 50;

/** Validates parameters against the schema of a command and applies the defaults. */
export function evaluateParams(schema: ParamsSchema, input: JsonObject): EvaluatedParams {
  const values: [string, JsonValue][] = [];
  const violations = findUnknownParams(schema, input);
  for (const [name, entry] of Object.entries(schema)) {
    const value = Object.hasOwn(input, name) ? input[name] : entry.default;
    const problem =
      value === undefined ? `is required: must be ${describeAllowedValue(entry)}` : findValueProblem(entry, value);
    if (problem !== undefined) violations.push({ field: `params.${name}`, description: problem });
    else if (value !== undefined) values.push([name, value]);
  }
  return { params: Object.fromEntries(values), violations };
}

/** SHA-256 (hex) of the canonical JSON (RFC 8785) of evaluated parameters. Equal parameters have equal hashes. */
export function hashParams(params: JsonObject): string {
  return canonicalHash(params);
}

/** Returns a violation for each parameter that the schema does not declare; one for all of them if there are many. */
function findUnknownParams(schema: ParamsSchema, input: JsonObject): Violation[] {
  const unknown = Object.keys(input).filter((name) => !Object.hasOwn(schema, name));
  const known = Object.keys(schema).join(', ') || 'none';
  if (unknown.length > MAX_LISTED_UNKNOWN)
    return [
      {
        field: 'params',
        description: `has ${unknown.length} unknown parameters; the command accepts ${known}`,
      },
    ];
  return unknown.map((name) => ({
    field: `params.${name}`,
    description: `is not a parameter of the command; the command accepts ${known}`,
  }));
}

import { canonicalJson, isJsonEqual } from '../kernel/canonicalJson';
import type { Violation } from '../kernel/errors';
import { findJsonProblem, type JsonValue } from '../kernel/jsonValue';
import { MAX_MATCHED_TEXT_LENGTH, matchesPattern, PatternBudget } from './pattern';

/** The types of a parameter. */
export type ParamType = 'string' | 'integer' | 'number' | 'boolean';

/** The schema of one parameter of a command. */
export interface ParamSchema {
  /** Undefined: any JSON value. */
  readonly type: ParamType | undefined;
  /** The value if the caller sends none or null; undefined: the parameter is required. */
  readonly default: JsonValue | undefined;
  readonly description: string | undefined;
  /** Inclusive bounds of a number. */
  readonly min: number | undefined;
  readonly max: number | undefined;
  /** The allowed values; empty: all. */
  readonly enum: readonly JsonValue[];
  /** A regular expression (RE2) that must match some part of the text. */
  readonly pattern: string | undefined;
}

/** The parameter schemas by parameter name. */
export type ParamsSchema = Readonly<Record<string, ParamSchema>>;

/** The maximum size of a params schema as JSON, in bytes. */
const MAX_SCHEMA_BYTES = 65_536;
const NAME = /^[A-Za-z_]\w{0,63}$/;

const TYPES: Readonly<
  Record<ParamType, { readonly isOfType: (value: JsonValue) => boolean; readonly description: string }>
> = {
  string: { isOfType: (value) => typeof value === 'string', description: 'a string' },
  integer: { isOfType: (value) => Number.isSafeInteger(value), description: 'an integer (within ±(2^53 - 1))' },
  number: { isOfType: (value) => typeof value === 'number', description: 'a number' },
  boolean: { isOfType: (value) => typeof value === 'boolean', description: 'true or false' },
};

/** Validates a params schema. `field` is its path in the request. */
export function checkParamsSchema(schema: ParamsSchema, field: string): Violation[] {
  if (Buffer.byteLength(JSON.stringify(schema)) > MAX_SCHEMA_BYTES)
    return [{ field, description: `is larger than ${MAX_SCHEMA_BYTES} bytes as JSON; use fewer or shorter values` }];
  const budget = new PatternBudget();
  return Object.entries(schema).flatMap(([name, entry]) => [
    ...checkName(name, field),
    ...checkEntry(entry, `${field}.${name}`, budget),
  ]);
}

/**
 * Checks a value against a valid schema. Returns the problem as the end of a sentence about the value; undefined if the
 * value is allowed.
 */
export function findValueProblem(entry: ParamSchema, value: JsonValue): string | undefined {
  const problem = findProblemExceptEnum(entry, value);
  if (problem || entry.enum.length === 0 || entry.enum.some((allowed) => isJsonEqual(allowed, value))) return problem;
  const listedValues = entry.enum.slice(0, 10).map((allowed) => JSON.stringify(allowed).slice(0, 100));
  return `is not one of the allowed values: use ${listedValues.join(', ')}${entry.enum.length > listedValues.length ? ' or another allowed value' : ''}`;
}

/** Describes the allowed values, for example `a number from 0 up to 100`. */
export function describeAllowedValue(entry: ParamSchema): string {
  const bounds = [
    entry.min === undefined ? '' : ` from ${entry.min}`,
    entry.max === undefined ? '' : ` up to ${entry.max}`,
  ];
  return `${entry.type ? TYPES[entry.type].description : 'a JSON value'}${bounds.join('')}`;
}

function checkName(name: string, field: string): Violation[] {
  if (NAME.test(name) && name !== '__proto__') return [];
  return [
    {
      field: `${field}.${name}`,
      description:
        'is not a valid parameter name: use a letter or _ first, then letters, digits or _, at most 64 characters',
    },
  ];
}

/** Validates the schema of one parameter. `budget` limits the patterns of all parameters together. */
function checkEntry(entry: ParamSchema, field: string, budget: PatternBudget): Violation[] {
  const ruleViolations = [...checkBounds(entry, field), ...checkPattern(entry, field, budget)];
  // Values are only checked if the rules are valid.
  return ruleViolations.length > 0 ? ruleViolations : [...checkEnum(entry, field), ...checkDefault(entry, field)];
}

/** Checks that only numbers have bounds, and that min is not greater than max. */
function checkBounds(entry: ParamSchema, field: string): Violation[] {
  const givenBounds = (['min', 'max'] as const).filter((bound) => entry[bound] !== undefined);
  if (entry.type !== 'number' && entry.type !== 'integer')
    return givenBounds.map((bound) => ({
      field: `${field}.${bound}`,
      description: 'is only allowed for numbers; set the type to number or integer, or remove it',
    }));
  if (givenBounds.length === 2 && Number(entry.min) > Number(entry.max))
    return [{ field: `${field}.min`, description: `must not be greater than max (${entry.max})` }];
  return [];
}

/** Checks that only a string has a pattern, and that the pattern is valid and within the budget. */
function checkPattern(entry: ParamSchema, field: string, budget: PatternBudget): Violation[] {
  if (entry.pattern === undefined) return [];
  // The default and the enum values are matched against the pattern when the definition is validated.
  const matchedLength = [entry.default, ...entry.enum].reduce(
    (sum: number, value) => sum + (typeof value === 'string' ? value.length + 1 : 0),
    0,
  );
  const problem =
    entry.type === 'string'
      ? budget.findProblem(entry.pattern, matchedLength)
      : 'is only allowed for strings; set the type to string, or remove it';
  return problem ? [{ field: `${field}.pattern`, description: problem }] : [];
}

/** Checks that each allowed value satisfies the other rules and is listed once. */
function checkEnum(entry: ParamSchema, field: string): Violation[] {
  const knownValues = new Set<string>();
  return entry.enum.flatMap((value, index) => {
    const problem = findProblemExceptEnum(entry, value);
    const text = problem ? '' : canonicalJson(value);
    const description = problem ?? (knownValues.has(text) ? 'is a duplicate; remove it' : undefined);
    knownValues.add(text);
    return description === undefined ? [] : [{ field: `${field}.enum[${index}]`, description }];
  });
}

/** Checks that the default is an allowed value. */
function checkDefault(entry: ParamSchema, field: string): Violation[] {
  if (entry.default === undefined) return [];
  const allowed = entry.enum.filter((value) => findJsonProblem(value) === undefined); // checkEnum reports the others
  const problem = findValueProblem({ ...entry, enum: allowed }, entry.default);
  return problem ? [{ field: `${field}.default`, description: problem }] : [];
}

/** Checks all rules except enum. */
function findProblemExceptEnum(entry: ParamSchema, value: JsonValue): string | undefined {
  const problem = findJsonProblem(value);
  if (problem) return problem;
  if (entry.type && !TYPES[entry.type].isOfType(value)) return `must be ${describeAllowedValue(entry)}`;
  if (typeof value === 'number') return findBoundProblem(entry, value);
  return typeof value === 'string' && entry.pattern !== undefined
    ? findPatternProblem(entry.pattern, value)
    : undefined;
}

/** Returns which bound a number violates, as the end of a sentence about it; undefined if none. */
function findBoundProblem(entry: ParamSchema, value: number): string | undefined {
  if (entry.min !== undefined && value < entry.min)
    return `is less than ${entry.min}: must be ${describeAllowedValue(entry)}`;
  if (entry.max !== undefined && value > entry.max)
    return `is greater than ${entry.max}: must be ${describeAllowedValue(entry)}`;
  return undefined;
}

/** Returns why a text does not match a pattern, as the end of a sentence about it; undefined if it matches. */
function findPatternProblem(pattern: string, text: string): string | undefined {
  if (text.length > MAX_MATCHED_TEXT_LENGTH)
    return `is too long for a string with a pattern: at most ${MAX_MATCHED_TEXT_LENGTH} characters are allowed`;
  return matchesPattern(pattern, text) ? undefined : `does not match the pattern ${pattern}`;
}

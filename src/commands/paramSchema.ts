import { canonicalJson, jsonEqual } from '../kernel/canonicalJson';
import type { Violation } from '../kernel/errors';
import { jsonProblem, type JsonValue } from '../kernel/jsonValue';
import { LONGEST_MATCHED_TEXT, matchesPattern, PatternBudget } from './pattern';

/** The types that a parameter can have. */
export type ParamType = 'string' | 'integer' | 'number' | 'boolean';

/** What one parameter of a command may be. */
export interface ParamSchema {
  /** Undefined: any JSON value. */
  readonly type: ParamType | undefined;
  /** The value when the caller gives none, null included; undefined: the parameter is required. */
  readonly default: JsonValue | undefined;
  readonly description: string | undefined;
  /** Bounds of a number, both allowed themselves. */
  readonly min: number | undefined;
  readonly max: number | undefined;
  /** The allowed values; empty: all. */
  readonly enum: readonly JsonValue[];
  /** A regular expression (RE2) that a text must match somewhere. */
  readonly pattern: string | undefined;
}

/** The parameters of a command by name. */
export type ParamsSchema = Readonly<Record<string, ParamSchema>>;

/** The most bytes of a params schema as JSON. */
const LARGEST_SCHEMA = 65_536;
const NAME = /^[A-Za-z_]\w{0,63}$/;

const TYPES: Readonly<Record<ParamType, { readonly fits: (value: JsonValue) => boolean; readonly words: string }>> = {
  string: { fits: (value) => typeof value === 'string', words: 'a text' },
  integer: { fits: (value) => Number.isSafeInteger(value), words: 'a whole number of at most 2^53 - 1 in size' },
  number: { fits: (value) => typeof value === 'number', words: 'a number' },
  boolean: { fits: (value) => typeof value === 'boolean', words: 'true or false' },
};

/** Everything wrong with a params schema; `field` is its path in the request. */
export function checkParamsSchema(schema: ParamsSchema, field: string): Violation[] {
  if (Buffer.byteLength(JSON.stringify(schema)) > LARGEST_SCHEMA) return [{ field, description: `is larger than ${LARGEST_SCHEMA} bytes as JSON; use fewer or shorter values` }];
  const budget = new PatternBudget();
  return Object.entries(schema).flatMap(([name, entry]) => [...nameViolations(name, field), ...checkEntry(entry, `${field}.${name}`, budget)]);
}

/** Why a value is not allowed by an entry without problems, as the end of a sentence about the value; undefined when it is allowed. */
export function valueProblem(entry: ParamSchema, value: JsonValue): string | undefined {
  const problem = plainProblem(entry, value);
  if (problem || entry.enum.length === 0 || entry.enum.some((allowed) => jsonEqual(allowed, value))) return problem;
  const named = entry.enum.slice(0, 10).map((allowed) => JSON.stringify(allowed).slice(0, 100));
  return `is not one of the allowed values; give ${named.join(', ')}${entry.enum.length > named.length ? ' or another of them' : ''}`;
}

/** What an entry asks for, in words: `a whole number ... from 0 to 100`. */
export function wantedValue(entry: ParamSchema): string {
  const bounds = [entry.min === undefined ? '' : ` from ${entry.min}`, entry.max === undefined ? '' : ` up to ${entry.max}`];
  return `${entry.type ? TYPES[entry.type].words : 'a JSON value'}${bounds.join('')}`;
}

function nameViolations(name: string, field: string): Violation[] {
  if (NAME.test(name) && name !== '__proto__') return [];
  return [{ field: `${field}.${name}`, description: 'is no name for a parameter; begin with a letter or _, go on with letters, digits or _, at most 64 characters' }];
}

function checkEntry(entry: ParamSchema, field: string, budget: PatternBudget): Violation[] {
  const wrongRules = [...boundViolations(entry, field), ...patternViolations(entry, field, budget)];
  // Values are only held against rules that make sense.
  return wrongRules.length > 0 ? wrongRules : [...enumViolations(entry, field), ...defaultViolations(entry, field)];
}

function boundViolations(entry: ParamSchema, field: string): Violation[] {
  const given = (['min', 'max'] as const).filter((bound) => entry[bound] !== undefined);
  if (entry.type !== 'number' && entry.type !== 'integer') return given.map((bound) => ({ field: `${field}.${bound}`, description: 'is for numbers; make the type number or integer, or take it out' }));
  if (given.length === 2 && Number(entry.min) > Number(entry.max)) return [{ field: `${field}.min`, description: `is greater than max (${entry.max}); give at most that` }];
  return [];
}

function patternViolations(entry: ParamSchema, field: string, budget: PatternBudget): Violation[] {
  if (entry.pattern === undefined) return [];
  const given = [entry.default, ...entry.enum].reduce((sum: number, value) => sum + (typeof value === 'string' ? value.length + 1 : 0), 0);
  const problem = entry.type === 'string' ? budget.problem(entry.pattern, given) : 'is for texts; make the type string, or take it out';
  return problem ? [{ field: `${field}.pattern`, description: problem }] : [];
}

function enumViolations(entry: ParamSchema, field: string): Violation[] {
  const seen = new Set<string>();
  return entry.enum.flatMap((value, at) => {
    const problem = plainProblem(entry, value);
    const text = problem ? '' : canonicalJson(value);
    const description = problem ?? (seen.has(text) ? 'stands twice; keep one' : undefined);
    seen.add(text);
    return description === undefined ? [] : [{ field: `${field}.enum[${at}]`, description }];
  });
}

function defaultViolations(entry: ParamSchema, field: string): Violation[] {
  if (entry.default === undefined) return [];
  const allowed = entry.enum.filter((value) => jsonProblem(value) === undefined);
  const problem = valueProblem({ ...entry, enum: allowed }, entry.default);
  return problem ? [{ field: `${field}.default`, description: problem }] : [];
}

/** All rules but enum. */
function plainProblem(entry: ParamSchema, value: JsonValue): string | undefined {
  const problem = jsonProblem(value);
  if (problem) return problem;
  if (entry.type && !TYPES[entry.type].fits(value)) return `must be ${wantedValue(entry)}`;
  if (typeof value === 'number') return boundProblem(entry, value);
  return typeof value === 'string' && entry.pattern !== undefined ? textProblem(entry.pattern, value) : undefined;
}

function boundProblem(entry: ParamSchema, value: number): string | undefined {
  if (entry.min !== undefined && value < entry.min) return `is less than ${entry.min}; give ${wantedValue(entry)}`;
  if (entry.max !== undefined && value > entry.max) return `is greater than ${entry.max}; give ${wantedValue(entry)}`;
  return undefined;
}

function textProblem(pattern: string, text: string): string | undefined {
  if (text.length > LONGEST_MATCHED_TEXT) return `is too long for a text with a pattern; give at most ${LONGEST_MATCHED_TEXT} characters`;
  return matchesPattern(pattern, text) ? undefined : `does not match the pattern ${pattern}`;
}

import type { ErrorObject } from 'ajv/dist/2020';
import type { Violation } from '../kernel/errors';
import { findNearest } from '../kernel/findNearest';
import { truncateForDisplay } from '../kernel/truncate';

const MAX_VIOLATIONS = 50;
const MAX_NAME_LENGTH = 64;
/** Errors of these keywords only summarize what other errors report in more detail. */
const SUMMARY_KEYWORDS = new Set(['oneOf', 'anyOf', 'if', 'allOf', 'not', '$ref', 'propertyNames']);
/** An error of these keywords in an alternative shows that another alternative was intended. */
const SELECTING_KEYWORDS = new Set(['const', 'enum', 'type']);
const TYPE_NAMES: Readonly<Record<string, string>> = {
  string: 'a string',
  number: 'a number',
  integer: 'an integer',
  boolean: 'true or false',
  array: 'a list',
  object: 'an object',
  null: 'null',
};

/**
 * Converts ajv errors to sentences about valid values. They never contain a value, which may be a secret. At most 50.
 * `root` is the path of the value.
 */
export function toViolations(errors: readonly ErrorObject[], root: string): Violation[] {
  const likelyErrors = dropUnlikelyAlternatives(errors);
  const specificErrors = likelyErrors.filter(({ keyword }) => !SUMMARY_KEYWORDS.has(keyword));
  const errorsByField = Map.groupBy(
    specificErrors.length > 0 ? specificErrors : likelyErrors,
    (error) => root + formatFieldPath(error),
  );
  const violations = [...errorsByField].slice(0, MAX_VIOLATIONS).map(([field, fieldErrors]) => ({
    field,
    description: [...new Set(pickMostSpecific(fieldErrors).map(describeError))].join(', or '),
  }));
  const unlistedCount = errorsByField.size - MAX_VIOLATIONS;
  return unlistedCount > 0
    ? [...violations, { field: root, description: `has ${unlistedCount} more errors; fix these first` }]
    : violations;
}

/**
 * Removes the errors of alternatives (of `oneOf` or `anyOf`) that the user did not intend: alternatives with an error
 * in a constant, an enumeration or a type. If every alternative has such an error, keeps only these errors.
 */
function dropUnlikelyAlternatives(errors: readonly ErrorObject[]): readonly ErrorObject[] {
  const failedByList = groupAlternativesByList(errors);
  const unlikelyByList = groupAlternativesByList(errors.filter(({ keyword }) => SELECTING_KEYWORDS.has(keyword)));
  return errors.filter((error) => {
    const alternative = findAlternative(error);
    if (!alternative) return true;
    const failedCount = failedByList.get(alternative.listPath)?.size ?? 0;
    const unlikelyNumbers = unlikelyByList.get(alternative.listPath);
    const hasLikelyAlternative = failedCount > (unlikelyNumbers?.size ?? 0);
    return hasLikelyAlternative ? !unlikelyNumbers?.has(alternative.number) : SELECTING_KEYWORDS.has(error.keyword);
  });
}

/** Returns the numbers of the alternatives that have errors, by the path of their list (a `oneOf` or `anyOf`). */
function groupAlternativesByList(errors: readonly ErrorObject[]): Map<string, Set<string>> {
  const numbersByList = new Map<string, Set<string>>();
  for (const error of errors) {
    const alternative = findAlternative(error);
    if (!alternative) continue;
    const numbers = numbersByList.get(alternative.listPath) ?? new Set();
    numbersByList.set(alternative.listPath, numbers.add(alternative.number));
  }
  return numbersByList;
}

/** Returns the alternative that an error belongs to, by the path of the list and its number; undefined: none. */
function findAlternative({ schemaPath }: ErrorObject): { listPath: string; number: string } | undefined {
  const [, listPath, number] = /^(.*?\/(?:oneOf|anyOf))\/(\d+)\//.exec(schemaPath) ?? [];
  return listPath !== undefined && number !== undefined ? { listPath, number } : undefined;
}

/** Formats the path of the invalid field, for example `.answer.okValues[0]`. */
function formatFieldPath({ instancePath, keyword, params }: ErrorObject): string {
  const names = instancePath
    .split('/')
    .slice(1)
    .map((name) => name.replaceAll('~1', '/').replaceAll('~0', '~')); // the escapes of JSON Pointer (RFC 6901)
  // For these keywords, ajv reports the path of the object and separately the name of its field.
  const name: unknown = {
    additionalProperties: params['additionalProperty'],
    unevaluatedProperties: params['unevaluatedProperty'],
    required: params['missingProperty'],
    dependentRequired: params['missingProperty'],
    discriminator: params['tag'],
  }[keyword];
  if (typeof name === 'string') names.push(name);
  return names
    .map((part) => (/^\d+$/.test(part) ? `[${part}]` : `.${truncateForDisplay(part, MAX_NAME_LENGTH)}`))
    .join('');
}

/** Describes the valid values in a sentence that follows the name of the field. */
type Describe = (schema: Readonly<Record<string, unknown>>, params: Readonly<Record<string, unknown>>) => string;

const formatList = (values: unknown): string =>
  (Array.isArray(values) ? values : [values]).map((value) => `\`${String(value)}\``).join(', ');
const describeRange: Describe = ({ minimum, maximum }) => `must be ${formatRange(minimum, maximum)}`;
/** Describes a range of sizes. `min`, `max`: the names of the keywords that contain the limits. */
const describeSize =
  (unit: string, min: string, max: string): Describe =>
  (schema) =>
    `must have ${formatRange(schema[min], schema[max])} ${unit}`;

const DESCRIPTIONS: Readonly<Record<string, Describe>> = {
  additionalProperties: describeUnknownSetting,
  unevaluatedProperties: describeUnknownSetting,
  required: (schema, params) => describeMissing(schema, String(params['missingProperty'])),
  dependentRequired: (schema, params) =>
    `${describeMissing(schema, String(params['missingProperty']))} (\`${String(params['property'])}\` needs it)`,
  type: (schema) => `must be ${describeType(schema)}`,
  enum: ({ enum: values }) => `must be one of ${formatList(values)}`,
  const: (schema) => `must be ${formatList(schema['const'])}`,
  format: (schema) =>
    `must be ${schema['format'] === 'uuid' ? 'a UUID, for example 0190a0a0-0000-7000-8000-000000000000' : 'a URL'}${formatDescription(schema)}`,
  pattern: (schema) =>
    schema['description'] === undefined
      ? `must have the form ${String(schema['pattern'])}`
      : `does not have the right form${formatDescription(schema)}`,
  minimum: describeRange,
  maximum: describeRange,
  minLength: describeSize('characters', 'minLength', 'maxLength'),
  maxLength: describeSize('characters', 'minLength', 'maxLength'),
  minItems: describeSize('items', 'minItems', 'maxItems'),
  maxItems: describeSize('items', 'minItems', 'maxItems'),
  minProperties: describeSize('fields', 'minProperties', 'maxProperties'),
  maxProperties: describeSize('fields', 'minProperties', 'maxProperties'),
  uniqueItems: () => 'contains the same item twice; remove one',
  discriminator: describeChoice,
  'false schema': () => 'is not allowed here; remove it',
};

/** Keeps only the errors of the discriminator, if there are any: they already list the alternatives. */
function pickMostSpecific(errors: readonly ErrorObject[]): readonly ErrorObject[] {
  const discriminatorErrors = errors.filter(({ keyword }) => keyword === 'discriminator');
  return discriminatorErrors.length > 0 ? discriminatorErrors : errors;
}

/** Describes an error in a sentence that follows the name of the field. */
function describeError({ keyword, params, parentSchema = {}, message, propertyName }: ErrorObject): string {
  const schema: Readonly<Record<string, unknown>> = parentSchema;
  const describeKeyword = DESCRIPTIONS[keyword];
  const problem = describeKeyword
    ? describeKeyword(schema, params)
    : `${message ?? 'is wrong'}${formatDescription(schema)}`;
  return propertyName === undefined
    ? problem
    : `has a field \`${truncateForDisplay(propertyName, MAX_NAME_LENGTH)}\`, whose name ${problem}`;
}

/** Describes an unknown field and suggests a known one with a similar name. */
function describeUnknownSetting(
  schema: Readonly<Record<string, unknown>>,
  params: Readonly<Record<string, unknown>>,
): string {
  const name = String(params['additionalProperty'] ?? params['unevaluatedProperty']);
  const knownNames = Object.keys(getProperties(schema));
  if (knownNames.length === 0) return 'is not a known setting: no settings are allowed here; remove it';
  const namesOfSimilarLength = knownNames.filter(
    (knownName) => Math.abs(knownName.length - name.length) <= 2 + name.length / 3,
  );
  const near = findNearest(name, namesOfSimilarLength);
  return near === undefined
    ? `is not a known setting: remove it, or use one of ${formatList(knownNames)}`
    : `is not a known setting; did you mean \`${near}\`?`;
}

/**
 * Describes the valid values of the field that selects an alternative of `schema`. `params` are those of Ajv's error
 * `discriminator`: the name of the field (`tag`) and its value.
 */
function describeChoice(
  schema: Readonly<Record<string, unknown>>,
  { tag, tagValue }: Readonly<Record<string, unknown>>,
): string {
  const values = (schema['oneOf'] as Readonly<Record<string, unknown>>[]).map(
    (alternative) => getProperties(alternative)[String(tag)]?.['const'],
  );
  return tagValue === undefined
    ? `is required: use one of ${formatList(values)}`
    : `must be one of ${formatList(values)}`;
}

/** Describes a required field that is missing. */
function describeMissing(schema: Readonly<Record<string, unknown>>, name: string): string {
  const property = getProperties(schema)[name] ?? {};
  return `is required: set ${describeType(property)}${formatDescription(property)}`;
}

/** Returns the schemas of the fields of an object schema, by name. */
function getProperties({
  properties,
}: Readonly<Record<string, unknown>>): Readonly<Record<string, Readonly<Record<string, unknown>>>> {
  return (properties ?? {}) as Record<string, Record<string, unknown>>;
}

/** Describes the type of a value, for example `a string or null`; `it` if the schema has no type ("set it"). */
function describeType(schema: Readonly<Record<string, unknown>>): string {
  if (Array.isArray(schema['enum'])) return `one of ${formatList(schema['enum'])}`;
  const types = ([schema['type'] ?? []].flat() as string[]).map((type) => TYPE_NAMES[type] ?? type);
  return types.join(' or ') || 'it';
}

/** Formats a range; undefined: no limit. */
function formatRange(min: unknown, max: unknown): string {
  if (min === undefined) return `at most ${Number(max)}`;
  if (max === undefined) return `at least ${Number(min)}`;
  return min === max ? `exactly ${Number(min)}` : `${Number(min)} to ${Number(max)}`;
}

/** Returns the description of the schema as a part of a sentence. */
function formatDescription({ description }: Readonly<Record<string, unknown>>): string {
  return typeof description === 'string' ? `: ${description.replace(/\.$/, '')}` : '';
}

import { ScalarType } from '@bufbuild/protobuf';
import type { FieldRules } from '../../src/api/descriptors/descriptors';
import { FORMAT } from '../../src/api/validation/strings';
import { compact, type Schema } from './json';

// Control characters and line separators, in a regular expression syntax that all dialects support.
const CONTROL = String.raw`\u0000-\u001f\u007f-\u009f\u2028\u2029`;
const NAME_PATTERN = String.raw`^\s*[^\s${CONTROL}](?:[^${CONTROL}]*[^\s${CONTROL}])?\s*$`;
const TOKEN_PATTERN = String.raw`^[^\s${CONTROL}]+$`;

const NAME: Schema = { minLength: 1, maxLength: 255, pattern: NAME_PATTERN };
const TOKEN: Schema = { minLength: 1, maxLength: 128, pattern: TOKEN_PATTERN };

const OPTIONAL_TOKEN: Schema = { maxLength: 128, pattern: TOKEN_PATTERN.replace('+$', '*$') };

/**
 * Returns the schema of a scalar with the rules of its field. `mayBeEmpty`: an empty text means that the field is not
 * set, also in responses.
 */
export function buildScalarSchema(type: ScalarType, rules: FieldRules | undefined, mayBeEmpty: boolean): Schema {
  if (type === ScalarType.BOOL) return { type: 'boolean' };
  if (type === ScalarType.STRING) return { type: 'string', ...buildTextRules(rules, mayBeEmpty) };
  if (type === ScalarType.BYTES) return { type: 'string', contentEncoding: 'base64' };
  return buildNumberSchema(type, rules);
}

/**
 * Returns the schema of a google.protobuf message, in its usual JSON form; undefined for other messages. Throws for one
 * that is not supported.
 */
export function findWellKnownSchema(typeName: string): Schema | undefined {
  switch (typeName) {
    case 'google.protobuf.Timestamp':
      return { type: 'string', format: 'date-time' };
    case 'google.protobuf.Struct':
      return { type: 'object', additionalProperties: true };
    case 'google.protobuf.ListValue':
      return { type: 'array', items: {} };
    case 'google.protobuf.Value':
      return {};
    case 'google.protobuf.Duration':
      return { type: 'string', pattern: String.raw`^-?\d+(?:\.\d{1,9})?s$` };
    default:
      if (typeName.startsWith('google.protobuf.'))
        throw new Error(`the OpenAPI document does not support ${typeName}: add it to scripts/openapi/valueSchemas.ts`);
      return undefined;
  }
}

/** Describes the rules that a schema cannot express: sizes in bytes and depths. */
export function describeRules(rules: FieldRules | undefined, isJson: boolean): string {
  const size = rules?.maxBytes ? `At most ${rules.maxBytes} bytes ${isJson ? 'of JSON' : 'of UTF-8'}.` : '';
  const depth = rules?.maxDepth ? `At most ${rules.maxDepth} levels deep.` : '';
  return [size, depth].filter((text) => text !== '').join(' ');
}

/**
 * Returns the rules of a string as schema keywords. `maxBytes` also limits the number of characters, because each takes
 * at least one byte.
 */
function buildTextRules(rules: FieldRules | undefined, mayBeEmpty: boolean): Schema {
  if (!rules) return {};
  if (rules.in.length > 0) return { enum: [...rules.in] };
  if (rules.format === FORMAT.name) return NAME;
  if (rules.format !== FORMAT.none) return mayBeEmpty ? OPTIONAL_TOKEN : TOKEN;
  return compact({
    minLength: rules.minLength || (rules.required ? 1 : undefined),
    maxLength: rules.maxLength || rules.maxBytes || undefined,
  });
}

/** Returns the schema of a number type with its range. */
function buildNumberSchema(type: ScalarType, rules: FieldRules | undefined): Schema {
  const range = compact({ minimum: rules?.min, maximum: rules?.max });
  if (type === ScalarType.DOUBLE || type === ScalarType.FLOAT) return { type: 'number', format: 'double', ...range };
  if (INT32_TYPES.has(type)) return { type: 'integer', format: 'int32', ...range };
  // Not int64, because client generators use a bigint for it. Here it is a JSON number in the range of a double.
  return {
    type: 'integer',
    minimum: UNSIGNED_TYPES.has(type) ? 0 : -Number.MAX_SAFE_INTEGER,
    maximum: Number.MAX_SAFE_INTEGER,
    ...range,
  };
}

const INT32_TYPES: ReadonlySet<ScalarType> = new Set([ScalarType.INT32, ScalarType.SINT32, ScalarType.SFIXED32]);
const UNSIGNED_TYPES: ReadonlySet<ScalarType> = new Set([
  ScalarType.UINT32,
  ScalarType.FIXED32,
  ScalarType.UINT64,
  ScalarType.FIXED64,
]);

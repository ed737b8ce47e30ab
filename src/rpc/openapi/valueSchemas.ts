import { ScalarType } from '@bufbuild/protobuf';
import type { FieldRules } from '../descriptors';
import { FORMAT } from '../validation/strings';
import { compact, type Schema } from './json';

// As text of a regular expression that every dialect reads: control characters, and the separators that break a line.
const CONTROL = String.raw`\u0000-\u001f\u007f-\u009f\u2028\u2029`;
const NAME_PATTERN = String.raw`^\s*[^\s${CONTROL}](?:[^${CONTROL}]*[^\s${CONTROL}])?\s*$`;
const ONE_WORD_PATTERN = String.raw`^[^\s${CONTROL}]+$`;

const NAME: Schema = { minLength: 1, maxLength: 255, pattern: NAME_PATTERN };
const ONE_WORD: Schema = { minLength: 1, maxLength: 128, pattern: ONE_WORD_PATTERN };

/** The schema of a scalar under the rules of its field. */
export function scalarSchema(type: ScalarType, rules: FieldRules | undefined): Schema {
  if (type === ScalarType.BOOL) return { type: 'boolean' };
  if (type === ScalarType.STRING) return { type: 'string', ...textRules(rules) };
  if (type === ScalarType.BYTES) return { type: 'string', contentEncoding: 'base64' };
  return numberSchema(type, rules);
}

/** The schema of a message of google.protobuf; undefined for any other message. */
export function wellKnownSchema(typeName: string): Schema | undefined {
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
      if (typeName.startsWith('google.protobuf.')) throw new Error(`the OpenAPI document does not know ${typeName} yet; add it to src/rpc/openapi/valueSchemas.ts`);
      return undefined;
  }
}

/** What the rules say that a schema cannot: sizes in bytes and depths. */
export function rulesInWords(rules: FieldRules | undefined, isJson: boolean): string {
  const size = rules?.maxBytes ? `At most ${rules.maxBytes} bytes ${isJson ? 'of JSON' : 'of UTF-8'}.` : '';
  const depth = rules?.maxDepth ? `At most ${rules.maxDepth} levels deep.` : '';
  return [size, depth].filter((text) => text !== '').join(' ');
}

function textRules(rules: FieldRules | undefined): Schema {
  if (!rules) return {};
  if (rules.in.length > 0) return { enum: [...rules.in] };
  if (rules.format === FORMAT.name) return NAME;
  if (rules.format !== FORMAT.none) return ONE_WORD;
  return compact({ minLength: rules.minLength || (rules.required ? 1 : undefined), maxLength: rules.maxLength || rules.maxBytes || undefined });
}

function numberSchema(type: ScalarType, rules: FieldRules | undefined): Schema {
  const range = compact({ minimum: rules?.min, maximum: rules?.max });
  if (type === ScalarType.DOUBLE || type === ScalarType.FLOAT) return { type: 'number', format: 'double', ...range };
  if (SMALL.has(type)) return { type: 'integer', format: 'int32', ...range };
  // No int64: generators make a bigint of it, and here they are JSON numbers that a double holds.
  return { type: 'integer', minimum: UNSIGNED.has(type) ? 0 : -Number.MAX_SAFE_INTEGER, maximum: Number.MAX_SAFE_INTEGER, ...range };
}

const SMALL: ReadonlySet<ScalarType> = new Set([ScalarType.INT32, ScalarType.SINT32, ScalarType.SFIXED32]);
const UNSIGNED: ReadonlySet<ScalarType> = new Set([ScalarType.UINT32, ScalarType.FIXED32, ScalarType.UINT64, ScalarType.FIXED64]);

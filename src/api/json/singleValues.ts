import type { DescEnum, DescField, DescMessage } from '@bufbuild/protobuf';
import type { Violation } from '../../kernel/errors';
import { isObject } from '../../kernel/jsonValue';
import { getEnumWord, listEnumWords } from './enumWords';
import { getScalar, type AllowedRange, type Scalar } from './scalars';
import { DURATION_FORM, parseDuration, TIME_FORM, parseTimestamp } from './times';
import { addViolation, describeValue, quoteText } from './violations';

/**
 * Reads one value that is not a message with fields. For an invalid value, both functions append a violation and return
 * undefined.
 */
export interface SingleValue {
  readonly fromJson: (json: unknown, path: string, out: Violation[]) => unknown;
  /** Reads a string of a query or path; undefined if a string cannot represent the value. */
  readonly fromText: ((text: string, path: string, out: Violation[]) => unknown) | undefined;
  /** Whether null is a valid value. */
  readonly acceptsNull: boolean;
  /** Creates the value that replaces an invalid item of a list. */
  readonly createPlaceholder: () => unknown;
}

/**
 * Creates the reader of the values of a field (the items, if it is a list or map); undefined for messages with fields.
 * Throws for a google.protobuf type that is not supported.
 */
export function createSingleValue(field: DescField, allowed: AllowedRange | undefined): SingleValue | undefined {
  if (field.message) return createWellKnownValue(field.message);
  if (field.enum) return createTextValue(createEnumForm(field.enum));
  return field.scalar === undefined ? undefined : createScalarValue(getScalar(field.scalar, allowed), describeValue);
}

/** Creates the reader of a google.protobuf message; undefined for messages with fields. */
function createWellKnownValue({ typeName }: DescMessage): SingleValue | undefined {
  switch (typeName) {
    case 'google.protobuf.Timestamp':
      return createTextValue({
        parse: parseTimestamp,
        form: TIME_FORM,
        hint: PLUS_HINT,
        createDefault: () => ({ seconds: 0, nanos: 0 }),
      });
    case 'google.protobuf.Duration':
      return createTextValue({
        parse: parseDuration,
        form: DURATION_FORM,
        createDefault: () => ({ seconds: 0, nanos: 0 }),
      });
    case 'google.protobuf.Struct':
      return createJsonValue(isObject, 'a JSON object', () => ({}));
    case 'google.protobuf.ListValue':
      return createJsonValue(Array.isArray, 'an array', () => []);
    case 'google.protobuf.Value':
      return { fromJson: (json) => json, fromText: undefined, acceptsNull: true, createPlaceholder: () => null };
    default:
      if (typeName.startsWith('google.protobuf.') && typeName !== 'google.protobuf.Empty')
        throw new Error(`JSON requests do not support ${typeName}: add it to src/api/json/singleValues.ts`);
      return undefined;
  }
}

/**
 * Creates the reader of a scalar from functions that return undefined for an invalid value: the reader then adds a
 * violation with the path of the value. `describe` describes an invalid JSON value; `hint` is added to the message
 * about an invalid query or path.
 */
function createScalarValue(
  { fromJson, fromText, form, createDefault }: Scalar,
  describe: (json: unknown) => string,
  hint = '',
): SingleValue {
  return {
    fromJson: (json, path, out) => {
      const value = fromJson(json);
      if (value === undefined) addViolation(out, path, () => `must be ${form}, not ${describe(json)}`);
      return value;
    },
    fromText: (text, path, out) => {
      const value = fromText(text);
      if (value === undefined) addViolation(out, path, () => `must be ${form}${hint}, not ${quoteText(text)}`);
      return value;
    },
    acceptsNull: false,
    createPlaceholder: createDefault,
  };
}

// A literal plus means a space in a query, so the sign of the offset would be lost.
const PLUS_HINT = ' (in a query, write + as %2B)';

/** A value that is a string in JSON as well as in queries and paths. */
interface TextForm {
  readonly parse: (text: string) => unknown;
  readonly form: string;
  /** An addition to the messages about a query or path. */
  readonly hint?: string;
  readonly createDefault: () => unknown;
}

/** Creates the reader of a value that is a string in JSON. */
function createTextValue({ parse, form, hint, createDefault }: TextForm): SingleValue {
  return createScalarValue(
    {
      fromJson: (json) => (typeof json === 'string' ? parse(json) : undefined),
      fromText: parse,
      form,
      createDefault,
    },
    describeTextValue,
    hint,
  );
}

function describeTextValue(json: unknown): string {
  return typeof json === 'string' ? quoteText(json) : describeValue(json);
}

/** Creates the text form of an enum: the words of its values, without the value 0, which means "not set". */
function createEnumForm(desc: DescEnum): TextForm {
  const numberByWord = new Map(
    desc.values.filter(({ number }) => number !== 0).map(({ number }) => [getEnumWord(desc, number) as string, number]),
  );
  return {
    parse: (text) => numberByWord.get(text),
    form: `one of ${listEnumWords(desc).join(', ')}`,
    createDefault: () => 0,
  };
}

/**
 * Creates the reader of free JSON (a google.protobuf.Struct or ListValue), which is kept as it is. `form`: the valid
 * form, for messages; `createPlaceholder`: replaces an invalid item of a list. A query or path cannot contain such a
 * value.
 */
function createJsonValue(
  isValid: (json: unknown) => boolean,
  form: string,
  createPlaceholder: () => unknown,
): SingleValue {
  return {
    fromJson: (json, path, out) => {
      if (isValid(json)) return json;
      addViolation(out, path, () => `must be ${form}, not ${describeValue(json)}`);
      return undefined;
    },
    fromText: undefined,
    acceptsNull: false,
    createPlaceholder,
  };
}

import { ScalarType, type DescEnum, type DescField, type DescMessage } from '@bufbuild/protobuf';
import { FeatureSet_FieldPresence } from '@bufbuild/protobuf/wkt';
import { throwIfAny, type Violation } from '../../kernel/errors';
import { findNearest } from '../../kernel/findNearest';
import { isObject } from '../../kernel/jsonValue';
import { getEnumWord } from '../../api/json/enumWords';
import { INTEGER_RANGES } from '../../api/json/scalars';
import { WELL_KNOWN } from './wellKnownJson';

// The JSON of the REST API (docs/rest.md, Conventions): camelCase names, enum values without their prefix in lower
// case, 64-bit integers as numbers, times as ISO 8601, bytes as base64. Messages are the plain objects of proto-loader
// with LOADER_OPTIONS; it knows no maps when it works from descriptors, so a map is the list of its entries, as on the
// wire.

type PlainMessage = Record<string, unknown>;
type MapEntry = { readonly key?: string | number | boolean; readonly value?: unknown };
/** How a scalar is read from JSON: `read` returns undefined for an invalid value; `form` describes the valid ones. */
type ScalarFormat = { readonly read: (json: unknown) => unknown; readonly form: string };

const createIntegerFormat = ([min, max]: readonly [number, number]): ScalarFormat => ({
  read: (json) => {
    const value = typeof json === 'string' && /^-?\d+$/.test(json) ? Number(json) : json;
    return Number.isInteger(value) && (value as number) >= min && (value as number) <= max ? value : undefined;
  },
  form: `a whole number from ${min} to ${max}`,
});
const NON_FINITE_NUMBERS: Readonly<Record<string, number>> = {
  NaN: Number.NaN,
  Infinity: Number.POSITIVE_INFINITY,
  '-Infinity': Number.NEGATIVE_INFINITY,
};
const FLOAT: ScalarFormat = {
  read: (json) => {
    if (typeof json === 'string') return NON_FINITE_NUMBERS[json];
    return typeof json === 'number' ? json : undefined;
  },
  form: 'a number',
};
const BASE64 = /^[A-Za-z0-9+/_-]*={0,2}$/;

const OTHER_SCALARS: Readonly<Partial<Record<ScalarType, ScalarFormat>>> = {
  [ScalarType.STRING]: { read: (json) => (typeof json === 'string' ? json : undefined), form: 'a string' },
  [ScalarType.BOOL]: { read: (json) => (typeof json === 'boolean' ? json : undefined), form: 'true or false' },
  [ScalarType.BYTES]: {
    read: (json) => (typeof json === 'string' && BASE64.test(json) ? Buffer.from(json, 'base64') : undefined),
    form: 'bytes in base64',
  },
};

function getScalarFormat(type: ScalarType): ScalarFormat {
  const range = INTEGER_RANGES[type];
  return range ? createIntegerFormat(range) : (OTHER_SCALARS[type] ?? FLOAT);
}

/** Converts a JSON value to a message. Throws `validation_failed` with every violation and its path. */
export function messageFromJson(type: DescMessage, json: unknown): PlainMessage {
  const violations: Violation[] = [];
  const message = readMessage(type, json, '', violations);
  throwIfAny(violations);
  return message as PlainMessage;
}

/**
 * Converts a message to JSON. Lists, maps and plain scalars are always included, absent optional fields and messages
 * never.
 */
export function messageToJson(type: DescMessage, message: object): unknown {
  const wellKnown = WELL_KNOWN[type.typeName];
  if (wellKnown) return wellKnown.toJson(message);
  const plain = message as PlainMessage;
  return Object.fromEntries(
    type.fields
      .map((field) => [field.jsonName, writeField(field, plain[field.name])])
      .filter(([, value]) => value !== undefined),
  );
}

/**
 * Converts an enum value to JSON: its name in lower case without the prefix of the enum; an unknown value stays a
 * number.
 */
function enumToJson(type: DescEnum, value: number): string | number {
  return getEnumWord(type, value) ?? value;
}

/** Converts a JSON value to a message. Adds what is wrong to `violations`. `path`: empty for the request itself. */
function readMessage(type: DescMessage, json: unknown, path: string, violations: Violation[]): object | undefined {
  const wellKnown = WELL_KNOWN[type.typeName];
  if (wellKnown) return acceptOrReport(wellKnown.fromJson(json), wellKnown.form, json, path, violations);
  if (!isObject(json)) return acceptOrReport(undefined, `a JSON object (${type.name})`, json, path, violations);
  const message: PlainMessage = {};
  for (const [key, value] of Object.entries(json)) {
    const field = type.fields.find(({ jsonName, name }) => jsonName === key || name === key);
    const fieldPath = path ? `${path}.${key}` : key;
    if (!field) violations.push({ field: fieldPath, description: `unknown field${suggestField(key, type)}` });
    else if (value !== null || isValueField(field))
      message[field.name] = readField(field, value, fieldPath, violations);
  }
  checkOneofs(type, message, path, violations);
  return message;
}

/** Adds a violation for each oneof (a group of fields that exclude each other) of which several fields are set. */
function checkOneofs(type: DescMessage, message: PlainMessage, path: string, violations: Violation[]): void {
  for (const oneof of type.oneofs) {
    const setFields = oneof.fields.filter(({ name }) => name in message).map(({ jsonName }) => jsonName);
    if (setFields.length > 1)
      violations.push({
        field: path || 'request',
        description: `only one of these fields may be set: ${setFields.join(', ')}`,
      });
  }
}

/** Returns the end of a message about an unknown field: the most similar field name, or all of them. */
function suggestField(key: string, type: DescMessage): string {
  const names = type.fields.map(({ jsonName }) => jsonName);
  const nearest = findNearest(key, names);
  return nearest === undefined ? `; ${type.name} has ${names.join(', ') || 'no fields'}` : `; did you mean ${nearest}?`;
}

/** Whether null is a value: only in a google.protobuf.Value; elsewhere null means absent. */
function isValueField(field: DescField): boolean {
  return field.fieldKind === 'message' && field.message.typeName === 'google.protobuf.Value';
}

/**
 * Converts the JSON of a field: a list, a map or one value. A map becomes the list of its entries, as proto-loader
 * expects it; the keys of a JSON object are strings, of which proto-loader converts all but booleans.
 */
function readField(field: DescField, json: unknown, path: string, violations: Violation[]): unknown {
  if (field.fieldKind === 'list') {
    if (!Array.isArray(json)) return acceptOrReport(undefined, 'a JSON array', json, path, violations);
    return json.map((item, index) => readValue(field, item, `${path}[${index}]`, violations));
  }
  if (field.fieldKind === 'map') {
    if (!isObject(json)) return acceptOrReport(undefined, 'a JSON object', json, path, violations);
    return Object.entries(json).map(([key, value]) => ({
      key: field.mapKey === ScalarType.BOOL ? key === 'true' : key,
      value: readValue(field, value, `${path}.${key}`, violations),
    }));
  }
  return readValue(field, json, path, violations);
}

/** Reads one value: of the field itself, or an item of its list or map. */
function readValue(field: DescField, json: unknown, path: string, violations: Violation[]): unknown {
  if (field.message) return readMessage(field.message, json, path, violations);
  const { enum: enumType } = field;
  if (enumType)
    return acceptOrReport(
      readEnum(enumType, json),
      `one of ${enumType.values
        .slice(1) // the first value means that the enum is not set
        .map(({ number }) => enumToJson(enumType, number))
        .join(', ')}`,
      json,
      path,
      violations,
    );
  const scalar = getScalarFormat(field.scalar);
  return acceptOrReport(scalar.read(json), scalar.form, json, path, violations);
}

/**
 * Returns the number of an enum value that is given as that number, as its name in the proto, or as its JSON word (see
 * enumToJson); undefined if the enum has no such value.
 */
function readEnum(type: DescEnum, json: unknown): number | undefined {
  return type.values.find(({ number, name }) => json === number || json === name || json === enumToJson(type, number))
    ?.number;
}

/**
 * Returns the value that was read. Adds a violation if it is undefined, that is, if the JSON does not have the form.
 */
function acceptOrReport<T>(
  value: T | undefined,
  form: string,
  json: unknown,
  path: string,
  violations: Violation[],
): T | undefined {
  if (value === undefined)
    violations.push({
      field: path || 'request',
      description: `must be ${form}, not ${shorten(JSON.stringify(json) ?? 'nothing')}`,
    });
  return value;
}

function shorten(text: string): string {
  return text.length > 60 ? `${text.slice(0, 57)}...` : text;
}

/**
 * Converts a field of a message to JSON; undefined if it must be omitted. A field has implicit presence if it is not
 * `optional` in proto3: then unset and zero are the same.
 */
function writeField(field: DescField, value: unknown): unknown {
  if (field.fieldKind === 'list') return ((value ?? []) as unknown[]).map((item) => writeValue(field, item));
  if (field.fieldKind === 'map')
    return Object.fromEntries(
      ((value ?? []) as MapEntry[]).map((entry) => [
        String(entry.key ?? ''),
        writeValue(field, entry.value ?? getDefaultValue(field)),
      ]),
    );
  const hasImplicitPresence = field.presence === FeatureSet_FieldPresence.IMPLICIT;
  if (field.fieldKind === 'scalar')
    return writeValue(field, value ?? (hasImplicitPresence ? getZeroValue(field.scalar) : undefined));
  // The zero value of an enum means that it is not set, and has no name in JSON.
  return hasImplicitPresence && value === 0 ? undefined : writeValue(field, value);
}

/** Returns the value of a map entry without a value: on the wire, a default value is omitted. */
function getDefaultValue(field: DescField & { readonly fieldKind: 'map' }): unknown {
  if (field.message) return {};
  return field.enum ? 0 : getZeroValue(field.scalar);
}

/**
 * Returns the value of a scalar field that is not set. proto-loader reads 64-bit integers as numbers too
 * (LOADER_OPTIONS).
 */
function getZeroValue(type: ScalarType): unknown {
  if (type === ScalarType.BYTES) return Buffer.alloc(0);
  if (type === ScalarType.STRING) return '';
  return type === ScalarType.BOOL ? false : 0;
}

/**
 * Converts one value to JSON: of the field itself, or an item of its list or map. NaN and infinity become strings,
 * because JSON has no numbers for them.
 */
function writeValue(field: DescField, value: unknown): unknown {
  if (value === undefined) return undefined;
  if (field.message) return messageToJson(field.message, value as object);
  if (field.enum) return enumToJson(field.enum, value as number);
  if (field.scalar === ScalarType.BYTES) return Buffer.from(value as Uint8Array).toString('base64');
  return typeof value === 'number' && !Number.isFinite(value) ? String(value) : value;
}

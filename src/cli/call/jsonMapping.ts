import { ScalarType, type DescEnum, type DescField, type DescMessage } from '@bufbuild/protobuf';
import { FeatureSet_FieldPresence } from '@bufbuild/protobuf/wkt';
import { throwIfAny, type Violation } from '../../kernel/errors';
import { nearest } from '../../kernel/nearest';
import { enumWord } from '../../rpc/json/enumWords';
import { INTEGER_RANGES } from '../../rpc/json/scalars';
import { WELL_KNOWN } from './wellKnownJson';

// The JSON of contract.md, section 1: camelCase names, enum values without their prefix in lower case, 64-bit integers as
// numbers, times as ISO 8601, bytes as base64. Messages are the plain objects of proto-loader with LOADER_OPTIONS; it knows no maps
// when it works from descriptors, so a map is the list of its entries, as on the wire.

type PlainMessage = Record<string, unknown>;
type MapEntry = { readonly key?: string | number | boolean; readonly value?: unknown };
type Scalar = { readonly read: (json: unknown) => unknown; readonly form: string };

const integer = ([least, most]: readonly [number, number]): Scalar => ({
  read: (json) => {
    const value = typeof json === 'string' && /^-?\d+$/.test(json) ? Number(json) : json;
    return Number.isInteger(value) && (value as number) >= least && (value as number) <= most ? value : undefined;
  },
  form: `a whole number from ${least} to ${most}`,
});
const NOT_FINITE: Readonly<Record<string, number>> = { NaN: Number.NaN, Infinity: Number.POSITIVE_INFINITY, '-Infinity': Number.NEGATIVE_INFINITY };
const float: Scalar = { read: (json) => (typeof json === 'string' ? NOT_FINITE[json] : typeof json === 'number' ? json : undefined), form: 'a number' };
const BASE64 = /^[A-Za-z0-9+/_-]*={0,2}$/;

const OTHERS: Readonly<Partial<Record<ScalarType, Scalar>>> = {
  [ScalarType.STRING]: { read: (json) => (typeof json === 'string' ? json : undefined), form: 'a text' },
  [ScalarType.BOOL]: { read: (json) => (typeof json === 'boolean' ? json : undefined), form: 'true or false' },
  [ScalarType.BYTES]: { read: (json) => (typeof json === 'string' && BASE64.test(json) ? Buffer.from(json, 'base64') : undefined), form: 'bytes in base64' },
};

function scalarOf(type: ScalarType): Scalar {
  const range = INTEGER_RANGES[type];
  return range ? integer(range) : (OTHERS[type] ?? float);
}

/** The message of a JSON value. Throws `validation_failed` with every mistake by its path. */
export function messageFromJson(type: DescMessage, json: unknown): PlainMessage {
  const violations: Violation[] = [];
  const message = readMessage(type, json, '', violations);
  throwIfAny(violations);
  return message as PlainMessage;
}

/** The JSON of a message: lists, maps and plain scalars always, absent optional fields and messages never. */
export function messageToJson(type: DescMessage, message: object): unknown {
  const wellKnown = WELL_KNOWN[type.typeName];
  if (wellKnown) return wellKnown.toJson(message);
  const plain = message as PlainMessage;
  return Object.fromEntries(type.fields.map((field) => [field.jsonName, writeField(field, plain[field.name])]).filter(([, value]) => value !== undefined));
}

/** An enum value as JSON: its name less the prefix of the enum, in lower case; its number if it has no name here. */
export function enumToJson(type: DescEnum, value: number): string | number {
  return enumWord(type, value) ?? value;
}

function readMessage(type: DescMessage, json: unknown, path: string, violations: Violation[]): object | undefined {
  const wellKnown = WELL_KNOWN[type.typeName];
  if (wellKnown) return accept(wellKnown.fromJson(json), wellKnown.form, json, path, violations);
  if (!isJsonObject(json)) return accept(undefined, `a JSON object (${type.name})`, json, path, violations);
  const message: PlainMessage = {};
  for (const [key, value] of Object.entries(json)) {
    const field = type.fields.find((f) => f.jsonName === key || f.name === key);
    const at = path ? `${path}.${key}` : key;
    if (!field) violations.push({ field: at, description: `there is no such field${hint(key, type)}` });
    else if (value !== null || isJsonValue(field)) message[field.name] = readField(field, value, at, violations);
  }
  checkOneofs(type, message, path, violations);
  return message;
}

function checkOneofs(type: DescMessage, message: PlainMessage, path: string, violations: Violation[]): void {
  for (const oneof of type.oneofs) {
    const given = oneof.fields.filter((f) => f.name in message).map((f) => f.jsonName);
    if (given.length > 1) violations.push({ field: path || 'request', description: `holds ${given.join(' and ')}: give only one of them` });
  }
}

function isJsonObject(json: unknown): json is object {
  return typeof json === 'object' && json !== null && !Array.isArray(json);
}

function hint(key: string, type: DescMessage): string {
  const names = type.fields.map((f) => f.jsonName);
  const near = nearest(key, names);
  return near === undefined ? `; ${type.name} has ${names.join(', ') || 'no fields'}` : `; did you mean ${near}?`;
}

/** A google.protobuf.Value may be null; in every other field null means absent. */
function isJsonValue(field: DescField): boolean {
  return field.fieldKind === 'message' && field.message.typeName === 'google.protobuf.Value';
}

function readField(field: DescField, json: unknown, path: string, violations: Violation[]): unknown {
  if (field.fieldKind === 'list') {
    if (!Array.isArray(json)) return accept(undefined, 'a JSON array', json, path, violations);
    return json.map((item, at) => readOne(field, item, `${path}[${at}]`, violations));
  }
  if (field.fieldKind === 'map') {
    if (!isJsonObject(json)) return accept(undefined, 'a JSON object', json, path, violations);
    return Object.entries(json).map(([key, value]) => ({ key: field.mapKey === ScalarType.BOOL ? key === 'true' : key, value: readOne(field, value, `${path}.${key}`, violations) }));
  }
  return readOne(field, json, path, violations);
}

/** One value: of the field itself, or an item of its list or map. */
function readOne(field: DescField, json: unknown, path: string, violations: Violation[]): unknown {
  if (field.message) return readMessage(field.message, json, path, violations);
  const { enum: words } = field;
  if (words) return accept(readEnum(words, json), `one of ${words.values.slice(1).map((v) => enumToJson(words, v.number)).join(', ')}`, json, path, violations);
  const scalar = scalarOf(field.scalar);
  return accept(scalar.read(json), scalar.form, json, path, violations);
}

function readEnum(type: DescEnum, json: unknown): number | undefined {
  return type.values.find((v) => json === v.number || json === v.name || json === enumToJson(type, v.number))?.number;
}

function accept<T>(value: T | undefined, form: string, json: unknown, path: string, violations: Violation[]): T | undefined {
  if (value === undefined) violations.push({ field: path || 'request', description: `must be ${form}, not ${shorten(JSON.stringify(json) ?? 'nothing')}` });
  return value;
}

function shorten(text: string): string {
  return text.length > 60 ? `${text.slice(0, 57)}...` : text;
}

function writeField(field: DescField, value: unknown): unknown {
  if (field.fieldKind === 'list') return ((value ?? []) as unknown[]).map((item) => writeOne(field, item));
  if (field.fieldKind === 'map') return Object.fromEntries(((value ?? []) as MapEntry[]).map((entry) => [String(entry.key ?? ''), writeOne(field, entry.value ?? (field.message ? {} : field.enum ? 0 : zero(field.scalar)))]));
  const implicit = field.presence === FeatureSet_FieldPresence.IMPLICIT;
  if (field.fieldKind === 'scalar') return writeOne(field, value ?? (implicit ? zero(field.scalar) : undefined));
  // An enum that was not set has no name of its own.
  return implicit && value === 0 ? undefined : writeOne(field, value);
}

function zero(type: ScalarType): unknown {
  if (type === ScalarType.BYTES) return Buffer.alloc(0);
  if (type === ScalarType.STRING) return '';
  return type === ScalarType.BOOL ? false : 0;
}

function writeOne(field: DescField, value: unknown): unknown {
  if (value === undefined) return undefined;
  if (field.message) return messageToJson(field.message, value as object);
  if (field.enum) return enumToJson(field.enum, value as number);
  if (field.scalar === ScalarType.BYTES) return Buffer.from(value as Uint8Array).toString('base64');
  return typeof value === 'number' && !Number.isFinite(value) ? String(value) : value;
}

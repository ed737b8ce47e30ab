import type { DescField, DescMessage } from '@bufbuild/protobuf';
import { ScalarType } from '@bufbuild/protobuf';
import type { JsonObject } from '../support/http';
import { descriptors } from '../support/testApp';

/** A request that must be refused, and the fields that must be named. */
export interface WrongRequest {
  readonly what: string;
  readonly body: JsonObject;
  readonly fields: readonly string[];
}

/** A message somewhere in a request: its path, and the request around it. */
interface Place {
  readonly path: string;
  readonly message: DescMessage;
  readonly around: (inner: unknown) => JsonObject;
}

/** One value of each JSON type, and the values of a right type that are no values of a field. */
const VALUES: readonly (readonly [what: string, value: unknown])[] = [
  ['true', true],
  ['a whole number', 7],
  ['a fraction', 1.5],
  ['a number beyond 32 bits', 2 ** 40],
  ['a text', 'no such thing!'],
  ['a list', []],
  ['an object', {}],
];
const DEEPEST = 5;

/** Requests in which every field of one message has a value of the wrong type, for each type and each message of the request. */
export function wrongTypes(request: DescMessage, leftOut: readonly DescField[]): WrongRequest[] {
  return placesOf(request).flatMap(({ path, message, around }) => {
    const own = message.fields.filter((field) => !leftOut.includes(field));
    return VALUES.flatMap(([what, value]) => [
      ofFields(`${what} in ${path || 'the request'}`, own.filter((field) => !takes(field, value)), path, around, value, ''),
      ofFields(`a list of ${what} in ${path || 'the request'}`, own.filter((field) => field.fieldKind === 'list' && !takesOne(field, value)), path, around, [value], '[0]'),
      ofFields(`a map to ${what} in ${path || 'the request'}`, own.filter((field) => field.fieldKind === 'map' && !takesOne(field, value)), path, around, { key: value }, '.key'),
    ]).filter(({ fields }) => fields.length > 0);
  });
}

/** Requests with a field that there is not, in each message of it. */
export function unknownFields(request: DescMessage): WrongRequest[] {
  return placesOf(request).map(({ path, around }) => ({ what: `an unknown field in ${path || 'the request'}`, body: around({ nope: 1 }), fields: [joined(path, 'nope')] }));
}

/** Requests with a message that has none of its required fields. */
export function missingFields(request: DescMessage, leftOut: readonly DescField[]): WrongRequest[] {
  return placesOf(request)
    .map(({ path, message, around }) => {
      const required = message.fields.filter((field) => !leftOut.includes(field) && descriptors.rulesOf(field)?.required);
      return { what: `nothing in ${path || 'the request'}`, body: around({}), fields: required.map(({ jsonName }) => joined(path, jsonName)) };
    })
    .filter(({ fields }) => fields.length > 0);
}

/** What a query gives wrongly: every field that is no text, and a name that there is not. */
export function wrongQuery(request: DescMessage, leftOut: readonly DescField[], path = ''): [name: string, value: string][] {
  return request.fields
    .filter((field) => !leftOut.includes(field))
    .flatMap((field): [string, string][] => {
      const name = joined(path, field.jsonName);
      if (field.message && !field.message.typeName.startsWith('google.')) return field.fieldKind === 'message' ? wrongQuery(field.message, [], name) : [[name, 'x']];
      return field.scalar === ScalarType.STRING ? [] : [[name, 'no such thing!']];
    });
}

function ofFields(what: string, fields: readonly DescField[], path: string, around: Place['around'], value: unknown, behind: string): WrongRequest {
  return { what, body: around(Object.fromEntries(fields.map(({ jsonName }) => [jsonName, value]))), fields: fields.map(({ jsonName }) => `${joined(path, jsonName)}${behind}`) };
}

function placesOf(message: DescMessage, path = '', around: Place['around'] = (inner) => inner as JsonObject, depth = 0): Place[] {
  if (depth > DEEPEST) return [];
  const inner = message.fields.filter((field) => field.message && !field.message.typeName.startsWith('google.'));
  return [
    { path, message, around },
    ...inner.flatMap((field) => {
      const name = joined(path, field.jsonName);
      const [at, held] = field.fieldKind === 'list' ? [`${name}[0]`, (one: unknown) => [one]] : field.fieldKind === 'map' ? [`${name}.key`, (one: unknown) => ({ key: one })] : [name, (one: unknown) => one];
      return placesOf(field.message as DescMessage, at, (one) => around({ [field.jsonName]: held(one) }), depth + 1);
    }),
  ];
}

function takes(field: DescField, value: unknown): boolean {
  if (field.fieldKind === 'list') return Array.isArray(value);
  if (field.fieldKind === 'map') return isObject(value);
  return takesOne(field, value);
}

/** Whether the field, or one item of it, may have the value. */
function takesOne(field: DescField, value: unknown): boolean {
  if (field.message) return takesMessage(field.message, value);
  if (field.enum) return false;
  if (field.scalar === ScalarType.STRING) return typeof value === 'string';
  if (field.scalar === ScalarType.BOOL) return typeof value === 'boolean';
  if (field.scalar === ScalarType.BYTES) return false;
  if (field.scalar === ScalarType.DOUBLE) return typeof value === 'number';
  return Number.isInteger(value) && (field.scalar === ScalarType.INT64 || (value as number) < 2 ** 31);
}

function takesMessage({ typeName }: DescMessage, value: unknown): boolean {
  if (typeName === 'google.protobuf.Value') return true;
  return typeName === 'google.protobuf.Timestamp' ? false : isObject(value);
}

function joined(path: string, name: string): string {
  return path === '' ? name : `${path}.${name}`;
}

function isObject(value: unknown): boolean {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

import type { DescField, DescMessage } from '@bufbuild/protobuf';
import { ScalarType } from '@bufbuild/protobuf';
import type { JsonObject } from '../../support/http';
import { descriptors } from '../../support/testApp';

/** A request that must be rejected, and the fields that the error must name. */
export interface WrongRequest {
  readonly what: string;
  readonly body: JsonObject;
  readonly fields: readonly string[];
}

/** The position of a message in a request: its path, and a function that builds the request around it. */
interface Place {
  readonly path: string;
  readonly message: DescMessage;
  readonly wrap: (inner: unknown) => JsonObject;
}

/** One value of each JSON type, and values of the right type that no field accepts. */
const VALUES: readonly (readonly [what: string, value: unknown])[] = [
  ['true', true],
  ['an integer', 7],
  ['a fraction', 1.5],
  ['a number beyond 32 bits', 2 ** 40],
  ['a text', 'no such thing!'],
  ['a list', []],
  ['an object', {}],
];
const MAX_DEPTH = 5;

/**
 * Builds requests in which every field of one message has a wrong type, for each type and each message of the request.
 */
export function wrongTypes(request: DescMessage, leftOut: readonly DescField[]): WrongRequest[] {
  return listPlaces(request).flatMap(({ path, message, wrap }) => {
    const own = message.fields.filter((field) => !leftOut.includes(field));
    return VALUES.flatMap(([what, value]) => [
      createWrongRequest(
        `${what} in ${path || 'the request'}`,
        own.filter((field) => !takes(field, value)),
        path,
        wrap,
        value,
        '',
      ),
      createWrongRequest(
        `a list of ${what} in ${path || 'the request'}`,
        own.filter((field) => field.fieldKind === 'list' && !takesOne(field, value)),
        path,
        wrap,
        [value],
        '[0]',
      ),
      createWrongRequest(
        `a map to ${what} in ${path || 'the request'}`,
        own.filter((field) => field.fieldKind === 'map' && !takesOne(field, value)),
        path,
        wrap,
        { key: value },
        '.key',
      ),
    ]).filter(({ fields }) => fields.length > 0);
  });
}

/** Builds requests with an unknown field, in each message of the request. */
export function unknownFields(request: DescMessage): WrongRequest[] {
  return listPlaces(request).map(({ path, wrap }) => ({
    what: `an unknown field in ${path || 'the request'}`,
    body: wrap({ nope: 1 }),
    fields: [joined(path, 'nope')],
  }));
}

/** Builds requests with a message that has none of its required fields. */
export function missingFields(request: DescMessage, leftOut: readonly DescField[]): WrongRequest[] {
  return listPlaces(request)
    .map(({ path, message, wrap }) => {
      const required = message.fields.filter(
        (field) => !leftOut.includes(field) && descriptors.getRules(field)?.required,
      );
      return {
        what: `nothing in ${path || 'the request'}`,
        body: wrap({}),
        fields: required.map(({ jsonName }) => joined(path, jsonName)),
      };
    })
    .filter(({ fields }) => fields.length > 0);
}

/** Lists invalid query parameters: every field that is not a string, and an unknown name. */
export function wrongQuery(
  request: DescMessage,
  leftOut: readonly DescField[],
  path = '',
): [name: string, value: string][] {
  return request.fields
    .filter((field) => !leftOut.includes(field))
    .flatMap((field): [string, string][] => {
      const name = joined(path, field.jsonName);
      if (field.message && !field.message.typeName.startsWith('google.'))
        return field.fieldKind === 'message' ? wrongQuery(field.message, [], name) : [[name, 'x']];
      return field.scalar === ScalarType.STRING ? [] : [[name, 'no such thing!']];
    });
}

function createWrongRequest(
  what: string,
  fields: readonly DescField[],
  path: string,
  wrap: Place['wrap'],
  value: unknown,
  suffix: string,
): WrongRequest {
  return {
    what,
    body: wrap(Object.fromEntries(fields.map(({ jsonName }) => [jsonName, value]))),
    fields: fields.map(({ jsonName }) => `${joined(path, jsonName)}${suffix}`),
  };
}

function listPlaces(
  message: DescMessage,
  path = '',
  wrap: Place['wrap'] = (inner) => inner as JsonObject,
  depth = 0,
): Place[] {
  if (depth > MAX_DEPTH) return [];
  const inner = message.fields.filter((field) => field.message && !field.message.typeName.startsWith('google.'));
  return [
    { path, message, wrap },
    ...inner.flatMap((field) => {
      const name = joined(path, field.jsonName);
      const [at, held] =
        field.fieldKind === 'list'
          ? [`${name}[0]`, (one: unknown) => [one]]
          : field.fieldKind === 'map'
            ? [`${name}.key`, (one: unknown) => ({ key: one })]
            : [name, (one: unknown) => one];
      return listPlaces(field.message as DescMessage, at, (one) => wrap({ [field.jsonName]: held(one) }), depth + 1);
    }),
  ];
}

function takes(field: DescField, value: unknown): boolean {
  if (field.fieldKind === 'list') return Array.isArray(value);
  if (field.fieldKind === 'map') return isObject(value);
  return takesOne(field, value);
}

/** Returns whether the field, or one item of it, accepts the value. */
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

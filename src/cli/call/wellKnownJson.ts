import { durationText, timestampText } from '../../rpc/json/times';

/** A well-known type of protobuf that has a JSON form of its own. Objects are as in jsonMapping.ts. */
export interface WellKnown {
  /** The object of a JSON value; undefined if it is none of this type. */
  readonly fromJson: (json: unknown) => object | undefined;
  readonly toJson: (message: object) => unknown;
  /** What its JSON form is, to say in an error. */
  readonly form: string;
}

interface SecondsAndNanos {
  readonly seconds?: number;
  readonly nanos?: number;
}

interface ValueMessage {
  readonly number_value?: number;
  readonly string_value?: string;
  readonly bool_value?: boolean;
  readonly struct_value?: object;
  readonly list_value?: object;
}

const FIRST_SECOND = Date.parse('0001-01-01T00:00:00Z') / 1000;
const LAST_SECOND = Date.parse('9999-12-31T23:59:59Z') / 1000;

/** The types by their full names. */
export const WELL_KNOWN: Readonly<Record<string, WellKnown>> = {
  'google.protobuf.Timestamp': { fromJson: timestampFromJson, toJson: timestampToJson, form: 'an ISO 8601 time, for example "2026-01-31T08:00:00Z"' },
  'google.protobuf.Duration': { fromJson: durationFromJson, toJson: durationToJson, form: 'a number of seconds with "s", for example "1.5s"' },
  'google.protobuf.Struct': { fromJson: structFromJson, toJson: structToJson, form: 'a JSON object' },
  'google.protobuf.Value': { fromJson: valueFromJson, toJson: valueToJson, form: 'a JSON value' },
  'google.protobuf.ListValue': { fromJson: listFromJson, toJson: listToJson, form: 'a JSON array' },
};

function timestampFromJson(json: unknown): object | undefined {
  const match = typeof json === 'string' ? /^(\d{4}-\d\d-\d\d)[Tt ](\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?([Zz]|[+-]\d\d:\d\d)$/.exec(json) : null;
  if (!match) return undefined;
  const seconds = Date.parse(`${match[1]}T${match[2]}${match[4]?.toUpperCase()}`) / 1000;
  if (Number.isNaN(seconds) || seconds < FIRST_SECOND || seconds > LAST_SECOND) return undefined;
  return { seconds, nanos: Number((match[3] ?? '').padEnd(9, '0')) };
}

function timestampToJson(message: object): string {
  const { seconds = 0, nanos = 0 } = message as SecondsAndNanos;
  return Math.abs(seconds) > LAST_SECOND ? `${seconds}s after 1970` : timestampText({ seconds, nanos });
}

function durationFromJson(json: unknown): object | undefined {
  const match = typeof json === 'string' ? /^(-?)(\d{1,12})(?:\.(\d{1,9}))?s$/.exec(json) : null;
  if (!match) return undefined;
  const sign = match[1] ? -1 : 1;
  // "+ 0" turns -0 into 0.
  return { seconds: sign * Number(match[2]) + 0, nanos: sign * Number((match[3] ?? '').padEnd(9, '0')) + 0 };
}

function durationToJson(message: object): string {
  const { seconds = 0, nanos = 0 } = message as SecondsAndNanos;
  return durationText({ seconds, nanos });
}

function structFromJson(json: unknown): object | undefined {
  if (typeof json !== 'object' || json === null || Array.isArray(json)) return undefined;
  return { fields: Object.entries(json).map(([key, inner]) => ({ key, value: valueFromJson(inner) })) };
}

function structToJson(message: object): unknown {
  const { fields = [] } = message as { fields?: readonly { readonly key?: string; readonly value?: object }[] };
  return Object.fromEntries(fields.map(({ key = '', value = {} }) => [key, valueToJson(value)]));
}

function listFromJson(json: unknown): object | undefined {
  if (!Array.isArray(json)) return undefined;
  return { values: json.map(valueFromJson) };
}

function listToJson(message: object): unknown {
  const { values = [] } = message as { values?: readonly object[] };
  return values.map(valueToJson);
}

function valueFromJson(json: unknown): object {
  if (typeof json === 'number') return { number_value: json };
  if (typeof json === 'string') return { string_value: json };
  if (typeof json === 'boolean') return { bool_value: json };
  if (Array.isArray(json)) return { list_value: listFromJson(json) };
  const fields = structFromJson(json);
  return fields ? { struct_value: fields } : { null_value: 0 };
}

function valueToJson(message: object): unknown {
  const value = message as ValueMessage;
  if (value.struct_value) return structToJson(value.struct_value);
  if (value.list_value) return listToJson(value.list_value);
  return value.string_value ?? value.number_value ?? value.bool_value ?? null;
}

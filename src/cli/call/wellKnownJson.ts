import { formatDuration, formatTimestamp, parseDuration, parseTimestamp } from '../../api/json/times';
import { LAST_SECOND } from '../../kernel/timestamps';

/** A well-known protobuf type that has its own JSON form. Objects are as in jsonMapping.ts. */
interface WellKnown {
  /** Converts a JSON value; undefined if it is not a value of this type. */
  readonly fromJson: (json: unknown) => object | undefined;
  readonly toJson: (message: object) => unknown;
  /** Describes the JSON form, for error messages. */
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

/** The types by their full names. */
export const WELL_KNOWN: Readonly<Record<string, WellKnown>> = {
  'google.protobuf.Timestamp': {
    fromJson: (json) => (typeof json === 'string' ? parseTimestamp(json) : undefined),
    toJson: timestampToJson,
    form: 'an ISO 8601 time, for example "2026-01-31T08:00:00Z"',
  },
  'google.protobuf.Duration': {
    fromJson: (json) => (typeof json === 'string' ? parseDuration(json) : undefined),
    toJson: durationToJson,
    form: 'a number of seconds with "s", for example "1.5s"',
  },
  'google.protobuf.Struct': { fromJson: structFromJson, toJson: structToJson, form: 'a JSON object' },
  'google.protobuf.Value': { fromJson: valueFromJson, toJson: valueToJson, form: 'a JSON value' },
  'google.protobuf.ListValue': { fromJson: listFromJson, toJson: listToJson, form: 'a JSON array' },
};

/**
 * Formats a time as ISO 8601; a time after the year 9999 (or as long before 1970) as seconds, so that it can be shown.
 */
function timestampToJson(message: object): string {
  const { seconds = 0, nanos = 0 } = message as SecondsAndNanos;
  return Math.abs(seconds) > LAST_SECOND ? `${seconds}s after 1970` : formatTimestamp({ seconds, nanos });
}

function durationToJson(message: object): string {
  const { seconds = 0, nanos = 0 } = message as SecondsAndNanos;
  return formatDuration({ seconds, nanos });
}

/** Converts an object. Its fields are a protobuf map, which is the list of its entries here. */
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

/** Converts any JSON value. A protobuf Value sets the one field that matches its type. */
function valueFromJson(json: unknown): object {
  if (typeof json === 'number') return { number_value: json };
  if (typeof json === 'string') return { string_value: json };
  if (typeof json === 'boolean') return { bool_value: json };
  if (Array.isArray(json)) return { list_value: listFromJson(json) };
  const fields = structFromJson(json);
  return fields ? { struct_value: fields } : { null_value: 0 }; // the only value of the enum NullValue
}

function valueToJson(message: object): unknown {
  const value = message as ValueMessage;
  if (value.struct_value) return structToJson(value.struct_value);
  if (value.list_value) return listToJson(value.list_value);
  return value.string_value ?? value.number_value ?? value.bool_value ?? null;
}

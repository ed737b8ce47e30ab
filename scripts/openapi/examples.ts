import { NOT_IN_RESPONSES, NOT_IN_REQUESTS, VALUE_BY_FIELD } from './exampleValues';
import type { JsonObject, Schema } from './json';

// One UUIDv7 for each kind of record.
const UUID_BY_KIND = Object.fromEntries(
  [
    'organization',
    'user',
    'apiKey',
    'connection',
    'device',
    'physicalDevice',
    'sensor',
    'sensorTemplate',
    'keyName',
    'sensorMapping',
    'command',
    'execution',
    'trigger',
    'media',
    'role',
    'dashboard',
  ].map((kind, index) => [
    kind,
    `0199a3c4-5d1${index.toString(16)}-7${index.toString(16)}3e-9f21-6b7a8c9d0e${(16 + index).toString(16)}`,
  ]),
);
const WIDGET_ID = '0199a3c4-5d20-703e-9f21-6b7a8c9d0e20';
const ID_BY_KIND: Readonly<Record<string, string>> = { ...UUID_BY_KIND, widget: WIDGET_ID, connector: 'gateway' };

const TIME = '2026-11-22T08:30:00Z';
const TIME_BY_FIELD: Readonly<Record<string, string>> = {
  createdAt: '2026-11-02T09:15:00Z',
  from: '2026-11-21T00:00:00Z',
  to: '2026-11-22T00:00:00Z',
  end: '2026-11-22T09:00:00Z',
  expiresAt: '2027-11-22T00:00:00Z',
  downsampledBefore: '2026-08-24T00:00:00Z',
};

/** Examples that the document contains once, as components with a name. */
export class SharedExamples {
  readonly components = new Map<string, unknown>();

  /** Adds an example, unless the name exists, and returns the reference to it. */
  ref(name: string, value: unknown): JsonObject {
    if (!this.components.has(name)) this.components.set(name, value);
    return { [name]: { $ref: `#/components/examples/${name}` } };
  }
}

/** Creates examples from schemas, with realistic values. */
export class Examples {
  constructor(
    private readonly components: ReadonlyMap<string, Schema>,
    /** The kind of record that `id` at the top level of a request or parameter refers to, for example `device`. */
    private readonly idKind: string,
  ) {}

  /** Creates an example of a request body or parameter. */
  createRequest(schema: Schema, name = ''): unknown {
    return this.create(schema, name, '', NOT_IN_REQUESTS);
  }

  /** Creates an example of a response. */
  createResponse(schema: Schema): unknown {
    return this.create(schema, '', '', NOT_IN_RESPONSES);
  }

  /**
   * Creates an example of a schema. `field`: the name of the field that has it; `message`: the name of the schema that
   * contains the field; both select a realistic value. `omitted`: the optional fields to leave out.
   */
  private create(schema: Schema, field: string, message: string, omitted: ReadonlySet<string>): unknown {
    const knownValue = this.findKnownValue(field, message);
    if (knownValue) return knownValue.value;
    const { $ref, oneOf } = schema as { $ref?: string; oneOf?: Schema[] };
    if (oneOf) return this.create(oneOf[0] as Schema, field, message, omitted);
    if ($ref) return this.createReferenced($ref.slice($ref.lastIndexOf('/') + 1), field, message, omitted);
    return this.createPlain(schema, field, message, omitted);
  }

  /** Creates an example of the component (a named schema) to which a field refers. */
  private createReferenced(name: string, field: string, message: string, omitted: ReadonlySet<string>): unknown {
    const schema = this.components.get(name) as Schema;
    return schema['properties']
      ? this.createObject(schema, name, omitted)
      : this.create(schema, field, message, omitted);
  }

  /** Creates an example of an object with its required fields and those optional ones that are not omitted. */
  private createObject(schema: Schema, name: string, omitted: ReadonlySet<string>): JsonObject {
    const required = new Set((schema['required'] as string[] | undefined) ?? []);
    const example: JsonObject = {};
    for (const [field, inner] of Object.entries(schema['properties'] as Record<string, Schema>)) {
      if (!required.has(field) && (omitted.has(field) || omitted.has(`${name}.${field}`))) continue;
      const value = this.create(inner, field, name, omitted);
      if (value !== undefined) example[field] = value;
    }
    return example;
  }

  /** Creates an example of a schema without a reference and without a known value. */
  private createPlain(schema: Schema, field: string, message: string, omitted: ReadonlySet<string>): unknown {
    const type = Array.isArray(schema['type']) ? (schema['type'] as string[])[0] : schema['type'];
    const values = schema['enum'] as unknown[] | undefined;
    if (values) return values[0];
    if (type === 'array') return [this.create(schema['items'] as Schema, toSingular(field), message, omitted)];
    if (type === 'object') return schema['properties'] ? this.createObject(schema, message, omitted) : {};
    if (type === 'string') return formatText(schema, field);
    if (type === 'boolean') return false;
    // Without a type, any JSON is valid: the value of a sensor. Otherwise it is a number.
    return type === undefined ? 21.5 : Math.max(1, (schema['minimum'] as number | undefined) ?? 1);
  }

  /**
   * Returns `{ value }` if the value of the field is known (`value` undefined: omit the field), otherwise undefined.
   * `field` is empty for a schema that is not a field, such as a whole message.
   */
  private findKnownValue(field: string, message: string): { readonly value: unknown } | undefined {
    // A schema with the suffix `Input` has the values of the message itself.
    for (const name of [`${message.replace(/Input$/, '')}.${field}`, field])
      if (field !== '' && Object.hasOwn(VALUE_BY_FIELD, name)) return { value: VALUE_BY_FIELD[name] };
    const id = this.getId(field, message);
    return id === undefined ? undefined : { value: id };
  }

  /** Returns the example id of the kind of record that a field refers to; undefined if the field is not an id. */
  private getId(field: string, message: string): string | undefined {
    if (field === 'id') return ID_BY_KIND[findIdKind(message) ?? this.idKind];
    if (!field.endsWith('Id')) return undefined;
    const kind = KIND_BY_ID_FIELD[field] ?? field.slice(0, -'Id'.length);
    return ID_BY_KIND[kind];
  }
}

/** The kinds of records whose name differs from that of the field. */
const KIND_BY_ID_FIELD: Readonly<Record<string, string>> = {
  ownerUserId: 'user',
  updatedByUserId: 'user',
  keyNameId: 'keyName',
  mediaId: 'media',
  queryCommandId: 'command',
  parentExecutionId: 'execution',
};
/** The kinds of records whose name differs from that of the message. */
const KIND_BY_MESSAGE: Readonly<Record<string, string>> = {
  DigitalDevice: 'device',
  NormalizedKey: 'keyName',
  Image: 'media',
};

/** Returns the kind of record that the `id` of a message refers to; undefined if it is unknown. */
function findIdKind(message: string): string | undefined {
  const name = message.replace(/InList$/, '');
  const kind = KIND_BY_MESSAGE[name] ?? name.charAt(0).toLowerCase() + name.slice(1);
  return kind in ID_BY_KIND ? kind : undefined;
}

/** Returns the example of a string without a known value: a time, base64 or `text`. */
function formatText(schema: Schema, field: string): string {
  if (schema['format'] === 'date-time') return TIME_BY_FIELD[field] ?? TIME;
  return schema['contentEncoding'] === 'base64' ? 'KA==' : 'text';
}

function toSingular(field: string): string {
  return field.endsWith('s') ? field.slice(0, -1) : field;
}

/** The kinds of records in the collections of the REST paths. */
const KIND_BY_PATH_SEGMENT: Readonly<Record<string, string>> = {
  'sensor-templates': 'sensorTemplate',
  'normalized-keys': 'keyName',
  devices: 'device',
  connections: 'connection',
  connectors: 'connector',
  organizations: 'organization',
  'api-keys': 'apiKey',
  roles: 'role',
  media: 'media',
  dashboards: 'dashboard',
};

/**
 * Returns the kind of record that `{id}` in a path refers to: that of the collection before it, or else that of the
 * first collection in the path; `device` if there is none.
 */
export function findIdKindInPath(path: string): string {
  const segmentBeforeId = /([^/]+)\/\{id\}/.exec(path)?.[1] ?? '';
  const firstCollection = path.split(/[/:]/).find((segment) => segment in KIND_BY_PATH_SEGMENT) ?? '';
  return KIND_BY_PATH_SEGMENT[segmentBeforeId] ?? KIND_BY_PATH_SEGMENT[firstCollection] ?? 'device';
}

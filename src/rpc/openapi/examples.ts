import { NOT_IN_ANSWERS, NOT_IN_REQUESTS, VALUES } from './exampleValues';
import type { JsonObject, Schema } from './json';

// UUIDv7s, a kind each.
const UUIDS = Object.fromEntries(
  ['organization', 'user', 'apiKey', 'connection', 'device', 'physicalDevice', 'sensor', 'sensorTemplate', 'keyName', 'sensorMapping', 'command', 'execution', 'trigger', 'media', 'role'].map((kind, at) => [
    kind,
    `0199a3c4-5d1${at.toString(16)}-7${at.toString(16)}3e-9f21-6b7a8c9d0e${(16 + at).toString(16)}`,
  ]),
);
const IDS: Readonly<Record<string, string>> = { ...UUIDS, connector: 'gateway' };

const TIME = '2026-11-22T08:30:00Z';
const TIMES: Readonly<Record<string, string>> = { createdAt: '2026-11-02T09:15:00Z', from: '2026-11-21T00:00:00Z', to: '2026-11-22T00:00:00Z', end: '2026-11-22T09:00:00Z', expiresAt: '2027-11-22T00:00:00Z', thinnedBefore: '2026-08-24T00:00:00Z' };
/** Examples that stand in the document once, under their names. */
export class SharedExamples {
  readonly components = new Map<string, unknown>();

  /** What stands for the example where it is shown. The first of a name stays. */
  ref(name: string, value: unknown): JsonObject {
    if (!this.components.has(name)) this.components.set(name, value);
    return { [name]: { $ref: `#/components/examples/${name}` } };
  }
}

/** Makes examples from schemas, with values that say something. */
export class Examples {
  constructor(
    private readonly components: ReadonlyMap<string, Schema>,
    /** What `id` at the top of a request or parameter stands for: `device`. */
    private readonly idKind: string,
  ) {}

  /** Of a request body or parameter. */
  request(schema: Schema, name = ''): unknown {
    return this.of(schema, name, '', NOT_IN_REQUESTS);
  }

  /** Of an answer. */
  answer(schema: Schema): unknown {
    return this.of(schema, '', '', NOT_IN_ANSWERS);
  }

  private of(schema: Schema, field: string, message: string, omitted: ReadonlySet<string>): unknown {
    const [known, value] = this.known(field, message);
    if (known) return value;
    const { $ref, anyOf } = schema as { $ref?: string; anyOf?: Schema[] };
    if (anyOf) return this.of(anyOf[0] as Schema, field, message, omitted);
    if ($ref) return this.referenced($ref.slice($ref.lastIndexOf('/') + 1), field, message, omitted);
    return this.plain(schema, field, message, omitted);
  }

  private referenced(name: string, field: string, message: string, omitted: ReadonlySet<string>): unknown {
    const schema = this.components.get(name) as Schema;
    return schema['properties'] ? this.object(schema, name, omitted) : this.of(schema, field, message, omitted);
  }

  private object(schema: Schema, name: string, omitted: ReadonlySet<string>): JsonObject {
    const required = new Set((schema['required'] as string[] | undefined) ?? []);
    const out: JsonObject = {};
    for (const [field, inner] of Object.entries(schema['properties'] as Record<string, Schema>)) {
      if (!required.has(field) && (omitted.has(field) || omitted.has(`${name}.${field}`))) continue;
      const value = this.of(inner, field, name, omitted);
      if (value !== undefined) out[field] = value;
    }
    return out;
  }

  private plain(schema: Schema, field: string, message: string, omitted: ReadonlySet<string>): unknown {
    const type = Array.isArray(schema['type']) ? (schema['type'] as string[])[0] : schema['type'];
    const values = schema['enum'] as unknown[] | undefined;
    if (values) return values[0];
    if (type === 'array') return [this.of(schema['items'] as Schema, singular(field), message, omitted)];
    if (type === 'object') return schema['properties'] ? this.object(schema, message, omitted) : {};
    if (type === 'string') return textOf(schema, field);
    if (type === 'boolean') return false;
    return type === undefined ? 21.5 : Math.max(1, (schema['minimum'] as number | undefined) ?? 1);
  }

  private known(field: string, message: string): readonly [boolean, unknown] {
    for (const name of [`${message.replace(/Input$/, '')}.${field}`, field]) if (field !== '' && Object.hasOwn(VALUES, name)) return [true, VALUES[name]];
    const id = this.idOf(field, message);
    return [id !== undefined, id];
  }

  private idOf(field: string, message: string): string | undefined {
    const kind = field === 'id' ? (idKindOf(message) ?? this.idKind) : field.endsWith('Id') ? (ALIASES[field] ?? field.slice(0, -2)) : undefined;
    return kind === undefined ? undefined : IDS[kind];
  }
}

const ALIASES: Readonly<Record<string, string>> = { ownerUserId: 'user', keyNameId: 'keyName', mediaId: 'media', queryCommandId: 'command', parentExecutionId: 'execution' };
const MESSAGE_KINDS: Readonly<Record<string, string>> = { DigitalDevice: 'device', NormalizedKey: 'keyName', Image: 'media' };

function idKindOf(message: string): string | undefined {
  const name = message.replace(/InList$/, '');
  const kind = MESSAGE_KINDS[name] ?? name.charAt(0).toLowerCase() + name.slice(1);
  return kind in IDS ? kind : undefined;
}

function textOf(schema: Schema, field: string): string {
  if (schema['format'] === 'date-time') return TIMES[field] ?? TIME;
  return schema['contentEncoding'] === 'base64' ? 'KA==' : 'text';
}

function singular(field: string): string {
  return field.endsWith('s') ? field.slice(0, -1) : field;
}

const PATH_KINDS: Readonly<Record<string, string>> = { 'sensor-templates': 'sensorTemplate', 'normalized-keys': 'keyName', devices: 'device', connections: 'connection', connectors: 'connector', organizations: 'organization', 'api-keys': 'apiKey', roles: 'role', media: 'media' };

/** What `{id}` in a path stands for. */
export function idKindOfPath(path: string): string {
  const before = /([^/]+)\/\{id\}/.exec(path)?.[1];
  const area = path.split(/[/:]/).find((segment) => segment in PATH_KINDS);
  return (before && PATH_KINDS[before]) ?? (area && PATH_KINDS[area]) ?? 'device';
}

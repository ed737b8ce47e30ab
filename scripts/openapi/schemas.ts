import { FeatureSet_FieldPresence } from '@bufbuild/protobuf/wkt';
import type { DescEnum, DescField, DescMessage } from '@bufbuild/protobuf';
import type { Descriptors } from '../../src/api/descriptors/descriptors';
import { getEnumWord, listEnumWords } from '../../src/api/json/enumWords';
import type { Comments } from './comments';
import { compact, ref, type JsonObject, type Schema } from './json';
import { buildScalarSchema, describeRules, findWellKnownSchema } from './valueSchemas';

/** Whether a schema is for requests (`in`) or responses (`out`), which differ in required and additional fields. */
type Direction = 'in' | 'out';

/** Builds the schemas of messages, each once, as components with unique names. */
export class Schemas {
  /** The schemas that are used, by name. */
  readonly components = new Map<string, Schema>();
  /** The source of each component, to detect two schemas with the same name. */
  private readonly sourceByName = new Map<string, string>();
  /** The names of the message types that occur in requests and in responses. */
  private readonly inBoth: ReadonlySet<string>;

  constructor(
    private readonly descriptors: Descriptors,
    private readonly comments: Comments,
  ) {
    const methods = [...descriptors.methods.values()];
    const inRequests = findReferencedTypes(methods.map(({ request }) => request));
    this.inBoth = new Set(
      [...findReferencedTypes(methods.map(({ response }) => response))].filter((name) => inRequests.has(name)),
    );
  }

  /** Returns the reference to the schema of a response. */
  getResponseSchema(desc: DescMessage): Schema {
    if (desc.fields.length === 0) return this.getEmptySchema();
    return this.addComponent(getSchemaName(desc), desc.typeName, () => this.buildMessageSchema(desc, 'out'));
  }

  /**
   * Returns the reference to the schema of a body: the request without the fields in `elsewhere` (the path or the
   * query); undefined if no field is left.
   */
  findBodySchema(
    desc: DescMessage,
    elsewhere: ReadonlySet<string> = new Set(),
    name: string = desc.name,
  ): Schema | undefined {
    const fields = desc.fields.filter((field) => !elsewhere.has(field.name));
    if (fields.length === 0) return undefined;
    return this.addComponent(name, `${desc.typeName} less ${[...elsewhere].join(', ')}`, () =>
      this.buildMessageSchema(desc, 'in', fields),
    );
  }

  /** Returns the schema of a field in a path or query. A list repeats the parameter. */
  getParameterSchema(field: DescField): Schema {
    return this.buildFieldSchema(field, 'in', undefined);
  }

  /** Adds a schema that is not built from a proto. Returns the reference to it. */
  addSchema(name: string, schema: Schema): Schema {
    return this.addComponent(name, name, () => schema);
  }

  /**
   * Returns whether a request must set a field. That includes numbers whose minimum is greater than 0, because an
   * absent number counts as 0.
   */
  isRequiredInRequest(field: DescField): boolean {
    const rules = this.descriptors.getRules(field);
    const isDeclaredRequired =
      rules?.required === true || this.descriptors.findJsonForm(field)?.requiredInJson === true;
    return (
      isDeclaredRequired ||
      (field.fieldKind === 'scalar' && field.presence === FeatureSet_FieldPresence.IMPLICIT && (rules?.min ?? 0) > 0)
    );
  }

  /** Returns the reference to the schema of messages without fields. */
  getEmptySchema(): Schema {
    return this.addComponent('Empty', 'Empty', () => ({ type: 'object', description: 'An empty object.' }));
  }

  /**
   * Returns the reference to a component, which is built on first use. `source`: what the schema is built from. Throws
   * if another source has used the name.
   */
  private addComponent(name: string, source: string, build: () => Schema): Schema {
    const existingSource = this.sourceByName.get(name);
    if (existingSource !== undefined && existingSource !== source)
      throw new Error(
        `two schemas of the OpenAPI document have the name ${name}: ${existingSource} and ${source}; rename one of the messages`,
      );
    if (existingSource === undefined) {
      this.sourceByName.set(name, source);
      this.components.set(name, {}); // reserves the position before the components of its fields
      this.components.set(name, build());
    }
    return ref('schemas', name);
  }

  /** Builds the schema of a message. `only`: the filter of its inner fields, as paths of proto names; empty: all. */
  private buildMessageSchema(
    desc: DescMessage,
    direction: Direction,
    fields: readonly DescField[] = desc.fields,
    only: readonly string[] = [],
  ): Schema {
    const properties: JsonObject = {};
    const required: string[] = [];
    for (const field of fields) {
      const schema = this.buildFieldSchema(field, direction, this.getFieldFilter(field, direction, only));
      properties[field.jsonName] = this.addDescription(
        field,
        this.isNullable(field, direction) ? toNullable(schema) : schema,
      );
      if (this.isRequired(field, direction)) required.push(field.jsonName);
    }
    return compact({
      type: 'object',
      description: this.comments.getText(desc),
      properties,
      required: required.length > 0 ? required : undefined,
      additionalProperties: direction === 'in' ? false : undefined, // later versions may add fields to responses
    });
  }

  /**
   * Returns the fields that the messages in a field contain, as paths of proto names; undefined if they contain all
   * fields. `outer`: the filter of the message that contains the field; a filter of the field itself replaces it.
   */
  private getFieldFilter(
    field: DescField,
    direction: Direction,
    outer: readonly string[],
  ): readonly string[] | undefined {
    const ownFilter = direction === 'out' ? (this.descriptors.findJsonForm(field)?.only ?? []) : [];
    if (ownFilter.length > 0) return ownFilter;
    const prefix = `${field.name}.`;
    const innerPaths = outer.filter((path) => path.startsWith(prefix)).map((path) => path.slice(prefix.length));
    return innerPaths.length > 0 ? innerPaths : undefined;
  }

  /** Whether null is a valid value of the field. In a request, null means the same as omitting the field. */
  private isNullable(field: DescField, direction: Direction): boolean {
    return direction === 'in'
      ? !this.isRequiredInRequest(field)
      : (this.descriptors.findJsonForm(field)?.nullable ?? false);
  }

  /**
   * Whether the field is always present: in requests because the rules say so, in responses because it is always
   * written.
   */
  private isRequired(field: DescField, direction: Direction): boolean {
    if (direction === 'in') return this.isRequiredInRequest(field);
    if (field.fieldKind === 'list' || field.fieldKind === 'map') return true;
    const form = this.descriptors.findJsonForm(field);
    if (form?.nullable || form?.always) return true;
    // Enums with the value 0 and absent messages are omitted.
    return field.fieldKind === 'scalar' && field.presence === FeatureSet_FieldPresence.IMPLICIT;
  }

  /** Builds the schema of a field: of one value, a list or a map. */
  private buildFieldSchema(field: DescField, direction: Direction, only: readonly string[] | undefined): Schema {
    const value = this.buildValueSchema(field, direction, only);
    if (field.fieldKind !== 'list' && field.fieldKind !== 'map') return value;
    const rules = this.descriptors.getRules(field);
    const max = rules?.maxItems || undefined;
    if (field.fieldKind === 'map') return compact({ type: 'object', additionalProperties: value, maxProperties: max });
    return compact({
      type: 'array',
      items: value,
      minItems: rules?.required ? 1 : undefined,
      maxItems: max,
      uniqueItems: rules?.unique || undefined,
    });
  }

  /** Builds the schema of one value: of the field itself, or of an item of its list or map. */
  private buildValueSchema(field: DescField, direction: Direction, only: readonly string[] | undefined): Schema {
    if (field.enum) return this.buildEnumSchema(field.enum);
    if (!field.message) {
      const rules = this.descriptors.getRules(field);
      const isImplicit = field.fieldKind === 'scalar' && field.presence === FeatureSet_FieldPresence.IMPLICIT;
      return buildScalarSchema(field.scalar, rules, isImplicit && rules?.required !== true);
    }
    return findWellKnownSchema(field.message.typeName) ?? this.getNestedSchema(field.message, direction, only);
  }

  /**
   * Returns the reference to the schema of a message in a field. A message that occurs in requests and responses has
   * two schemas, because their required fields differ. `only`: a list shows only these fields of its items, in a schema
   * with the suffix `InList`; undefined: all fields.
   */
  private getNestedSchema(desc: DescMessage, direction: Direction, only: readonly string[] | undefined): Schema {
    if (direction === 'out' && only)
      return this.addComponent(`${desc.name}InList`, `${desc.typeName} only ${only.join(', ')}`, () =>
        this.buildMessageSchema(desc, 'out', filterFields(desc, only), only),
      );
    const needsInputSchema = direction === 'in' && this.inBoth.has(desc.typeName);
    const name = needsInputSchema ? `${desc.name}Input` : getSchemaName(desc);
    const source = needsInputSchema ? `${desc.typeName} in` : desc.typeName;
    return this.addComponent(name, source, () => this.buildMessageSchema(desc, direction));
  }

  /** Returns the reference to the schema of an enum with the description of each value. */
  private buildEnumSchema(desc: DescEnum): Schema {
    const values = desc.values
      .filter(({ number }) => number !== 0)
      .map((value) => `- \`${getEnumWord(desc, value.number)}\`: ${this.comments.getText(value)}`);
    return this.addComponent(desc.name, desc.typeName, () => ({
      type: 'string',
      description: `${this.comments.getText(desc)}\n\n${values.join('\n')}`,
      enum: listEnumWords(desc),
    }));
  }

  /**
   * Adds a description to the schema of a field: the comment of the proto, and the rules that a schema cannot express.
   * The rules (`At most ...`) of a list apply to each of its items.
   */
  private addDescription(field: DescField, schema: Schema): Schema {
    const isJson = field.message !== undefined && field.fieldKind !== 'map';
    const description = [
      this.comments.getText(field),
      this.describeRemoval(field),
      describeRules(this.descriptors.getRules(field), isJson),
    ]
      .filter((text) => text !== '')
      .join(' ');
    return compact({
      ...schema,
      description: field.fieldKind === 'list' ? description.replace('At most', 'Each at most') : description,
    });
  }

  /**
   * Describes null and an empty list, if they do not mean the same as omitting the field: they then set a boolean
   * field, such as `clearImages`.
   */
  private describeRemoval(field: DescField): string {
    const { nullClears = '', emptyClears = '' } = this.descriptors.findJsonForm(field) ?? {};
    const flag = field.parent.fields.find(({ name }) => name === (nullClears || emptyClears));
    if (!flag) return '';
    const values = [nullClears && 'null', emptyClears && 'an empty list'].filter((value) => value !== '').join(' or ');
    const capitalized = `${values.charAt(0).toUpperCase()}${values.slice(1)}`;
    return `${capitalized} removes ${field.fieldKind === 'list' ? 'them all' : 'it'}, as ${flag.jsonName} does.`;
  }
}

/**
 * Returns the name of the schema of a message. Client generators use `<operation>Response` for the result of an
 * operation, so no schema has such a name.
 */
function getSchemaName({ name }: DescMessage): string {
  return name.replace(/Response$/, 'Result');
}

/** Returns the names of these message types and of all message types in their fields. */
function findReferencedTypes(roots: readonly DescMessage[]): Set<string> {
  const foundNames = new Set<string>();
  const pendingTypes = [...roots];
  for (let desc = pendingTypes.pop(); desc; desc = pendingTypes.pop()) {
    if (foundNames.has(desc.typeName)) continue;
    foundNames.add(desc.typeName);
    pendingTypes.push(...desc.fields.flatMap(({ message }) => (message ? [message] : [])));
  }
  return foundNames;
}

/** Returns the fields that a filter of paths names, such as `id` and `a` for `["id", "a.b"]`. */
function filterFields(desc: DescMessage, only: readonly string[]): DescField[] {
  return desc.fields.filter(({ name }) => only.some((path) => path === name || path.startsWith(`${name}.`)));
}

/** Returns the schema, extended so that null is valid too. */
function toNullable(schema: Schema): Schema {
  if ('$ref' in schema) return { oneOf: [schema, { type: 'null' }] };
  if (typeof schema['type'] !== 'string') return schema; // any value, null too
  const values = schema['enum'] as unknown[] | undefined;
  return { ...schema, type: [schema['type'], 'null'], ...(values && { enum: [...values, null] }) };
}

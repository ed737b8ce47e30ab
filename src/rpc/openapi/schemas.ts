import { FeatureSet_FieldPresence } from '@bufbuild/protobuf/wkt';
import type { DescEnum, DescField, DescMessage } from '@bufbuild/protobuf';
import type { Descriptors } from '../descriptors';
import { enumWord, enumWords } from '../json/enumWords';
import type { Comments } from './comments';
import { compact, ref, type JsonObject, type Schema } from './json';
import { rulesInWords, scalarSchema, wellKnownSchema } from './valueSchemas';

/** Whether JSON is read or written: what is required, and what else may stand there, differ. */
type Direction = 'in' | 'out';

/** The schemas of messages, each once, under names that do not clash. */
export class Schemas {
  /** The schemas that were asked for, by name. */
  readonly components = new Map<string, Schema>();
  /** What a component is made from, so that two of one name are found. */
  private readonly sources = new Map<string, string>();
  private readonly inBoth: ReadonlySet<string>;

  constructor(
    private readonly descriptors: Descriptors,
    private readonly comments: Comments,
  ) {
    const methods = [...descriptors.methods.values()];
    const read = reachable(methods.map(({ request }) => request));
    this.inBoth = new Set([...reachable(methods.map(({ response }) => response))].filter((name) => read.has(name)));
  }

  /** The reference to the schema of an answer. */
  answer(desc: DescMessage): Schema {
    if (desc.fields.length === 0) return this.empty();
    return this.component(desc.name, desc.typeName, () => this.message(desc, 'out'));
  }

  /** The reference to the schema of a body: the request without the fields that stand elsewhere; undefined when it has no field. */
  body(desc: DescMessage, elsewhere: ReadonlySet<string> = new Set(), name: string = desc.name): Schema | undefined {
    const fields = desc.fields.filter((field) => !elsewhere.has(field.name));
    if (fields.length === 0) return undefined;
    return this.component(name, `${desc.typeName} less ${[...elsewhere].join(', ')}`, () => this.message(desc, 'in', fields));
  }

  /** The schema of one field as it stands in a query: a list repeats its name. */
  parameter(field: DescField): Schema {
    return this.ofField(field, 'in', undefined);
  }

  /** The schema of an answer that somebody wrote by hand. */
  named(name: string, schema: Schema): Schema {
    return this.component(name, name, () => schema);
  }

  /** Whether a request has to give a field; a number that is 0 where nobody gives it has to be given where that is too little. */
  isNeeded(field: DescField): boolean {
    const rules = this.descriptors.rulesOf(field);
    const isAsked = rules?.required === true || this.descriptors.jsonFormOf(field)?.mustBeGiven === true;
    return isAsked || (field.fieldKind === 'scalar' && field.presence === FeatureSet_FieldPresence.IMPLICIT && (rules?.min ?? 0) > 0);
  }

  /** The reference to the schema of what has no field. */
  empty(): Schema {
    return this.component('Empty', 'Empty', () => ({ type: 'object', description: 'An empty object.' }));
  }

  private component(name: string, source: string, make: () => Schema): Schema {
    const known = this.sources.get(name);
    if (known !== undefined && known !== source) throw new Error(`two schemas of the OpenAPI document are called ${name}: ${known} and ${source}; rename one of the messages`);
    if (known === undefined) {
      this.sources.set(name, source);
      this.components.set(name, {}); // keeps its place, before its fields
      this.components.set(name, make());
    }
    return ref('schemas', name);
  }

  private message(desc: DescMessage, direction: Direction, fields: readonly DescField[] = desc.fields, only: readonly string[] = []): Schema {
    const properties: JsonObject = {};
    const required: string[] = [];
    for (const field of fields) {
      const schema = this.ofField(field, direction, this.only(field, direction, only));
      properties[field.jsonName] = this.described(field, this.mayBeNull(field, direction) ? nullable(schema) : schema);
      if (this.isRequired(field, direction)) required.push(field.jsonName);
    }
    return compact({
      type: 'object',
      description: this.comments.of(desc),
      properties,
      required: required.length > 0 ? required : undefined,
      additionalProperties: direction === 'in' ? false : undefined, // an answer may gain fields
    });
  }

  /** What the messages in a field carry, where that is less than all. */
  private only(field: DescField, direction: Direction, outer: readonly string[]): readonly string[] | undefined {
    const own = direction === 'out' ? (this.descriptors.jsonFormOf(field)?.only ?? []) : [];
    const left = own.length > 0 ? own : outer.filter((path) => path.startsWith(`${field.name}.`)).map((path) => path.slice(field.name.length + 1));
    return left.length > 0 ? left : undefined;
  }

  // In a request null is the same as leaving a field out.
  private mayBeNull(field: DescField, direction: Direction): boolean {
    return direction === 'in' ? !this.isNeeded(field) : (this.descriptors.jsonFormOf(field)?.orNull ?? false);
  }

  private isRequired(field: DescField, direction: Direction): boolean {
    if (direction === 'in') return this.isNeeded(field);
    if (field.fieldKind === 'list' || field.fieldKind === 'map') return true;
    const form = this.descriptors.jsonFormOf(field);
    if (form?.orNull || form?.always) return true;
    // An enum that says nothing is left out, and a message that is not set.
    return field.fieldKind === 'scalar' && field.presence === FeatureSet_FieldPresence.IMPLICIT;
  }

  private ofField(field: DescField, direction: Direction, only: readonly string[] | undefined): Schema {
    const value = this.value(field, direction, only);
    if (field.fieldKind !== 'list' && field.fieldKind !== 'map') return value;
    const rules = this.descriptors.rulesOf(field);
    const most = rules?.maxItems || undefined;
    if (field.fieldKind === 'map') return compact({ type: 'object', additionalProperties: value, maxProperties: most });
    return compact({ type: 'array', items: value, minItems: rules?.required ? 1 : undefined, maxItems: most, uniqueItems: rules?.unique || undefined });
  }

  /** Of the field itself, or of an item of its list or map. */
  private value(field: DescField, direction: Direction, only: readonly string[] | undefined): Schema {
    if (field.enum) return this.enum(field.enum);
    if (!field.message) return scalarSchema(field.scalar, this.descriptors.rulesOf(field));
    return wellKnownSchema(field.message.typeName) ?? this.nested(field.message, direction, only);
  }

  private nested(desc: DescMessage, direction: Direction, only: readonly string[] | undefined): Schema {
    if (direction === 'out' && only) return this.component(`${desc.name}InList`, `${desc.typeName} only ${only.join(', ')}`, () => this.message(desc, 'out', chosen(desc, only), only));
    const name = direction === 'in' && this.inBoth.has(desc.typeName) ? `${desc.name}Input` : desc.name;
    return this.component(name, `${desc.typeName} ${direction === 'out' || name === desc.name ? '' : 'in'}`.trim(), () => this.message(desc, direction));
  }

  private enum(desc: DescEnum): Schema {
    const values = desc.values.filter(({ number }) => number !== 0).map((value) => `- \`${enumWord(desc, value.number)}\`: ${this.comments.of(value)}`);
    return this.component(desc.name, desc.typeName, () => ({ type: 'string', description: `${this.comments.of(desc)}\n\n${values.join('\n')}`, enum: enumWords(desc) }));
  }

  private described(field: DescField, schema: Schema): Schema {
    const isJson = field.message !== undefined && field.fieldKind !== 'map';
    const description = [this.comments.of(field), this.removalInWords(field), rulesInWords(this.descriptors.rulesOf(field), isJson)].filter((text) => text !== '').join(' ');
    return compact({ ...schema, description: field.fieldKind === 'list' ? description.replace('At most', 'Each at most') : description });
  }

  /** What null and an empty list do where they are not the same as leaving the field out. */
  private removalInWords(field: DescField): string {
    const { nullSets = '', emptySets = '' } = this.descriptors.jsonFormOf(field) ?? {};
    const flag = field.parent.fields.find(({ name }) => name === (nullSets || emptySets));
    if (!flag) return '';
    const values = [...(nullSets === '' ? [] : ['null']), ...(emptySets === '' ? [] : ['an empty list'])].join(' or ');
    return `${values.charAt(0).toUpperCase()}${values.slice(1)} removes ${field.fieldKind === 'list' ? 'them all' : 'it'}, as ${flag.jsonName} does.`;
  }
}

/** The names of the messages that are sent with these, themselves left out where nothing holds them. */
function reachable(roots: readonly DescMessage[]): Set<string> {
  const seen = new Set<string>();
  const open = [...roots];
  for (let desc = open.pop(); desc; desc = open.pop()) {
    if (seen.has(desc.typeName)) continue;
    seen.add(desc.typeName);
    open.push(...desc.fields.flatMap(({ message }) => (message ? [message] : [])));
  }
  return seen;
}

function chosen(desc: DescMessage, only: readonly string[]): DescField[] {
  return desc.fields.filter(({ name }) => only.some((path) => path === name || path.startsWith(`${name}.`)));
}

function nullable(schema: Schema): Schema {
  if ('$ref' in schema) return { anyOf: [schema, { type: 'null' }] };
  if (typeof schema['type'] !== 'string') return schema; // any value, null too
  const values = schema['enum'] as unknown[] | undefined;
  return { ...schema, type: [schema['type'], 'null'], ...(values && { enum: [...values, null] }) };
}

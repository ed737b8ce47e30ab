import { ScalarType, type DescField, type DescMessage } from '@bufbuild/protobuf';
import { FeatureSet_FieldPresence } from '@bufbuild/protobuf/wkt';
import type { Violation } from '../../kernel/errors';
import type { Descriptors } from '../descriptors';
import { isObject, kindOf, pathTo, report } from './faults';
import { MessageReader, type FieldReader, type Read } from './messageReader';
import { scalarOf, type Scalar } from './scalars';
import { singleValue, type SingleValue } from './singleValues';

/** The readers of message types, each made once. */
export class MessageReaders {
  private readonly known = new Map<string, MessageReader>();

  constructor(private readonly descriptors: Descriptors) {}

  /** The reader of a type. Throws for a type of google.protobuf that it does not know, and where `null_sets` or `empty_sets` name no field. */
  of(desc: DescMessage): MessageReader {
    const known = this.known.get(desc.typeName);
    if (known) return known;
    const reader = new MessageReader(desc);
    this.known.set(desc.typeName, reader); // before its fields: a type may hold itself
    reader.fill(desc.fields.map((field) => this.field(field)));
    return reader;
  }

  private field(field: DescField): FieldReader {
    const single = singleValue(field, this.descriptors.rulesOf(field));
    const inner = field.message && !single ? this.of(field.message) : undefined;
    const isSingular = field.fieldKind !== 'list' && field.fieldKind !== 'map';
    return {
      name: field.name,
      jsonName: field.jsonName,
      key: field.localName,
      oneof: field.oneof,
      isList: field.fieldKind === 'list',
      fromJson: readOf(field, single, inner, this.mostItems(field)),
      single: field.fieldKind === 'map' || !single?.fromText ? undefined : single,
      inner: isSingular ? inner : undefined,
      takesNull: isSingular && single?.takesNull === true,
      ...this.formOf(field),
      zero: zeroOf(field),
    };
  }

  private mostItems(field: DescField): number {
    return this.descriptors.rulesOf(field)?.maxItems || Infinity;
  }

  private formOf(field: DescField): Pick<FieldReader, 'nullSets' | 'emptySets' | 'mustBeGiven'> {
    const { nullSets, emptySets, mustBeGiven } = this.descriptors.jsonFormOf(field) ?? { nullSets: '', emptySets: '', mustBeGiven: false };
    for (const name of [nullSets, emptySets]) {
      if (name !== '' && !field.parent.fields.some((other) => other.name === name && other.scalar === ScalarType.BOOL)) throw new Error(`${field.parent.typeName} has no boolean field ${name}, which ${field.name} sets`);
    }
    return { nullSets, emptySets, mustBeGiven };
  }
}

function readOf(field: DescField, single: SingleValue | undefined, inner: MessageReader | undefined, most: number): Read {
  const one: Read = single ? single.fromJson : (json, path, out) => (inner as MessageReader).read(json, path, out);
  if (field.fieldKind === 'list') return listOf(one, single ? single.standIn : () => (inner as MessageReader).assembled(new Map()), most);
  return field.fieldKind === 'map' ? mapOf(one, scalarOf(field.mapKey), most) : one;
}

// Where an item is wrong another stands for it, so that the places of the rest stay right in what else is said.
function listOf(one: Read, standIn: () => unknown, most: number): Read {
  return (json, path, out) => {
    if (!Array.isArray(json)) {
      report(out, path, () => `must be a list, not ${kindOf(json)}`);
      return undefined;
    }
    if (tooMany(json.length, most, path, out)) return undefined;
    return json.map((item: unknown, at) => {
      const value = one(item, `${path}[${at}]`, out);
      return value === undefined ? standIn() : value;
    });
  };
}

function mapOf(one: Read, key: Scalar, most: number): Read {
  return (json, path, out) => {
    if (!isObject(json)) {
      report(out, path, () => `must be a JSON object, not ${kindOf(json)}`);
      return undefined;
    }
    const names = Object.keys(json);
    if (tooMany(names.length, most, path, out)) return undefined;
    const entries = names.map((name) => {
      const at = pathTo(path, name);
      if (key.fromText(name) === undefined) report(out, at, () => `has a name that must be ${key.form}`);
      return [name, one(json[name], at, out)] as const;
    });
    return Object.fromEntries(entries.filter(([, value]) => value !== undefined));
  };
}

// The field rules say the same, but only after each of a million items was made into a message.
function tooMany(count: number, most: number, path: string, out: Violation[]): boolean {
  if (count > most) report(out, path, `holds ${count} items; at most ${most} are allowed`);
  return count > most;
}

function zeroOf(field: DescField): () => unknown {
  if (field.fieldKind === 'list') return () => [];
  if (field.fieldKind === 'map') return () => ({});
  if (field.fieldKind === 'message' || field.presence !== FeatureSet_FieldPresence.IMPLICIT) return () => undefined;
  return field.enum ? () => 0 : scalarOf(field.scalar).zero;
}

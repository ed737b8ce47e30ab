import { ScalarType, type DescEnum, type DescField, type DescMessage } from '@bufbuild/protobuf';
import type { Descriptors } from '../descriptors';
import { enumWord } from './enumWords';
import { durationText, timestampText } from './times';

/** The JSON of a value as ts-proto holds it, ready for JSON.stringify, which leaves out what is undefined. */
export type Shape = (value: never) => unknown;

type Fields = Record<string, unknown>;
/** Puts one field of a message, or the chosen one of a oneof, into its JSON. */
type Put = (message: Readonly<Fields>, json: Fields) => void;

/** Which fields are written, each with those inside of it; undefined: all. */
type Only = ReadonlyMap<string, Only | undefined> | undefined;

/** The shapes of message types, each made once. */
export class AnswerShapes {
  private readonly known = new Map<string, Shape>();

  constructor(private readonly descriptors: Descriptors) {}

  /** The shape of a type. Throws where `only` of a field names one that is not there. */
  of(desc: DescMessage): Shape {
    const known = this.known.get(desc.typeName) ?? wellKnown(desc);
    if (known) return known;
    const puts: Put[] = [];
    const shape = shapeOf(desc.fields, puts);
    this.known.set(desc.typeName, shape); // before its fields: a type may hold itself
    this.addTo(puts, desc, undefined);
    return shape;
  }

  private limited(desc: DescMessage, only: Only): Shape {
    if (!only) return this.of(desc);
    const kept = desc.fields.filter(({ name }) => only.has(name));
    const missing = [...only.keys()].filter((name) => !kept.some((field) => field.name === name));
    if (missing.length > 0) throw new Error(`${desc.typeName} has no field ${missing.join(', ')}, which an answer is limited to`);
    const puts: Put[] = [];
    this.addTo(puts, desc, only);
    return shapeOf(kept, puts);
  }

  private addTo(puts: Put[], desc: DescMessage, only: Only): void {
    const isKept = ({ name }: DescField): boolean => !only || only.has(name);
    const copied: DescField[] = [];
    for (const member of desc.members) {
      if (member.kind === 'oneof') puts.push(this.oneof(member.localName, member.fields.filter(isKept), only));
      else if (isKept(member) && this.isCopied(member)) copied.push(member);
      else if (isKept(member)) puts.push(this.field(member, only));
    }
    if (copied.length > 0) puts.push(copy(copied));
  }

  private isCopied(field: DescField): boolean {
    return field.fieldKind !== 'map' && !this.value(field, undefined) && !this.descriptors.jsonFormOf(field)?.orNull;
  }

  // ts-proto writes a oneof as `{ $case, value }`.
  private oneof(key: string, fields: readonly DescField[], only: Only): Put {
    const cases = new Map(fields.map((field) => [field.localName, { name: field.jsonName, shape: this.value(field, only) ?? itself }]));
    return (message, json) => {
      const chosen = message[key] as { readonly $case: string; readonly value: never } | undefined;
      const found = chosen && cases.get(chosen.$case);
      if (found) json[found.name] = found.shape(chosen.value);
    };
  }

  private field(field: DescField, only: Only): Put {
    const { jsonName: name, localName: key } = field;
    const shape = this.value(field, only) ?? itself;
    if (field.fieldKind === 'list') return putList(name, key, shape);
    if (field.fieldKind === 'map') return putMap(name, key, shape);
    const absent = this.descriptors.jsonFormOf(field)?.orNull ? null : undefined;
    return field.fieldKind === 'enum' ? putEnum(name, key, shape, absent) : putShaped(name, key, shape, absent);
  }

  /** The shape of one value of a field; undefined where it is as it is. */
  private value(field: DescField, only: Only): Shape | undefined {
    if (field.enum) return words(field.enum);
    if (!field.message) return field.scalar === undefined ? undefined : scalarShape(field.scalar);
    const form = this.descriptors.jsonFormOf(field);
    if (isFree(field.message)) return undefined;
    return this.limited(field.message, form && form.only.length > 0 ? onlyOf(form.only) : only?.get(field.name));
  }
}

// The names are there from the beginning, in the order of the proto: so objects of one type have one form inside of V8.
function shapeOf(fields: readonly DescField[], puts: readonly Put[]): Shape {
  const empty: Fields = Object.fromEntries(fields.map(({ jsonName }) => [jsonName, undefined]));
  return (message: Readonly<Fields>) => {
    const json = { ...empty };
    for (const put of puts) put(message, json);
    return json;
  };
}

function copy(fields: readonly DescField[]): Put {
  const names = fields.map(({ jsonName, localName }) => [jsonName, localName] as const);
  return (message, json) => {
    for (const [name, key] of names) json[name] = message[key];
  };
}

function putShaped(name: string, key: string, shape: Shape, absent: null | undefined): Put {
  return (message, json) => {
    const value = message[key];
    json[name] = value === undefined ? absent : shape(value as never);
  };
}

function putEnum(name: string, key: string, shape: Shape, absent: null | undefined): Put {
  return (message, json) => {
    const value = message[key]; // 0 is no word, it means not given
    json[name] = value === undefined || value === 0 ? absent : shape(value as never);
  };
}

function putList(name: string, key: string, shape: Shape): Put {
  return (message, json) => {
    json[name] = (message[key] as readonly never[]).map((item) => shape(item));
  };
}

function putMap(name: string, key: string, shape: Shape): Put {
  return (message, json) => {
    json[name] = Object.fromEntries(Object.entries(message[key] as Fields).map(([entry, value]) => [entry, shape(value as never)]));
  };
}

function itself(value: unknown): unknown {
  return value;
}

function words(desc: DescEnum): Shape {
  const known = new Map(desc.values.map(({ number }) => [number, enumWord(desc, number)]));
  return (value: number) => known.get(value) ?? value;
}

function scalarShape(type: ScalarType): Shape | undefined {
  if (type === ScalarType.BYTES) return (value: Uint8Array) => Buffer.from(value.buffer, value.byteOffset, value.byteLength).toString('base64');
  const isReal = type === ScalarType.DOUBLE || type === ScalarType.FLOAT;
  return isReal ? (value: number) => (Number.isFinite(value) ? value : String(value)) : undefined;
}

const FREE_JSON = new Set(['google.protobuf.Struct', 'google.protobuf.ListValue', 'google.protobuf.Value']);

function wellKnown({ typeName }: DescMessage): Shape | undefined {
  if (typeName === 'google.protobuf.Timestamp') return timestampText;
  if (typeName === 'google.protobuf.Duration') return durationText;
  return undefined;
}

function isFree({ typeName }: DescMessage): boolean {
  return FREE_JSON.has(typeName);
}

/** `["id", "a.b"]` as a tree. */
function onlyOf(paths: readonly string[]): Only {
  const names = new Set(paths.map((path) => path.split('.', 1)[0] as string));
  return new Map(
    [...names].map((name) => {
      const inner = paths.filter((path) => path.startsWith(`${name}.`)).map((path) => path.slice(name.length + 1));
      return [name, inner.length > 0 ? onlyOf(inner) : undefined];
    }),
  );
}

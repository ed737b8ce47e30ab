import { ScalarType, type DescField, type DescMessage } from '@bufbuild/protobuf';
import type { Descriptors } from '../descriptors';
import { enumWord } from './enumWords';
import { durationText, timestampText, type SecondsAndNanos } from './times';

/** Writes messages of one type as the JSON of contract.md, section 1. */
export interface AnswerWriter {
  /** The JSON text of a message as ts-proto holds it. */
  text(message: unknown): string;
  /** The same as a value. */
  json(message: unknown): unknown;
}

type Fields = Readonly<Record<string, unknown>>;
/** The JSON text of a value that is there. */
type Write = (value: never) => string;
/** The JSON text of a member with its name; empty where it is left out. */
type WriteMember = (message: Fields) => string;

/** Which fields are written: those that are named, each with those inside of it that are (all, where none is). Undefined: all. */
interface Only extends ReadonlyMap<string, Only | undefined> {}

/** The writers of message types, each made once. */
export class AnswerWriters {
  private readonly known = new Map<string, AnswerWriter>();

  constructor(private readonly descriptors: Descriptors) {}

  /** The writer of a type. Throws where `only` names a field that is not there. */
  of(desc: DescMessage): AnswerWriter {
    const known = this.known.get(desc.typeName);
    if (known) return known;
    const write = this.message(desc, undefined, new Map()) as (message: unknown) => string;
    const writer: AnswerWriter = { text: write, json: (message) => JSON.parse(write(message)) as unknown };
    this.known.set(desc.typeName, writer);
    return writer;
  }

  // `outer` are the types that are being made, since a type may hold itself.
  private message(desc: DescMessage, only: Only | undefined, outer: ReadonlyMap<DescMessage, Write>): Write {
    const known = wellKnown(desc) ?? (only ? undefined : outer.get(desc));
    if (known) return known;
    const members: WriteMember[] = [];
    const write = (message: Fields): string => {
      let text = '';
      for (const member of members) text += member(message);
      return text === '' ? '{}' : `{${text.slice(1)}}`;
    };
    const inside = new Map(outer).set(desc, write);
    if (only) requireAll(only, desc);
    for (const member of desc.members) {
      if (member.kind === 'oneof') members.push(this.oneof(member.localName, member.fields, only, inside));
      else if (!only || only.has(member.name)) members.push(this.field(member, only?.get(member.name), inside));
    }
    return write;
  }

  private oneof(key: string, fields: readonly DescField[], only: Only | undefined, outer: ReadonlyMap<DescMessage, Write>): WriteMember {
    const cases = new Map(fields.filter((field) => !only || only.has(field.name)).map((field) => [field.localName, [start(field), this.value(field, only?.get(field.name), outer)] as const]));
    return (message) => {
      const chosen = message[key] as { $case: string; value: never } | undefined;
      const found = chosen && cases.get(chosen.$case);
      return found ? found[0] + found[1](chosen.value) : '';
    };
  }

  private field(field: DescField, only: Only | undefined, outer: ReadonlyMap<DescMessage, Write>): WriteMember {
    const { localName: key } = field;
    const form = this.descriptors.jsonFormOf(field);
    const name = start(field);
    const value = this.value(field, form && form.only.length > 0 ? onlyOf(form.only) : only, outer);
    if (field.fieldKind === 'list') return (message) => name + list(message[key] as readonly never[], value);
    if (field.fieldKind === 'map') return (message) => name + map(message[key] as Readonly<Record<string, never>>, value);
    const absent = form?.orNull ? `${name}null` : '';
    if (field.fieldKind === 'enum') return (message) => (message[key] ? name + value(message[key] as never) : absent);
    return (message) => (message[key] === undefined ? absent : name + value(message[key] as never));
  }

  private value(field: DescField, only: Only | undefined, outer: ReadonlyMap<DescMessage, Write>): Write {
    if (field.message) return this.message(field.message, only, outer);
    const { enum: words } = field;
    if (words) return texts(words.values.map(({ number }) => [number, JSON.stringify(enumWord(words, number))]));
    return scalar(field.scalar);
  }
}

function start(field: DescField): string {
  return `,${JSON.stringify(field.jsonName)}:`;
}

function texts(entries: readonly (readonly [number, string])[]): Write {
  const known = new Map(entries);
  return (value: number) => known.get(value) ?? String(value);
}

function list(items: readonly never[], write: Write): string {
  let text = '';
  for (const item of items) text += `,${write(item)}`;
  return `[${text.slice(1)}]`;
}

function map(entries: Readonly<Record<string, never>>, write: Write): string {
  let text = '';
  for (const key of Object.keys(entries)) text += `,${string(key)}:${write(entries[key] as never)}`;
  return `{${text.slice(1)}}`;
}

// A regular expression may not hold control characters; this one says the same from the other side.
const NEEDS_NO_ESCAPE = /^[ !#-[\]-\ud7ff\ue000-\uffff]*$/;

function string(value: string): string {
  return NEEDS_NO_ESCAPE.test(value) ? `"${value}"` : JSON.stringify(value);
}

function number(value: number): string {
  return Number.isFinite(value) ? String(value) : `"${value}"`;
}

function scalar(type: ScalarType): Write {
  if (type === ScalarType.STRING) return string;
  if (type === ScalarType.BOOL) return String;
  if (type === ScalarType.BYTES) return (value: Uint8Array) => `"${Buffer.from(value.buffer, value.byteOffset, value.byteLength).toString('base64')}"`;
  return number;
}

function wellKnown({ typeName }: DescMessage): Write | undefined {
  switch (typeName) {
    case 'google.protobuf.Timestamp':
      return (value: SecondsAndNanos) => `"${timestampText(value)}"`;
    case 'google.protobuf.Duration':
      return (value: SecondsAndNanos) => `"${durationText(value)}"`;
    case 'google.protobuf.Struct':
    case 'google.protobuf.ListValue':
    case 'google.protobuf.Value':
      return JSON.stringify;
    default:
      return undefined;
  }
}

function requireAll(only: Only, desc: DescMessage): void {
  for (const name of only.keys()) if (!desc.fields.some((field) => field.name === name)) throw new Error(`${desc.typeName} has no field ${name}, which an answer is limited to`);
}

/** `["id", "a.b"]` as a tree. */
function onlyOf(paths: readonly string[]): Only {
  const tree = new Map<string, Map<string, undefined> | undefined>();
  for (const path of paths) {
    const [first, rest] = path.split('.', 2) as [string, string?];
    const inner = tree.get(first) ?? (rest === undefined ? undefined : new Map<string, undefined>());
    if (rest !== undefined) inner?.set(rest, undefined);
    tree.set(first, inner);
  }
  return tree;
}

import type { DescMessage, DescOneof } from '@bufbuild/protobuf';
import type { Violation } from '../../kernel/errors';
import { nearest } from '../../kernel/nearest';
import { isObject, kindOf, pathTo, report } from './faults';
import type { SingleValue } from './singleValues';

/** The fields of a message that were given, with their values as ts-proto holds them. */
export type Given = Map<FieldReader, unknown>;

/** A message as ts-proto holds it. */
export type Message = Record<string, unknown>;

/** Reads a JSON value; undefined when it is wrong, which it says. */
export type Read = (json: unknown, path: string, out: Violation[]) => unknown;

/** One field of a message, and how it is read. */
export interface FieldReader {
  /** Its name in the proto. */
  readonly name: string;
  readonly jsonName: string;
  /** Its key in the message; of a field of a oneof the name of its case. */
  readonly key: string;
  /** The oneof that it is a case of. */
  readonly oneof: DescOneof | undefined;
  readonly isList: boolean;
  readonly fromJson: Read;
  /** One value, or one item of the list, as a text can give it; undefined where none can: a message, a map, free JSON. */
  readonly single: SingleValue | undefined;
  /** Of a message with fields of its own that stands alone. */
  readonly inner: MessageReader | undefined;
  /** Whether null is a value of it. */
  readonly takesNull: boolean;
  /** The boolean field that null sets. */
  readonly nullSets: string;
  /** The boolean field that an empty list sets. */
  readonly emptySets: string;
  /** Whether it must stand there, be it empty. */
  readonly mustBeGiven: boolean;
  /** Its value in a message where it is not given. */
  readonly zero: () => unknown;
}

// A longer name is no mistyped one, and comparing it costs its length.
const LONGEST_TYPO = 64;

/** Reads messages of one type. */
export class MessageReader {
  private members: readonly (FieldReader | DescOneof)[] = [];
  private readonly byJsonName = new Map<string, FieldReader>();
  private readonly byName = new Map<string, FieldReader>();
  private needed: readonly FieldReader[] = [];

  constructor(readonly desc: DescMessage) {}

  /** Takes the fields in; apart from the constructor, since a type may hold itself. */
  fill(fields: readonly FieldReader[]): void {
    for (const field of fields) {
      this.byJsonName.set(field.jsonName, field);
      this.byName.set(field.name, field);
    }
    this.needed = fields.filter(({ mustBeGiven }) => mustBeGiven);
    this.members = this.desc.members.map((member) => (member.kind === 'oneof' ? member : (this.byJsonName.get(member.jsonName) as FieldReader)));
  }

  /** The field of a JSON name. */
  find(jsonName: string): FieldReader | undefined {
    return this.byJsonName.get(jsonName);
  }

  /** The field of a name of the proto, as routes hold it. */
  findByProtoName(name: string): FieldReader | undefined {
    return this.byName.get(name);
  }

  /** The message of a JSON object. */
  read(json: unknown, path: string, out: Violation[]): Message | undefined {
    const given = this.given(json, path, out);
    if (given) this.checkNeeded(given, path, out);
    return given && this.assembled(given);
  }

  /** What a JSON object gives; undefined when it is none. */
  given(json: unknown, path: string, out: Violation[]): Given | undefined {
    if (!isObject(json)) {
      report(out, path, () => `must be a JSON object, not ${kindOf(json)}`);
      return undefined;
    }
    const given: Given = new Map();
    const flags: Flag[] = [];
    for (const name of Object.keys(json)) {
      const field = this.byJsonName.get(name);
      if (!field) this.unknown(name, path, out);
      else if (!isFlag(field, json[name], flags)) this.take(field, json[name], given, path, out);
    }
    for (const flag of flags) this.setFlag(flag, given, path, out);
    this.checkOneofs(given, path, out);
    return given;
  }

  /** Says that there is no such field. */
  unknown(name: string, path: string, out: Violation[]): void {
    report(out, pathTo(path, name), () => {
      const names = [...this.byJsonName.keys()];
      const near = name.length > LONGEST_TYPO ? undefined : nearest(name, names);
      return `there is no such field; ${near === undefined ? `there are ${names.join(', ') || 'none'}` : `did you mean ${near}?`}`;
    });
  }

  /** Says where more than one case of a oneof is given. */
  checkOneofs(given: Given, path: string, out: Violation[]): void {
    if (this.desc.oneofs.length === 0) return;
    const first = new Map<DescOneof, FieldReader>();
    for (const field of given.keys()) {
      if (!field.oneof) continue;
      const other = first.get(field.oneof);
      if (other) report(out, pathTo(path, field.jsonName), `stands beside ${other.jsonName}; give only one of them`);
      else first.set(field.oneof, field);
    }
  }

  /** Says which fields must be given and are not; nothing where something else is wrong with them. */
  checkNeeded(given: Given, path: string, out: Violation[]): void {
    for (const field of this.needed) {
      const at = pathTo(path, field.jsonName);
      const isTold = out.some((one) => one.field === '' || one.field === at || one.field.startsWith(`${at}[`));
      if (!given.has(field) && !isTold) report(out, at, `is required; give ${field.isList ? 'a list, an empty one to remove all' : 'a value'}`);
    }
  }

  /** The message with what is given, and for the rest what ts-proto has where nothing came. */
  assembled(given: Given): Message {
    const message: Message = {};
    for (const member of this.members) {
      if ('key' in member) message[member.key] = given.has(member) ? given.get(member) : member.zero();
      else message[member.localName] = undefined;
    }
    if (this.desc.oneofs.length > 0) for (const [field, value] of given) if (field.oneof) message[field.oneof.localName] = { $case: field.key, value };
    return message;
  }

  private take(field: FieldReader, json: unknown, given: Given, path: string, out: Violation[]): void {
    const value = field.fromJson(json, pathTo(path, field.jsonName), out);
    if (value !== undefined) given.set(field, value);
  }

  private setFlag({ name, by }: Flag, given: Given, path: string, out: Violation[]): void {
    const flag = this.byName.get(name) as FieldReader;
    if (given.get(flag) === false) report(out, pathTo(path, flag.jsonName), `is false, but ${by} as it is given means true; give one of them`);
    given.set(flag, true);
  }
}

/** A boolean field, by its name in the proto, that the value of another one sets. */
interface Flag {
  readonly name: string;
  readonly by: string;
}

/** Whether a value is none of the field, but stands for absent or sets another field. */
function isFlag(field: FieldReader, json: unknown, flags: Flag[]): boolean {
  const isNull = json === null && !field.takesNull;
  const isEmpty = field.emptySets !== '' && Array.isArray(json) && json.length === 0;
  if (!isNull && !isEmpty) return false;
  const name = isNull ? field.nullSets : field.emptySets;
  if (name !== '') flags.push({ name, by: field.jsonName });
  return true;
}

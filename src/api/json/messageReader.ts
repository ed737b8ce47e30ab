import type { DescMessage, DescOneof } from '@bufbuild/protobuf';
import type { Violation } from '../../kernel/errors';
import { findNearest } from '../../kernel/findNearest';
import { isObject } from '../../kernel/jsonValue';
import type { SingleValue } from './singleValues';
import { addViolation, describeValue, joinPath } from './violations';

/** The fields of a message that are set, with their values as ts-proto represents them. */
export type ParsedFields = Map<FieldReader, unknown>;

/** A message as ts-proto represents it. */
export type Message = Record<string, unknown>;

/** Reads a JSON value. If it is invalid, appends a violation and returns undefined. */
export type Read = (json: unknown, path: string, out: Violation[]) => unknown;

/** Reads one field of a message. */
export interface FieldReader {
  /** The name in the proto. */
  readonly name: string;
  readonly jsonName: string;
  /** The key in the message; for a field of a oneof, the name of its case. */
  readonly key: string;
  /** The oneof that contains the field. */
  readonly oneof: DescOneof | undefined;
  readonly isList: boolean;
  readonly fromJson: Read;
  /**
   * Reads one value, or one item of the list, from a string of a query or path; undefined if that is not possible: for
   * messages, maps and free JSON.
   */
  readonly singleValue: SingleValue | undefined;
  /** The reader of the message, if the field is a single message with fields. */
  readonly messageReader: MessageReader | undefined;
  /** Whether null is a value of the field. */
  readonly acceptsNull: boolean;
  /** The proto name of the boolean field that null sets to true; empty if none. */
  readonly nullClears: string;
  /**
   * The proto name of the boolean field that an empty list sets to true, for example `clear_images`; empty if none.
   * Over gRPC an empty list cannot be distinguished from an unset one, so the proto has such a field.
   */
  readonly emptyClears: string;
  /** Whether the field must be present in JSON, even if it is empty. */
  readonly requiredInJson: boolean;
  /** Creates the value that a message has if the field is not set. */
  readonly createDefault: () => unknown;
}

// A longer name is unlikely to be a misspelled one, and the cost of the comparison grows with its length.
const MAX_SUGGESTION_LENGTH = 64;

/** Reads messages of one type. */
export class MessageReader {
  /** The fields and oneofs in the order of the proto; ts-proto creates messages in this order. */
  private orderedMembers: readonly (FieldReader | DescOneof)[] = [];
  private readonly fieldByJsonName = new Map<string, FieldReader>();
  private readonly fieldByProtoName = new Map<string, FieldReader>();
  private requiredFields: readonly FieldReader[] = [];

  constructor(readonly desc: DescMessage) {}

  /**
   * Sets the fields. They are not passed to the constructor, because a message type may contain itself: its reader must
   * exist before the readers of its fields.
   */
  setFields(fields: readonly FieldReader[]): void {
    for (const field of fields) {
      this.fieldByJsonName.set(field.jsonName, field);
      this.fieldByProtoName.set(field.name, field);
    }
    this.requiredFields = fields.filter(({ requiredInJson }) => requiredInJson);
    this.orderedMembers = this.desc.members.map((member) =>
      member.kind === 'oneof' ? member : (this.fieldByJsonName.get(member.jsonName) as FieldReader),
    );
  }

  /** Finds a field by its JSON name. */
  findByJsonName(jsonName: string): FieldReader | undefined {
    return this.fieldByJsonName.get(jsonName);
  }

  /** Finds a field by its name in the proto, which routes use. */
  findByProtoName(name: string): FieldReader | undefined {
    return this.fieldByProtoName.get(name);
  }

  /** Reads a message from a JSON object; undefined if the value is not an object. */
  read(json: unknown, path: string, out: Violation[]): Message | undefined {
    const fields = this.readFields(json, path, out);
    if (fields) this.checkRequired(fields, path, out);
    return fields && this.createMessage(fields);
  }

  /**
   * Reads the fields of a JSON object; undefined if the value is not an object. Appends the violations to `out`. Null
   * and an empty list can set another field, a boolean such as `clearImages`; these fields are the flags.
   */
  readFields(json: unknown, path: string, out: Violation[]): ParsedFields | undefined {
    if (!isObject(json)) {
      addViolation(out, path, () => `must be a JSON object, not ${describeValue(json)}`);
      return undefined;
    }
    const fields: ParsedFields = new Map();
    const flags: Flag[] = [];
    for (const name of Object.keys(json)) {
      const field = this.fieldByJsonName.get(name);
      if (!field) this.addUnknownField(name, path, out);
      else if (meansUnset(field, json[name])) flags.push(...listFlags(field, json[name]));
      else this.readField(field, json[name], fields, path, out);
    }
    // After all fields, because the client may also set the boolean field itself, before or after the other field.
    for (const flag of flags) this.setFlag(flag, fields, path, out);
    this.checkOneofs(fields, path, out);
    return fields;
  }

  /** Appends the violation for a field that does not exist. */
  addUnknownField(name: string, path: string, out: Violation[]): void {
    addViolation(out, joinPath(path, name), () => {
      const names = [...this.fieldByJsonName.keys()];
      const nearest = name.length > MAX_SUGGESTION_LENGTH ? undefined : findNearest(name, names);
      if (nearest !== undefined) return `unknown field; did you mean ${nearest}?`;
      return names.length === 0
        ? 'unknown field; no fields are allowed here'
        : `unknown field; known fields are ${names.join(', ')}`;
    });
  }

  /** Appends a violation for each field of a oneof that is set after the first one: only one of them may be set. */
  checkOneofs(fields: ParsedFields, path: string, out: Violation[]): void {
    if (this.desc.oneofs.length === 0) return;
    const firstCaseByOneof = new Map<DescOneof, FieldReader>();
    for (const field of fields.keys()) {
      if (!field.oneof) continue;
      const firstCase = firstCaseByOneof.get(field.oneof);
      if (firstCase)
        addViolation(
          out,
          joinPath(path, field.jsonName),
          `cannot be combined with ${firstCase.jsonName}: set only one of them`,
        );
      else firstCaseByOneof.set(field.oneof, field);
    }
  }

  /** Appends a violation for each required field that is not set, unless another violation of it is known. */
  checkRequired(fields: ParsedFields, path: string, out: Violation[]): void {
    for (const field of this.requiredFields) {
      const fieldPath = joinPath(path, field.jsonName);
      // An invalid value, or an invalid item of a list, was sent although it is not in `fields`.
      const isReported = out.some(
        (violation) =>
          violation.field === '' || violation.field === fieldPath || violation.field.startsWith(`${fieldPath}[`),
      );
      if (!fields.has(field) && !this.wasSentAsEmptyList(field, fields) && !isReported)
        addViolation(
          out,
          fieldPath,
          field.isList ? 'is required: set a list (an empty list removes all items)' : 'is required: set a value',
        );
    }
  }

  /**
   * Whether the list was sent as `[]`, which is not stored as a value of the list but sets its `emptyClears` field. For
   * example, `"images": []` is read as `clearImages: true`; `images` then counts as sent, although it has no value.
   */
  private wasSentAsEmptyList({ emptyClears }: FieldReader, fields: ParsedFields): boolean {
    const clearsField = this.fieldByProtoName.get(emptyClears);
    return clearsField !== undefined && fields.get(clearsField) === true;
  }

  /**
   * Creates the message; fields that are not set get the value that ts-proto uses for absent fields. A oneof is one
   * property, `{ $case, value }` of its set field.
   */
  createMessage(fields: ParsedFields): Message {
    const message: Message = {};
    for (const member of this.orderedMembers) {
      if ('key' in member) message[member.key] = fields.has(member) ? fields.get(member) : member.createDefault();
      else message[member.localName] = undefined;
    }
    if (this.desc.oneofs.length === 0) return message;
    for (const [field, value] of fields) if (field.oneof) message[field.oneof.localName] = { $case: field.key, value };
    return message;
  }

  /**
   * Reads the JSON value of a field and sets it in `fields`. An invalid value stays unset; `fromJson` has then appended
   * its violation to `out`.
   */
  private readField(field: FieldReader, json: unknown, fields: ParsedFields, path: string, out: Violation[]): void {
    const value = field.fromJson(json, joinPath(path, field.jsonName), out);
    if (value !== undefined) fields.set(field, value);
  }

  /**
   * Sets a boolean field to true because another field is null or empty. Appends a violation if the client sent false
   * for the boolean field.
   */
  private setFlag({ protoName: name, setBy }: Flag, fields: ParsedFields, path: string, out: Violation[]): void {
    const flag = this.fieldByProtoName.get(name) as FieldReader;
    if (fields.get(flag) === false)
      addViolation(
        out,
        joinPath(path, flag.jsonName),
        `is false, but ${setBy} is null or empty, which means true: set only one of them`,
      );
    fields.set(flag, true);
  }
}

/** A boolean field that null or an empty list as the value of another field sets to true. */
interface Flag {
  /** The name of the boolean field in the proto. */
  readonly protoName: string;
  /** The JSON name of the other field. */
  readonly setBy: string;
}

/** Whether the JSON value of a field is null or an empty list that means "unset" and is not a value of the field. */
function meansUnset({ acceptsNull, emptyClears }: FieldReader, json: unknown): boolean {
  return json === null ? !acceptsNull : emptyClears !== '' && Array.isArray(json) && json.length === 0;
}

/** Lists the boolean field that an unset value sets to true, for example `clearImages`; empty if there is none. */
function listFlags({ jsonName, nullClears, emptyClears }: FieldReader, json: unknown): Flag[] {
  const protoName = json === null ? nullClears : emptyClears;
  return protoName === '' ? [] : [{ protoName, setBy: jsonName }];
}

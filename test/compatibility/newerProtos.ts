import {
  create,
  createFileRegistry,
  fromBinary,
  isMessage,
  toBinary,
  type DescField,
  type DescMessage,
  type FileRegistry,
  type Message,
} from '@bufbuild/protobuf';
import {
  type DescriptorProto,
  EnumValueDescriptorProtoSchema,
  FieldDescriptorProto_Label as Label,
  FieldDescriptorProto_Type as Type,
  FieldDescriptorProtoSchema,
  FileDescriptorSetSchema,
  MethodDescriptorProtoSchema,
} from '@bufbuild/protobuf/wkt';

/** A value of every enum that the current server and client do not know. */
export const NEW_VALUE = 999;

/** The fields that are added to each message: of each wire type, single, repeated and packed. */
const ADDED = [
  { name: 'addedText', number: 50_001, type: Type.STRING, label: Label.OPTIONAL, value: 'of a later day' },
  { name: 'addedNumber', number: 50_002, type: Type.INT64, label: Label.OPTIONAL, value: 2n ** 60n },
  { name: 'addedDouble', number: 50_003, type: Type.DOUBLE, label: Label.OPTIONAL, value: 0.5 },
  { name: 'addedFixed', number: 50_004, type: Type.FIXED32, label: Label.OPTIONAL, value: 7 },
  { name: 'addedBytes', number: 50_005, type: Type.BYTES, label: Label.OPTIONAL, value: new Uint8Array([0, 255, 10]) },
  { name: 'addedFlags', number: 50_006, type: Type.BOOL, label: Label.REPEATED, value: [true, false] },
  { name: 'addedTexts', number: 50_007, type: Type.STRING, label: Label.REPEATED, value: ['one', 'two'] },
] as const;
/** The field number of the case that is added to each oneof. */
const ADDED_CASE = 50_100;
const MAX_DEPTH = 4;

/** Protos of a later version: every message has more fields, and every oneof, enum and service has one more member. */
export class NewerProtos {
  readonly registry: FileRegistry;

  constructor(image: Uint8Array) {
    const set = fromBinary(FileDescriptorSetSchema, image);
    for (const file of set.file.filter(({ name }) => !/^(google|grpc|chirpstack|plantroom)\//.test(name))) {
      for (const message of file.messageType) extend(message);
      for (const { value } of file.enumType)
        value.push(create(EnumValueDescriptorProtoSchema, { name: `${value[0]?.name}_ADDED`, number: NEW_VALUE }));
      for (const { method } of file.service)
        method.push(
          create(MethodDescriptorProtoSchema, {
            name: 'Added',
            inputType: method[0]?.inputType ?? '',
            outputType: method[0]?.outputType ?? '',
          }),
        );
    }
    this.registry = createFileRegistry(set);
  }

  message(name: string): DescMessage {
    const found = this.registry.getMessage(name);
    if (!found) throw new Error(`no message ${name}`);
    return found;
  }

  /** Encodes a message with these fields and with all new ones, also in the messages that it contains. */
  bytes(name: string, fields: object): Uint8Array {
    const message = create(this.message(name), fields as never);
    this.fill(message);
    return toBinary(this.message(name), message);
  }

  /**
   * Encodes a message in which every field is set, including new ones, and every enum has the new value. Each oneof has
   * its first case, or the new one.
   */
  full(name: string, cases: 'first' | 'new'): Uint8Array {
    return toBinary(this.message(name), this.sample(this.message(name), cases, 0));
  }

  private fill(value: unknown): void {
    if (Array.isArray(value)) for (const item of value) this.fill(item);
    else if (typeof value === 'object' && value !== null && !(value instanceof Uint8Array))
      for (const item of Object.values(value)) this.fill(item);
    if (isMessage(value) && isExtended(this.message(value.$typeName))) Object.assign(value, added());
  }

  private sample(type: DescMessage, cases: 'first' | 'new', depth: number): Message {
    if (type.typeName === 'google.protobuf.Value')
      return create(type, { kind: { case: 'stringValue', value: 'text' } });
    const message = create(type) as Message & Record<string, unknown>;
    const fits = (field: DescField | undefined): field is DescField =>
      field !== undefined && (depth < MAX_DEPTH || !field.message);
    for (const field of type.fields)
      if (!field.oneof && fits(field)) message[field.localName] = this.getValue(field, cases, depth);
    for (const { localName, fields } of type.oneofs) {
      const field = fields.at(cases === 'new' ? -1 : 0);
      if (fits(field)) message[localName] = { case: field.localName, value: this.getValue(field, cases, depth) };
    }
    return message;
  }

  private getValue(field: DescField, cases: 'first' | 'new', depth: number): unknown {
    const more = ADDED.find(({ number }) => number === field.number);
    if (more) return more.value;
    if (field.fieldKind === 'map')
      return {
        key:
          field.mapKind === 'message'
            ? this.convertToStruct(field.message, cases, depth)
            : scalar(field.mapKind === 'scalar' ? field.scalar : Type.ENUM),
      };
    const single = field.message
      ? this.convertToStruct(field.message, cases, depth)
      : scalar(field.scalar ?? Type.ENUM);
    return field.fieldKind === 'list' ? [single, single] : single;
  }

  /** Represents Struct values as plain objects. */
  private convertToStruct(type: DescMessage, cases: 'first' | 'new', depth: number): unknown {
    return type.typeName === 'google.protobuf.Struct'
      ? { key: [1, 'text', null] }
      : this.sample(type, cases, depth + 1);
  }
}

function isExtended(type: DescMessage): boolean {
  return type.fields.some(({ number }) => number === ADDED[0].number);
}

function added(): object {
  return Object.fromEntries(ADDED.map(({ name, value }) => [name, value]));
}

function extend(message: DescriptorProto): void {
  // The oneof of an optional field is not visible to readers.
  const hidden = new Set(
    message.field.filter(({ proto3Optional }) => proto3Optional).map(({ oneofIndex }) => oneofIndex),
  );
  for (const { name, number, type, label } of ADDED)
    message.field.push(create(FieldDescriptorProtoSchema, { name, number, type, label, jsonName: name }));
  for (const oneofIndex of message.oneofDecl.keys()) {
    if (!hidden.has(oneofIndex))
      message.field.push(
        create(FieldDescriptorProtoSchema, {
          name: `added_case${oneofIndex}`,
          number: ADDED_CASE + oneofIndex,
          type: Type.STRING,
          label: Label.OPTIONAL,
          oneofIndex,
        }),
      );
  }
  for (const nested of message.nestedType) if (!nested.options?.mapEntry) extend(nested);
}

/** Returns a value of a scalar type, or of an enum. */
function scalar(type: number): unknown {
  const of: Readonly<Record<number, unknown>> = {
    [Type.STRING]: 'text',
    [Type.BYTES]: new Uint8Array([1, 2]),
    [Type.BOOL]: true,
    [Type.INT64]: 3n,
    [Type.UINT64]: 3n,
    [Type.ENUM]: NEW_VALUE,
  };
  return of[type] ?? 2;
}

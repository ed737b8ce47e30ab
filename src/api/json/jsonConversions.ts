import { ScalarType, type DescEnum, type DescField, type DescMessage } from '@bufbuild/protobuf';
import type { Descriptors } from '../descriptors/descriptors';
import { getEnumWord } from './enumWords';
import { formatDuration, formatTimestamp } from './times';

/** Converts a value as ts-proto represents it to the input of JSON.stringify, which omits undefined fields. */
export type ToJson = (value: never) => unknown;

type Fields = Record<string, unknown>;
/** Writes one field of a message, or the set case of a oneof, to its JSON object. */
type FieldWriter = (message: Readonly<Fields>, json: Fields) => void;

/** The fields that are written, each with the filter of its inner fields; undefined: all fields. */
type FieldFilter = ReadonlyMap<string, FieldFilter | undefined> | undefined;

/** Creates the JSON conversions of message types, each once. */
export class JsonConversions {
  private readonly conversionByType = new Map<string, ToJson>();

  constructor(private readonly descriptors: Descriptors) {}

  /** Returns the conversion of a type. Throws if `only` of a field names a field that does not exist. */
  getConversion(desc: DescMessage): ToJson {
    const existing = this.conversionByType.get(desc.typeName) ?? findWellKnownConversion(desc);
    if (existing) return existing;
    const writers: FieldWriter[] = [];
    const toJson = createConversion(desc.fields, writers);
    this.conversionByType.set(desc.typeName, toJson); // registered before its fields, because a type may contain itself
    this.addWriters(writers, desc, undefined);
    return toJson;
  }

  /**
   * Returns a conversion that writes only the fields of the filter. Throws if the filter names a field that does not
   * exist.
   */
  private getFilteredConversion(desc: DescMessage, filter: FieldFilter): ToJson {
    if (!filter) return this.getConversion(desc);
    const included = desc.fields.filter(({ name }) => filter.has(name));
    const missing = [...filter.keys()].filter((name) => !included.some((field) => field.name === name));
    if (missing.length > 0)
      throw new Error(`${desc.typeName} has no field ${missing.join(', ')}, which the response filter \`only\` names`);
    const writers: FieldWriter[] = [];
    this.addWriters(writers, desc, filter);
    return createConversion(included, writers);
  }

  /**
   * Adds the writers of the fields and oneofs of a message to `writers`. A writer sets one property of the JSON object.
   * Fields whose values are written unchanged share one writer, which is faster.
   */
  private addWriters(writers: FieldWriter[], desc: DescMessage, filter: FieldFilter): void {
    const isIncluded = ({ name }: DescField): boolean => !filter || filter.has(name);
    const copiedFields: DescField[] = [];
    for (const member of desc.members) {
      if (member.kind === 'oneof')
        writers.push(this.createOneofWriter(member.localName, member.fields.filter(isIncluded), filter));
      else if (isIncluded(member) && this.isCopied(member)) copiedFields.push(member);
      else if (isIncluded(member)) writers.push(this.createFieldWriter(member, filter));
    }
    if (copiedFields.length > 0) writers.push(createCopyWriter(copiedFields));
  }

  /** Whether the value of a field is written unchanged. */
  private isCopied(field: DescField): boolean {
    return (
      field.fieldKind !== 'map' &&
      !this.findValueConversion(field, undefined) &&
      !this.descriptors.findJsonForm(field)?.nullable
    );
  }

  /** Creates the writer of a oneof, which ts-proto represents as `{ $case, value }`; only the set case is written. */
  private createOneofWriter(key: string, fields: readonly DescField[], filter: FieldFilter): FieldWriter {
    const conversionByCase = new Map(
      fields.map((field) => [
        field.localName,
        { jsonName: field.jsonName, toJson: this.findValueConversion(field, filter) ?? returnUnchanged },
      ]),
    );
    return (message, json) => {
      const chosen = message[key] as { readonly $case: string; readonly value: never } | undefined;
      const caseConversion = chosen && conversionByCase.get(chosen.$case);
      if (caseConversion) json[caseConversion.jsonName] = caseConversion.toJson(chosen.value);
    };
  }

  /**
   * Creates the writer of a field outside a oneof that cannot simply be copied: maps, and fields whose absence is null,
   * need a writer even if their values are written unchanged.
   */
  private createFieldWriter(field: DescField, filter: FieldFilter): FieldWriter {
    const { jsonName, localName } = field;
    const toJson = this.findValueConversion(field, filter) ?? returnUnchanged;
    if (field.fieldKind === 'list') return createListWriter(jsonName, localName, toJson);
    if (field.fieldKind === 'map') return createMapWriter(jsonName, localName, toJson);
    const unsetJson = this.descriptors.findJsonForm(field)?.nullable ? null : undefined;
    return field.fieldKind === 'enum'
      ? createEnumWriter(jsonName, localName, toJson, unsetJson)
      : createValueWriter(jsonName, localName, toJson, unsetJson);
  }

  /** Returns the conversion of one value of a field; undefined if the value is written unchanged. */
  private findValueConversion(field: DescField, filter: FieldFilter): ToJson | undefined {
    if (field.enum) return createEnumConversion(field.enum);
    if (!field.message) return field.scalar === undefined ? undefined : findScalarConversion(field.scalar);
    const form = this.descriptors.findJsonForm(field);
    if (FREE_JSON.has(field.message.typeName)) return undefined;
    return this.getFilteredConversion(
      field.message,
      form && form.only.length > 0 ? createFieldFilter(form.only) : filter?.get(field.name),
    );
  }
}

/**
 * Creates the conversion of a message. Every object starts with all names in the order of the proto, so that objects of
 * one type share one hidden class in V8, which makes them faster.
 */
function createConversion(fields: readonly DescField[], writers: readonly FieldWriter[]): ToJson {
  const empty: Fields = Object.fromEntries(fields.map(({ jsonName }) => [jsonName, undefined]));
  return (message: Readonly<Fields>) => {
    const json = { ...empty };
    for (const write of writers) write(message, json);
    return json;
  };
}

/** Creates a writer that copies the values of several fields unchanged. */
function createCopyWriter(fields: readonly DescField[]): FieldWriter {
  const names = fields.map(({ jsonName, localName }) => [jsonName, localName] as const);
  return (message, json) => {
    for (const [jsonName, localName] of names) json[jsonName] = message[localName];
  };
}

/**
 * Creates the writer of a single value. `localName`: the property of the ts-proto message; `unsetJson`: what is written
 * for an unset value, null or undefined (omitted).
 */
function createValueWriter(
  jsonName: string,
  localName: string,
  toJson: ToJson,
  unsetJson: null | undefined,
): FieldWriter {
  return (message, json) => {
    const value = message[localName];
    json[jsonName] = value === undefined ? unsetJson : toJson(value as never);
  };
}

/** Creates the writer of an enum. An unset value, which is undefined or 0, is written as `unsetJson`. */
function createEnumWriter(
  jsonName: string,
  localName: string,
  toJson: ToJson,
  unsetJson: null | undefined,
): FieldWriter {
  return (message, json) => {
    const value = message[localName];
    json[jsonName] = value === undefined || value === 0 ? unsetJson : toJson(value as never);
  };
}

/** Creates the writer of a list. */
function createListWriter(jsonName: string, localName: string, toJson: ToJson): FieldWriter {
  return (message, json) => {
    json[jsonName] = (message[localName] as readonly never[]).map((item) => toJson(item));
  };
}

/** Creates the writer of a map. */
function createMapWriter(jsonName: string, localName: string, toJson: ToJson): FieldWriter {
  return (message, json) => {
    json[jsonName] = Object.fromEntries(
      Object.entries(message[localName] as Fields).map(([entryKey, value]) => [entryKey, toJson(value as never)]),
    );
  };
}

function returnUnchanged(value: unknown): unknown {
  return value;
}

/** Creates the conversion of an enum to its words. A number that the proto does not declare stays a number. */
function createEnumConversion(desc: DescEnum): ToJson {
  const wordByNumber = new Map(desc.values.map(({ number }) => [number, getEnumWord(desc, number)]));
  return (value: number) => wordByNumber.get(value) ?? value;
}

/**
 * Returns the conversion of a scalar; undefined if the value is written unchanged. Bytes become base64; infinite
 * numbers and NaN, which JSON does not have, become strings.
 */
function findScalarConversion(type: ScalarType): ToJson | undefined {
  if (type === ScalarType.BYTES)
    return (value: Uint8Array) => Buffer.from(value.buffer, value.byteOffset, value.byteLength).toString('base64');
  const isReal = type === ScalarType.DOUBLE || type === ScalarType.FLOAT;
  return isReal ? (value: number) => (Number.isFinite(value) ? value : String(value)) : undefined;
}

const FREE_JSON = new Set(['google.protobuf.Struct', 'google.protobuf.ListValue', 'google.protobuf.Value']);

/** Returns the conversion of a google.protobuf time or duration; undefined for other messages. */
function findWellKnownConversion({ typeName }: DescMessage): ToJson | undefined {
  if (typeName === 'google.protobuf.Timestamp') return formatTimestamp;
  if (typeName === 'google.protobuf.Duration') return formatDuration;
  return undefined;
}

/**
 * Creates a filter from paths of field names: `["id", "a.b"]` includes the field `id`, and of the message `a` only `b`.
 */
function createFieldFilter(paths: readonly string[]): FieldFilter {
  const names = new Set(paths.map((path) => path.split('.', 1)[0] as string));
  return new Map(
    [...names].map((name) => {
      const innerPaths = paths.filter((path) => path.startsWith(`${name}.`)).map((path) => path.slice(name.length + 1));
      return [name, innerPaths.length > 0 ? createFieldFilter(innerPaths) : undefined];
    }),
  );
}

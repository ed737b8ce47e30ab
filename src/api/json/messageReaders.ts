import { ScalarType, type DescField, type DescMessage } from '@bufbuild/protobuf';
import { FeatureSet_FieldPresence } from '@bufbuild/protobuf/wkt';
import type { Violation } from '../../kernel/errors';
import { isObject } from '../../kernel/jsonValue';
import type { Descriptors } from '../descriptors/descriptors';
import { MessageReader, type FieldReader, type Read } from './messageReader';
import { getScalar, type Scalar } from './scalars';
import { createSingleValue, type SingleValue } from './singleValues';
import { addViolation, describeValue, joinPath } from './violations';

/** Creates the readers of message types, each once. */
export class MessageReaders {
  private readonly readerByType = new Map<string, MessageReader>();

  constructor(private readonly descriptors: Descriptors) {}

  /**
   * Returns the reader of a type. Throws if a google.protobuf type is not supported, or if `null_clears` or
   * `empty_clears` does not name a boolean field.
   */
  getReader(desc: DescMessage): MessageReader {
    const existing = this.readerByType.get(desc.typeName);
    if (existing) return existing;
    const reader = new MessageReader(desc);
    this.readerByType.set(desc.typeName, reader); // registered before its fields, because a type may contain itself
    reader.setFields(desc.fields.map((field) => this.createFieldReader(field)));
    return reader;
  }

  /** Creates the reader of a field from its descriptor and its options. */
  private createFieldReader(field: DescField): FieldReader {
    const singleValue = createSingleValue(field, this.descriptors.getRules(field));
    const messageReader = field.message && !singleValue ? this.getReader(field.message) : undefined;
    const isSingular = field.fieldKind !== 'list' && field.fieldKind !== 'map';
    return {
      name: field.name,
      jsonName: field.jsonName,
      key: field.localName,
      oneof: field.oneof,
      isList: field.fieldKind === 'list',
      fromJson: createFieldRead(field, singleValue, messageReader, this.getMaxItems(field)),
      singleValue: field.fieldKind === 'map' || !singleValue?.fromText ? undefined : singleValue,
      messageReader: isSingular ? messageReader : undefined,
      acceptsNull: isSingular && singleValue?.acceptsNull === true,
      ...this.getJsonForm(field),
      createDefault: createDefaultFactory(field),
    };
  }

  /** Returns the maximum number of items of a list or map; Infinity if the rules contain 0 or no maximum. */
  private getMaxItems(field: DescField): number {
    return this.descriptors.getRules(field)?.maxItems || Infinity;
  }

  /** Returns the JSON rules of a field. Throws if they name a boolean field that does not exist. */
  private getJsonForm(field: DescField): Pick<FieldReader, 'nullClears' | 'emptyClears' | 'requiredInJson'> {
    const { nullClears, emptyClears, requiredInJson } = this.descriptors.findJsonForm(field) ?? {
      nullClears: '',
      emptyClears: '',
      requiredInJson: false,
    };
    for (const name of [nullClears, emptyClears]) {
      if (
        name !== '' &&
        !field.parent.fields.some((sibling) => sibling.name === name && sibling.scalar === ScalarType.BOOL)
      )
        throw new Error(
          `${field.parent.typeName} has no boolean field ${name}, which its field ${field.name} should set`,
        );
    }
    return { nullClears, emptyClears, requiredInJson };
  }
}

/**
 * Creates the function that reads the JSON value of a field: one value, a list or a map. Items that are messages have a
 * `messageReader`, all others a `singleValue`. The reader is called late, because messages may contain themselves.
 */
function createFieldRead(
  field: DescField,
  singleValue: SingleValue | undefined,
  messageReader: MessageReader | undefined,
  maxItems: number,
): Read {
  const readItem: Read = singleValue
    ? singleValue.fromJson
    : (json, path, out) => (messageReader as MessageReader).read(json, path, out);
  if (field.fieldKind === 'list')
    return createListRead(
      readItem,
      singleValue ? singleValue.createPlaceholder : () => (messageReader as MessageReader).createMessage(new Map()),
      maxItems,
    );
  return field.fieldKind === 'map' ? createMapRead(readItem, getScalar(field.mapKey), maxItems) : readItem;
}

/**
 * Creates the function that reads a list. An invalid item is replaced by a placeholder, so that violations that are
 * found later have the right index.
 */
function createListRead(readItem: Read, createPlaceholder: () => unknown, maxItems: number): Read {
  return (json, path, out) => {
    if (!Array.isArray(json)) {
      addViolation(out, path, () => `must be an array, not ${describeValue(json)}`);
      return undefined;
    }
    if (rejectTooManyItems(json.length, maxItems, path, out)) return undefined;
    return json.map((item: unknown, index) => {
      const value = readItem(item, `${path}[${index}]`, out);
      return value === undefined ? createPlaceholder() : value;
    });
  };
}

/** Creates the function that reads a map. Entries with an invalid value are omitted. */
function createMapRead(readItem: Read, keyType: Scalar, maxItems: number): Read {
  return (json, path, out) => {
    if (!isObject(json)) {
      addViolation(out, path, () => `must be a JSON object, not ${describeValue(json)}`);
      return undefined;
    }
    const names = Object.keys(json);
    if (rejectTooManyItems(names.length, maxItems, path, out)) return undefined;
    const entries = names.map((name) => {
      const entryPath = joinPath(path, name);
      if (keyType.fromText(name) === undefined) addViolation(out, entryPath, () => `the name must be ${keyType.form}`);
      return [name, readItem(json[name], entryPath, out)] as const;
    });
    return Object.fromEntries(entries.filter(([, value]) => value !== undefined));
  };
}

/**
 * Appends a violation if there are too many items, and returns whether there are. The field rules check the same, but
 * only after every item was read, and there may be a million.
 */
function rejectTooManyItems(count: number, maxItems: number, path: string, out: Violation[]): boolean {
  if (count > maxItems) addViolation(out, path, `has ${count} items: at most ${maxItems} are allowed`);
  return count > maxItems;
}

/** Returns a function that creates the value of a field that is not set, as ts-proto represents it. */
function createDefaultFactory(field: DescField): () => unknown {
  if (field.fieldKind === 'list') return () => [];
  if (field.fieldKind === 'map') return () => ({});
  if (field.fieldKind === 'message' || field.presence !== FeatureSet_FieldPresence.IMPLICIT) return () => undefined;
  return field.enum ? () => 0 : getScalar(field.scalar).createDefault;
}

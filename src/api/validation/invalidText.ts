import { isUtf8 } from 'node:buffer';
import { ScalarType, type DescField, type DescMessage } from '@bufbuild/protobuf';
import { BinaryReader, WireType } from '@bufbuild/protobuf/wire';

const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/**
 * Creates a reader of a message whose strings must be UTF-8. It throws a TypeError for other strings, where the usual
 * reader replaces invalid bytes.
 */
export function createStrictReader(bytes: Uint8Array): BinaryReader {
  return new BinaryReader(bytes, (text) => decoder.decode(text));
}

/**
 * Finds the first string field of an encoded message that is not UTF-8. Returns its path in JSON names; undefined if
 * all strings are valid. An encoded message is a sequence of fields, each with a tag (field number and wire type) and a
 * value; strings, messages and map entries are length-delimited, and a list repeats its field.
 */
export function findInvalidText(bytes: Uint8Array, message: DescMessage): string | undefined {
  const reader = new BinaryReader(bytes);
  const countByField = new Map<number, number>();
  while (reader.pos < reader.len) {
    const [number, wireType] = reader.tag();
    const field = message.fields.find((candidate) => candidate.number === number);
    if (!field || wireType !== WireType.LengthDelimited) {
      reader.skip(wireType, number);
      continue;
    }
    const index = countByField.get(number) ?? 0;
    countByField.set(number, index + 1);
    const path = findInField(field, reader.bytes(), index);
    if (path !== undefined) return path;
  }
  return undefined;
}

/**
 * Returns the path of the first string in one occurrence of a field that is not UTF-8. `index`: the position of the
 * occurrence in a list.
 */
function findInField(field: DescField, bytes: Uint8Array, index: number): string | undefined {
  const { jsonName } = field;
  if (field.fieldKind === 'map') return isEntryValid(field, bytes) ? undefined : jsonName;
  const path = field.fieldKind === 'list' ? `${jsonName}[${index}]` : jsonName;
  if (field.message) {
    const inner = findInvalidText(bytes, field.message);
    return inner === undefined ? undefined : `${path}.${inner}`;
  }
  return field.scalar === ScalarType.STRING && !isUtf8(bytes) ? path : undefined;
}

/** An encoded map entry is a message: field 1 is the key, field 2 the value. */
const KEY_FIELD_NUMBER = 1;

/** Whether the key of a map entry, and the strings in its value, are UTF-8. */
function isEntryValid(field: DescField & { readonly fieldKind: 'map' }, bytes: Uint8Array): boolean {
  const reader = new BinaryReader(bytes);
  while (reader.pos < reader.len) {
    const [number, wireType] = reader.tag();
    if (wireType !== WireType.LengthDelimited) {
      reader.skip(wireType, number);
      continue;
    }
    const part = reader.bytes();
    const isValid = number === KEY_FIELD_NUMBER ? isScalarValid(field.mapKey, part) : isMapValueValid(field, part);
    if (!isValid) return false;
  }
  return true;
}

/** Whether the strings in the value of a map entry are UTF-8. */
function isMapValueValid(field: DescField & { readonly fieldKind: 'map' }, value: Uint8Array): boolean {
  return field.message ? findInvalidText(value, field.message) === undefined : isScalarValid(field.scalar, value);
}

/** Whether the bytes of a scalar are UTF-8, as those of a string must be. Other types may have any bytes. */
function isScalarValid(type: ScalarType | undefined, value: Uint8Array): boolean {
  return type !== ScalarType.STRING || isUtf8(value);
}

import type { JsonValue } from '../../kernel/jsonValue';
import type { StoredReading } from '../readings/storedReading';

// The encoded sensor id, two times, the sequence, and their tags.
const READING_OVERHEAD_BYTES = 100;
// A double and its tag.
const NUMBER_BYTES = 9;

/** Estimates the size of a reading in a response, in bytes. The actual size is hardly ever larger. */
export function estimateReadingSize({ valueType, value }: Pick<StoredReading, 'valueType' | 'value'>): number {
  if (valueType === 'json') return READING_OVERHEAD_BYTES + addFraming(computeValueSize(value));
  const valueBytes = typeof value === 'string' ? addFraming(Buffer.byteLength(value)) : NUMBER_BYTES;
  return READING_OVERHEAD_BYTES + valueBytes;
}

/**
 * Returns the size of a value as google.protobuf.Value, in bytes. In protobuf, each field has a tag of one byte;
 * strings, lists and objects also have a length prefix. A map is a list of entries with a key field and a value field.
 * A list of small numbers is many times larger than its JSON text.
 */
export function computeValueSize(value: JsonValue): number {
  if (value === null || typeof value === 'boolean') return 2; // a tag and one byte
  if (typeof value === 'number') return NUMBER_BYTES;
  if (typeof value === 'string') return addFraming(Buffer.byteLength(value));
  const items = Array.isArray(value)
    ? value.map((item) => addFraming(computeValueSize(item)))
    : Object.entries(value).map(([name, item]) =>
        addFraming(addFraming(Buffer.byteLength(name)) + addFraming(computeValueSize(item))),
      );
  return addFraming(items.reduce((sum, size) => sum + size, 0));
}

/** Adds the size of the tag and the length prefix. */
function addFraming(size: number): number {
  return size + 1 + countVarintBytes(size);
}

/** Returns the number of bytes of a length prefix, which has 7 bits per byte. */
function countVarintBytes(length: number): number {
  if (length < 2 ** 7) return 1;
  if (length < 2 ** 14) return 2;
  return length < 2 ** 21 ? 3 : 4;
}

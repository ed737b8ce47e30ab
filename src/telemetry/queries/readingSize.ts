import type { JsonValue } from '../../kernel/jsonValue';
import type { StoredReading } from '../readings/storedReading';

// The sensor, two times, the sequence and what stands before each.
const HEAD = 100;
const NUMBER = 9;

/** How many bytes a reading takes in an answer, about, and hardly less. */
export function sizeOfReading({ valueType, value }: Pick<StoredReading, 'valueType' | 'value'>): number {
  if (valueType === 'json') return HEAD + framed(sizeOfValue(value));
  return HEAD + (typeof value === 'string' ? framed(Buffer.byteLength(value)) : NUMBER);
}

/** How many bytes a value takes as google.protobuf.Value: a list of small numbers many times of what it takes as JSON text. */
export function sizeOfValue(value: JsonValue): number {
  if (value === null || typeof value === 'boolean') return 2;
  if (typeof value === 'number') return NUMBER;
  if (typeof value === 'string') return framed(Buffer.byteLength(value));
  const items = Array.isArray(value) ? value.map((item) => framed(sizeOfValue(item))) : Object.entries(value).map(([name, item]) => framed(framed(Buffer.byteLength(name)) + framed(sizeOfValue(item))));
  return framed(items.reduce((sum, size) => sum + size, 0));
}

/** With the tag and the length before it. */
function framed(size: number): number {
  return size + (size < 128 ? 2 : size < 16_384 ? 3 : size < 2_097_152 ? 4 : 5);
}

const MIN_INT16 = -32_768;
const MAX_INT16 = 32_767;

/**
 * Encodes a reading as the bytes that a device sends: its numbers in hundredths and its switches as 100 or 0, in order,
 * each as two bytes, big-endian.
 */
export function encodeReading(values: Readonly<Record<string, unknown>>): Buffer {
  const numbers = Object.values(values)
    .flat()
    .filter((value) => typeof value === 'number' || typeof value === 'boolean');
  const bytes = Buffer.alloc(numbers.length * 2);
  for (const [index, value] of numbers.entries()) {
    const hundredths = Math.round(Number(value) * 100);
    bytes.writeInt16BE(Math.max(MIN_INT16, Math.min(MAX_INT16, hundredths)), index * 2);
  }
  return bytes;
}

/** A reading as the bytes that a device sends, before any codec: its numbers in hundredths and its switches as 100 or 0, in their order, each as two bytes, the higher one first. */
export function rawReading(values: Readonly<Record<string, unknown>>): Buffer {
  const numbers = Object.values(values).flat().filter((value) => typeof value === 'number' || typeof value === 'boolean');
  const bytes = Buffer.alloc(numbers.length * 2);
  numbers.forEach((value, at) => bytes.writeInt16BE(Math.max(-32_768, Math.min(32_767, Math.round(Number(value) * 100))), at * 2));
  return bytes;
}

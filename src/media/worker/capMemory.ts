const PAGE_BYTES = 65_536;
/** A program starts with its magic number and its version. */
const HEADER_BYTES = 8;
/** The id of the section that declares the memory. */
const MEMORY_SECTION = 5;

/**
 * Returns a WebAssembly program whose memory cannot grow over `bytes`. Its input is untrusted and may declare less than
 * it holds.
 */
export function capMemory(program: Buffer, bytes: number): Buffer {
  for (let offset = HEADER_BYTES; offset < program.length;) {
    const size = readLeb128(program, offset + 1); // each section: its id, its size, its content
    const end = size.end + size.value;
    if (program[offset] === MEMORY_SECTION)
      return Buffer.concat([
        program.subarray(0, offset),
        createMemorySection(program.subarray(size.end, end), bytes),
        program.subarray(end),
      ]);
    offset = end;
  }
  throw new Error('the program does not define a memory');
}

/**
 * Creates a memory section with a maximum. The content of a section is the number of memories, and for each one: flags
 * (1: it has a maximum), the initial and the maximum number of pages.
 */
function createMemorySection(section: Buffer, bytes: number): Buffer {
  const memoryCount = 1;
  const hasMaximum = 1;
  const initialPages = readLeb128(section, 2).value;
  const maxPages = Math.max(initialPages, Math.floor(bytes / PAGE_BYTES));
  const body = Buffer.from([memoryCount, hasMaximum, ...encodeLeb128(initialPages), ...encodeLeb128(maxPages)]);
  return Buffer.concat([Buffer.from([MEMORY_SECTION, ...encodeLeb128(body.length)]), body]);
}

/** Reads an unsigned number in LEB128: seven bits per byte, the lowest first; the highest bit says that more follow. */
function readLeb128(bytes: Buffer, start: number): { readonly value: number; readonly end: number } {
  let value = 0;
  for (let offset = start; ; offset += 1) {
    const byte = bytes.readUInt8(offset);
    value += (byte & 0x7f) * 2 ** (7 * (offset - start));
    if (byte < 0x80) return { value, end: offset + 1 };
  }
}

function encodeLeb128(value: number): number[] {
  return value < 0x80 ? [value] : [(value & 0x7f) | 0x80, ...encodeLeb128(value >>> 7)];
}

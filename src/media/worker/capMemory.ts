const PAGE = 65_536;
const MEMORY_SECTION = 5;

/** A WebAssembly program whose memory cannot grow over `bytes`: what it decodes comes from strangers, and may say less than it holds. */
export function capMemory(program: Buffer, bytes: number): Buffer {
  for (let at = 8; at < program.length; ) {
    const size = readNumber(program, at + 1);
    const end = size.end + size.value;
    if (program[at] === MEMORY_SECTION) return Buffer.concat([program.subarray(0, at), capped(program.subarray(size.end, end), bytes), program.subarray(end)]);
    at = end;
  }
  throw new Error('the program has no memory of its own');
}

function capped(section: Buffer, bytes: number): Buffer {
  const initial = readNumber(section, 2).value;
  const body = Buffer.from([1, 1, ...numberBytes(initial), ...numberBytes(Math.max(initial, Math.floor(bytes / PAGE)))]);
  return Buffer.concat([Buffer.from([MEMORY_SECTION, ...numberBytes(body.length)]), body]);
}

/** LEB128. */
function readNumber(bytes: Buffer, start: number): { readonly value: number; readonly end: number } {
  let value = 0;
  for (let at = start; ; at += 1) {
    const byte = bytes.readUInt8(at);
    value += (byte & 0x7f) * 2 ** (7 * (at - start));
    if (byte < 0x80) return { value, end: at + 1 };
  }
}

function numberBytes(value: number): number[] {
  return value < 0x80 ? [value] : [(value & 0x7f) | 0x80, ...numberBytes(value >>> 7)];
}

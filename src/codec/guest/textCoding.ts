const UTF8_LABELS = new Set(['utf-8', 'utf8', 'unicode-1-1-utf-8']);
/** U+FFFD, which stands for anything that is not valid. */
const REPLACEMENT_CHARACTER = 0xfffd;
/** U+FEFF, which may precede a text and is not part of it. */
const BYTE_ORDER_MARK = 0xfeff;

/** `TextEncoder`: encodes text as UTF-8. */
export class TextEncoder {
  get encoding(): string {
    return 'utf-8';
  }

  encode(value: unknown = ''): Uint8Array {
    const bytes: number[] = [];
    for (const char of String(value)) appendUtf8(bytes, char.codePointAt(0) ?? 0);
    return new Uint8Array(bytes);
  }

  encodeInto(text: string, target: Uint8Array): { read: number; written: number } {
    let read = 0;
    let written = 0;
    for (const char of text) {
      const bytes: number[] = [];
      appendUtf8(bytes, char.codePointAt(0) ?? 0);
      if (written + bytes.length > target.length) break;
      target.set(bytes, written);
      written += bytes.length;
      read += char.length;
    }
    return { read, written };
  }
}

/** `TextDecoder`: decodes UTF-8. The `stream` option is not supported. */
export class TextDecoder {
  readonly encoding = 'utf-8';
  readonly fatal: boolean;
  readonly ignoreBOM: boolean;

  constructor(label: unknown = 'utf-8', options: { fatal?: boolean; ignoreBOM?: boolean } = {}) {
    if (!UTF8_LABELS.has(String(label).trim().toLowerCase()))
      throw new RangeError(`TextDecoder knows utf-8 only, not ${String(label)}`);
    this.fatal = Boolean(options.fatal);
    this.ignoreBOM = Boolean(options.ignoreBOM);
  }

  decode(input?: ArrayBuffer | ArrayBufferView): string {
    const bytes = toBytes(input);
    let text = '';
    let offset = 0;
    while (offset < bytes.length) {
      const [codePoint, length] = decodeCodePoint(bytes, offset);
      if (codePoint === undefined && this.fatal) throw new TypeError('the bytes are not UTF-8');
      text += String.fromCodePoint(codePoint ?? REPLACEMENT_CHARACTER);
      offset += length;
    }
    return !this.ignoreBOM && text.codePointAt(0) === BYTE_ORDER_MARK ? text.slice(1) : text;
  }
}

function toBytes(input: ArrayBuffer | ArrayBufferView | undefined): Uint8Array {
  if (input === undefined) return new Uint8Array();
  return ArrayBuffer.isView(input)
    ? new Uint8Array(input.buffer, input.byteOffset, input.byteLength)
    : new Uint8Array(input);
}

/**
 * Appends the UTF-8 of a code point. An unpaired surrogate (U+D800 to U+DFFF) is replaced. UTF-8 has 1 to 4 bytes: the
 * first one contains the length and the highest bits, each further one (10xxxxxx) the next 6 bits.
 */
function appendUtf8(bytes: number[], codePoint: number): void {
  const point = codePoint >= 0xd800 && codePoint <= 0xdfff ? REPLACEMENT_CHARACTER : codePoint;
  if (point < 0x80) bytes.push(point);
  else if (point < 0x800) bytes.push(0xc0 | (point >> 6), 0x80 | (point & 63));
  else if (point < 0x1_0000) bytes.push(0xe0 | (point >> 12), 0x80 | ((point >> 6) & 63), 0x80 | (point & 63));
  else bytes.push(0xf0 | (point >> 18), 0x80 | ((point >> 12) & 63), 0x80 | ((point >> 6) & 63), 0x80 | (point & 63));
}

/**
 * Returns the code point at the offset (undefined if the bytes are not valid), and how many bytes to skip. UTF-8: the
 * first byte contains the length and the highest bits, each further one (10xxxxxx) the next 6 bits.
 */
function decodeCodePoint(bytes: Uint8Array, offset: number): [number | undefined, number] {
  const first = bytes[offset] ?? 0;
  if (first < 0x80) return [first, 1];
  const continuationCount = countContinuationBytes(first);
  let point = first & (0x3f >> continuationCount);
  for (let step = 1; step <= continuationCount; step += 1) {
    const next = bytes[offset + step] ?? 0;
    const isContinuation = (next & 0xc0) === 0x80;
    if (!isContinuation || (step === 1 && !isValidSecondByte(first, next))) return [undefined, step];
    point = (point << 6) | (next & 63);
  }
  return continuationCount === 0 ? [undefined, 1] : [point, continuationCount + 1];
}

/** Returns how many bytes follow a first byte that is not ASCII; 0: a character cannot start with this byte. */
function countContinuationBytes(first: number): number {
  if (first < 0xc2 || first > 0xf4) return 0;
  if (first < 0xe0) return 1;
  return first < 0xf0 ? 2 : 3;
}

/** The second byte shows whether a sequence is overlong, encodes a surrogate, or exceeds U+10FFFF. */
function isValidSecondByte(first: number, second: number): boolean {
  if (first === 0xe0) return second >= 0xa0;
  if (first === 0xed) return second < 0xa0;
  if (first === 0xf0) return second >= 0x90;
  return first !== 0xf4 || second < 0x90;
}

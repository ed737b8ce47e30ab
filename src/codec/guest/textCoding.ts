const UTF8 = new Set(['utf-8', 'utf8', 'unicode-1-1-utf-8']);
const REPLACEMENT = 0xfffd;

/** `TextEncoder`: text to UTF-8. */
export class TextEncoder {
  get encoding(): string {
    return 'utf-8';
  }

  encode(value: unknown = ''): Uint8Array {
    const bytes: number[] = [];
    for (const letter of String(value)) pushUtf8(bytes, letter.codePointAt(0) ?? 0);
    return new Uint8Array(bytes);
  }

  encodeInto(text: string, target: Uint8Array): { read: number; written: number } {
    let read = 0;
    let written = 0;
    for (const letter of text) {
      const bytes: number[] = [];
      pushUtf8(bytes, letter.codePointAt(0) ?? 0);
      if (written + bytes.length > target.length) break;
      target.set(bytes, written);
      written += bytes.length;
      read += letter.length;
    }
    return { read, written };
  }
}

/** `TextDecoder`: UTF-8 to text, whole inputs only. */
export class TextDecoder {
  readonly encoding = 'utf-8';
  readonly fatal: boolean;
  readonly ignoreBOM: boolean;

  constructor(label: unknown = 'utf-8', options: { fatal?: boolean; ignoreBOM?: boolean } = {}) {
    if (!UTF8.has(String(label).trim().toLowerCase())) throw new RangeError(`TextDecoder knows utf-8 only, not ${String(label)}`);
    this.fatal = Boolean(options.fatal);
    this.ignoreBOM = Boolean(options.ignoreBOM);
  }

  decode(input?: ArrayBuffer | ArrayBufferView): string {
    const bytes = bytesOf(input);
    let text = '';
    let at = 0;
    while (at < bytes.length) {
      const [point, length] = readUtf8(bytes, at);
      if (point === undefined && this.fatal) throw new TypeError('the bytes are not UTF-8');
      text += String.fromCodePoint(point ?? REPLACEMENT);
      at += length;
    }
    return !this.ignoreBOM && text.codePointAt(0) === 0xfeff ? text.slice(1) : text;
  }
}

function bytesOf(input: ArrayBuffer | ArrayBufferView | undefined): Uint8Array {
  if (input === undefined) return new Uint8Array();
  return ArrayBuffer.isView(input) ? new Uint8Array(input.buffer, input.byteOffset, input.byteLength) : new Uint8Array(input);
}

function pushUtf8(bytes: number[], codePoint: number): void {
  const point = codePoint >= 0xd800 && codePoint <= 0xdfff ? REPLACEMENT : codePoint;
  if (point < 0x80) bytes.push(point);
  else if (point < 0x800) bytes.push(0xc0 | (point >> 6), 0x80 | (point & 63));
  else if (point < 0x1_0000) bytes.push(0xe0 | (point >> 12), 0x80 | ((point >> 6) & 63), 0x80 | (point & 63));
  else bytes.push(0xf0 | (point >> 18), 0x80 | ((point >> 12) & 63), 0x80 | ((point >> 6) & 63), 0x80 | (point & 63));
}

/** The code point at a place, undefined where the bytes are wrong, and how many bytes that took. */
function readUtf8(bytes: Uint8Array, at: number): [number | undefined, number] {
  const first = bytes[at] ?? 0;
  if (first < 0x80) return [first, 1];
  const more = followers(first);
  let point = first & (0x3f >> more);
  for (let step = 1; step <= more; step += 1) {
    const next = bytes[at + step] ?? 0;
    if ((next & 0xc0) !== 0x80 || (step === 1 && !secondFits(first, next))) return [undefined, step];
    point = (point << 6) | (next & 63);
  }
  return more === 0 ? [undefined, 1] : [point, more + 1];
}

/** How many bytes belong to a first one that is not ASCII; 0: it is no first one. */
function followers(first: number): number {
  if (first < 0xc2 || first > 0xf4) return 0;
  if (first < 0xe0) return 1;
  return first < 0xf0 ? 2 : 3;
}

/** No longer forms than needed, no surrogates, nothing above U+10FFFF: told by the second byte. */
function secondFits(first: number, second: number): boolean {
  if (first === 0xe0) return second >= 0xa0;
  if (first === 0xed) return second < 0xa0;
  if (first === 0xf0) return second >= 0x90;
  return first !== 0xf4 || second < 0x90;
}

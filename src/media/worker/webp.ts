import type { Pixels } from './pixels';

/** The first frame of a WebP that moves. */
interface FirstFrame {
  readonly x: number;
  readonly y: number;
  readonly canvas: { readonly width: number; readonly height: number };
  /** As a WebP by itself, which the decoder takes. */
  readonly still: Buffer;
}

const MOVES = 0x02;
const HAS_ALPHA = 0x10;
const FRAME_HEADER = 16;

/** What is decoded of a WebP: the file itself, or the first frame of one that moves, laid onto its canvas. */
export function decodeWebp(bytes: Buffer, decode: (still: Buffer) => Pixels): Pixels {
  const first = firstFrame(bytes);
  if (!first) return decode(bytes);
  return laidOn(first, decode(first.still));
}

/** Undefined for one that does not move. Throws where a frame cannot be found. */
function firstFrame(bytes: Buffer): FirstFrame | undefined {
  if (bytes.toString('latin1', 12, 16) !== 'VP8X' || ((bytes[20] ?? 0) & MOVES) === 0) return undefined;
  const canvas = { width: bytes.readUIntLE(24, 3) + 1, height: bytes.readUIntLE(27, 3) + 1 };
  for (let at = 12; at + 8 <= bytes.length; ) {
    const size = bytes.readUInt32LE(at + 4);
    const end = at + 8 + size;
    if (bytes.toString('latin1', at, at + 4) === 'ANMF') {
      if (end > bytes.length) throw new Error('its first frame is cut off');
      const frame = bytes.subarray(at + 8, end);
      return { x: frame.readUIntLE(0, 3) * 2, y: frame.readUIntLE(3, 3) * 2, canvas, still: stillOf(frame) };
    }
    at = end + (size % 2);
  }
  throw new Error('it has no frame');
}

function stillOf(frame: Buffer): Buffer {
  const header = Buffer.alloc(10);
  header[0] = HAS_ALPHA;
  frame.copy(header, 4, 6, 12); // width and height less one, in the same form
  const body = Buffer.concat([Buffer.from('WEBP'), chunk('VP8X', header), frame.subarray(FRAME_HEADER)]);
  return chunk('RIFF', body);
}

function chunk(name: string, data: Buffer): Buffer {
  const head = Buffer.alloc(8);
  head.write(name, 'latin1');
  head.writeUInt32LE(data.length, 4);
  return Buffer.concat([head, data, Buffer.alloc(data.length % 2)]);
}

function laidOn({ x, y, canvas }: FirstFrame, frame: Pixels): Pixels {
  if (x + frame.width > canvas.width || y + frame.height > canvas.height) throw new Error('its first frame lies outside');
  if (frame.width === canvas.width && frame.height === canvas.height) return frame;
  const data = new Uint8Array(canvas.width * canvas.height * 4);
  for (let row = 0; row < frame.height; row += 1) {
    data.set(frame.data.subarray(row * frame.width * 4, (row + 1) * frame.width * 4), ((y + row) * canvas.width + x) * 4);
  }
  return { ...canvas, data };
}

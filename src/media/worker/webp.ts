import type { Pixels } from './pixels';

/** The first frame of an animated WebP. */
interface FirstFrame {
  readonly x: number;
  readonly y: number;
  readonly canvas: { readonly width: number; readonly height: number };
  /** As a separate WebP, which the decoder accepts. */
  readonly still: Buffer;
}

// Flags in the first byte of the chunk VP8X, which describes an extended WebP.
const IS_ANIMATED = 0x02;
const HAS_ALPHA = 0x10;
/** Position, size, duration and flags at the start of the chunk ANMF (a frame). The chunks of the image follow. */
const FRAME_HEADER_BYTES = 16;
/** The offset of the first chunk, after `RIFF`, the length of the file and `WEBP`. */
const FIRST_CHUNK_OFFSET = 12;

/** Decodes a WebP; of an animation, the first frame drawn onto its canvas. */
export function decodeWebp(bytes: Buffer, decode: (still: Buffer) => Pixels): Pixels {
  const first = findFirstFrame(bytes);
  if (!first) return decode(bytes); // not animated
  return drawOnCanvas(first, decode(first.still));
}

/**
 * Finds the first frame; undefined if the image is not animated. Throws if no frame can be found. A chunk has a name
 * and a length (4 bytes each) and its content. That of the first one, VP8X, has flags (at byte 20 of the file) and the
 * width and height of the canvas minus one (3 bytes each, at 24 and 27). A frame is a chunk ANMF.
 */
function findFirstFrame(bytes: Buffer): FirstFrame | undefined {
  if (
    bytes.toString('latin1', FIRST_CHUNK_OFFSET, FIRST_CHUNK_OFFSET + 4) !== 'VP8X' ||
    ((bytes[20] ?? 0) & IS_ANIMATED) === 0
  )
    return undefined;
  const canvas = { width: bytes.readUIntLE(24, 3) + 1, height: bytes.readUIntLE(27, 3) + 1 };
  for (let offset = FIRST_CHUNK_OFFSET; offset + 8 <= bytes.length;) {
    const size = bytes.readUInt32LE(offset + 4);
    const end = offset + 8 + size;
    if (bytes.toString('latin1', offset, offset + 4) === 'ANMF') {
      if (end > bytes.length) throw new Error('its first frame is cut off');
      const frame = bytes.subarray(offset + 8, end);
      // The position is stored in units of two pixels.
      return { x: frame.readUIntLE(0, 3) * 2, y: frame.readUIntLE(3, 3) * 2, canvas, still: createStillImage(frame) };
    }
    offset = end + (size % 2); // chunks are padded to an even length
  }
  throw new Error('it has no frame');
}

/** Creates a WebP with the size and the image of a frame. */
function createStillImage(frame: Buffer): Buffer {
  const header = Buffer.alloc(10);
  header[0] = HAS_ALPHA;
  frame.copy(header, 4, 6, 12); // width and height minus one, in the same form
  const body = Buffer.concat([Buffer.from('WEBP'), createChunk('VP8X', header), frame.subarray(FRAME_HEADER_BYTES)]);
  return createChunk('RIFF', body);
}

/** Creates a chunk: its name, the length of its data, and the data, padded to an even length. */
function createChunk(name: string, data: Buffer): Buffer {
  const head = Buffer.alloc(8);
  head.write(name, 'latin1');
  head.writeUInt32LE(data.length, 4);
  return Buffer.concat([head, data, Buffer.alloc(data.length % 2)]);
}

/** Returns the frame at its position on the otherwise transparent canvas. */
function drawOnCanvas({ x, y, canvas }: FirstFrame, frame: Pixels): Pixels {
  if (x + frame.width > canvas.width || y + frame.height > canvas.height)
    throw new Error('its first frame is out of bounds');
  if (frame.width === canvas.width && frame.height === canvas.height) return frame;
  const data = new Uint8Array(canvas.width * canvas.height * 4);
  for (let row = 0; row < frame.height; row += 1) {
    data.set(
      frame.data.subarray(row * frame.width * 4, (row + 1) * frame.width * 4),
      ((y + row) * canvas.width + x) * 4,
    );
  }
  return { ...canvas, data };
}

import { GifReader } from 'omggif';
import type { Pixels } from './pixels';

const TRAILER = 0x3b;

/**
 * Decodes the first frame. Throws if it is corrupt. `consoleOutput`: what the decoder wrote to the console, where it
 * reports its errors.
 */
export function decodeGif(bytes: Buffer, consoleOutput: readonly string[]): Pixels {
  const reader = new GifReader(bytes);
  const { width, height } = reader;
  const frame = reader.frameInfo(0);
  if (frame.x + frame.width > width || frame.y + frame.height > height)
    throw new Error('its first frame is out of bounds');
  if (!bytes.includes(TRAILER, frame.data_offset + frame.data_length)) throw new Error('its end is missing');
  const data = new Uint8Array(width * height * 4);
  reader.decodeAndBlitFrameRGBA(0, data);
  if (consoleOutput[0] !== undefined) throw new Error(consoleOutput[0]);
  return { width, height, data };
}

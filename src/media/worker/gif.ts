import { GifReader } from 'omggif';
import type { Pixels } from './pixels';

const TRAILER = 0x3b;

/** Decodes the first frame. Throws where it is damaged. `complaints`: what the decoder wrote to the console, its only way to tell. */
export function decodeGif(bytes: Buffer, complaints: readonly string[]): Pixels {
  const reader = new GifReader(bytes);
  const { width, height } = reader;
  const frame = reader.frameInfo(0);
  if (frame.x + frame.width > width || frame.y + frame.height > height) throw new Error('its first frame lies outside');
  if (!bytes.includes(TRAILER, frame.data_offset + frame.data_length)) throw new Error('its end is missing');
  const data = new Uint8Array(width * height * 4);
  reader.decodeAndBlitFrameRGBA(0, data);
  if (complaints[0] !== undefined) throw new Error(complaints[0]);
  return { width, height, data };
}

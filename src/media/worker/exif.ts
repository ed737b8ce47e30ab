import type { Orientation } from './pixels';

const [NAME, TAG, SHORT] = ['Exif\0\0', 0x01_12, 3];
const ENTRY = 12;

/** How a photo asks to be turned; undefined: its notes do not say, or cannot be read. `notes`: what stands in the marker. */
export function exifOrientation(notes: Buffer): Orientation | undefined {
  if (notes.toString('latin1', 0, NAME.length) !== NAME) return undefined;
  try {
    return orientationIn(notes.subarray(NAME.length));
  } catch {
    return undefined; // an entry that lies outside
  }
}

function orientationIn(tiff: Buffer): Orientation | undefined {
  const isLittle = tiff.toString('latin1', 0, 2) === 'II';
  const short = (at: number): number => (isLittle ? tiff.readUInt16LE(at) : tiff.readUInt16BE(at));
  const first = isLittle ? tiff.readUInt32LE(4) : tiff.readUInt32BE(4);
  for (let at = first + 2, left = short(first); left > 0; at += ENTRY, left -= 1) {
    if (short(at) !== TAG || short(at + 2) !== SHORT) continue;
    const value = short(at + 8);
    return value >= 1 && value <= 8 ? (value as Orientation) : undefined;
  }
  return undefined;
}

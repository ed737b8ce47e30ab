import type { Orientation } from './pixels';

const EXIF_NAME = 'Exif\0\0';
const ORIENTATION_TAG = 0x01_12;
/** The type of an entry with a 16-bit value. */
const SHORT_TYPE = 3;
const ENTRY_BYTES = 12;

/**
 * Reads the orientation of a photo; undefined: it is missing or cannot be read. `marker`: the content of the EXIF
 * marker.
 */
export function readExifOrientation(marker: Buffer): Orientation | undefined {
  if (marker.toString('latin1', 0, EXIF_NAME.length) !== EXIF_NAME) return undefined;
  try {
    return findOrientation(marker.subarray(EXIF_NAME.length));
  } catch {
    return undefined; // an entry that is out of bounds
  }
}

/**
 * Finds the orientation in a TIFF structure: the byte order (`II`: little-endian), the offset of the first directory,
 * and in that directory the number of entries and the entries. The offsets in an entry are: tag 0, type 2, count 4,
 * value 8.
 */
function findOrientation(tiff: Buffer): Orientation | undefined {
  const isLittleEndian = tiff.toString('latin1', 0, 2) === 'II';
  const readShort = (offset: number): number =>
    isLittleEndian ? tiff.readUInt16LE(offset) : tiff.readUInt16BE(offset);
  const directoryOffset = isLittleEndian ? tiff.readUInt32LE(4) : tiff.readUInt32BE(4);
  const entryCount = readShort(directoryOffset);
  for (let index = 0; index < entryCount; index += 1) {
    const offset = directoryOffset + 2 + index * ENTRY_BYTES;
    if (readShort(offset) !== ORIENTATION_TAG || readShort(offset + 2) !== SHORT_TYPE) continue;
    const value = readShort(offset + 8);
    return value >= 1 && value <= 8 ? (value as Orientation) : undefined;
  }
  return undefined;
}

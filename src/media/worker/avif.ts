import type { Orientation } from './pixels';

interface Box {
  readonly type: string;
  /** The start and end of its content. */
  readonly start: number;
  readonly end: number;
}

// The EXIF orientations for 0 to 3 quarter turns counter-clockwise, without and with mirroring.
const NOT_MIRRORED: readonly Orientation[] = [1, 8, 3, 6];
const MIRRORED_VERTICALLY: readonly Orientation[] = [4, 5, 2, 7];
const MIRRORED_HORIZONTALLY: readonly Orientation[] = [2, 7, 4, 5];

/** The brands that identify AVIF, among the general brands that may precede them. */
const AVIF_BRANDS = ['avif', 'avis'];
const GENERAL_BRANDS = ['mif1', 'msf1', 'miaf'];

/**
 * Whether the bytes start like an AVIF file: with the box `ftyp` (its size in 4 bytes, its type, its content). Other
 * formats use the same container; the brands in this box distinguish them.
 */
export function isAvif(bytes: Buffer): boolean {
  if (bytes.length < 16 || bytes.toString('latin1', 4, 8) !== 'ftyp') return false;
  // The content of `ftyp`: the major brand, its version, and the compatible brands, four bytes each.
  const [major = '', , ...compatible] =
    bytes
      .subarray(8, Math.min(bytes.readUInt32BE(0), 1024))
      .toString('latin1')
      .match(/[^]{4}/g) ?? [];
  return (
    AVIF_BRANDS.includes(major) ||
    (GENERAL_BRANDS.includes(major) && compatible.some((brand) => AVIF_BRANDS.includes(brand)))
  );
}

/**
 * Returns the same bytes with the brand of a still AVIF. The decoder would otherwise read the frames of an animation
 * and reject the still image.
 */
export function markAsStillAvif(bytes: Buffer): Buffer {
  const still = Buffer.from(bytes);
  still.write('avif', 8, 'latin1');
  return still;
}

/**
 * Reads the sizes of the images in an AVIF file. Each is a box `ispe` (version and flags, width, height; 4 bytes each)
 * in the list of properties `ipco`. Throws if it cannot be read, and for a file without a still image.
 */
export function readAvifSizes(bytes: Buffer): readonly { readonly width: number; readonly height: number }[] {
  const properties = findBox(bytes, findMetaContent(bytes), 'iprp');
  const boxes = [...readBoxes(bytes, findBox(bytes, properties, 'ipco'))];
  return boxes.flatMap(({ type, start }) =>
    type === 'ispe' ? [{ width: bytes.readUInt32BE(start + 4), height: bytes.readUInt32BE(start + 8) }] : [],
  );
}

/** Reads the rotation and mirroring of an AVIF. The decoder leaves them to its caller, and EXIF does not apply here. */
export function readAvifOrientation(bytes: Buffer): Orientation {
  try {
    return getOrientation(readPrimaryProperties(bytes), bytes);
  } catch {
    return 1; // an invalid box: the decoder decides about the rest
  }
}

/**
 * Converts the rotation and mirroring to an EXIF orientation. The lowest two bits of `irot` are the quarter turns
 * counter-clockwise; the lowest bit of `imir` is the direction: 0 swaps top and bottom, 1 left and right.
 */
function getOrientation(properties: readonly Box[], bytes: Buffer): Orientation {
  const turn = properties.find(({ type }) => type === 'irot');
  const mirror = properties.find(({ type }) => type === 'imir');
  const orientations = mirror
    ? [MIRRORED_VERTICALLY, MIRRORED_HORIZONTALLY][bytes.readUInt8(mirror.start) & 1]
    : NOT_MIRRORED;
  const quarterTurns = turn ? bytes.readUInt8(turn.start) & 3 : 0;
  return orientations?.[quarterTurns] ?? 1;
}

/**
 * Reads the properties of the shown image. A file may hold other images with their own. The box `pitm` has its version
 * (1 byte), its flags (3 bytes) and the id of the shown image: 2 bytes in version 0, otherwise 4.
 */
function readPrimaryProperties(bytes: Buffer): readonly Box[] {
  const meta = findMetaContent(bytes);
  const primary = findBox(bytes, meta, 'pitm');
  const id =
    bytes.readUInt8(primary.start) === 0
      ? bytes.readUInt16BE(primary.start + 4)
      : bytes.readUInt32BE(primary.start + 4);
  const properties = findBox(bytes, meta, 'iprp');
  const boxes = [...readBoxes(bytes, findBox(bytes, properties, 'ipco'))];
  const indexes = readAssociations(bytes, findBox(bytes, properties, 'ipma')).get(id) ?? [];
  return indexes.flatMap((index) => boxes[index - 1] ?? []);
}

/** Finds the boxes inside `meta`, after its version and flags. */
function findMetaContent(bytes: Buffer): { readonly start: number; readonly end: number } {
  const { start, end } = findBox(bytes, { start: 0, end: bytes.length }, 'meta');
  return { start: start + 4, end };
}

/**
 * Reads `ipma`: the properties of each image, as indexes into `ipco` counted from 1, by the id of the image. The
 * version and the flags of the box determine how many bytes an id and an index have. The highest bit of an index says
 * whether a reader must know the property, and is ignored.
 */
function readAssociations(bytes: Buffer, box: Box): Map<number, readonly number[]> {
  const indexesById = new Map<number, readonly number[]>();
  const hasWideIds = bytes.readUInt8(box.start) >= 1;
  const hasWideIndexes = (bytes.readUInt8(box.start + 3) & 1) === 1;
  let offset = box.start + 8; // after version and flags, and the number of images
  while (offset < box.end) {
    const id = hasWideIds ? bytes.readUInt32BE(offset) : bytes.readUInt16BE(offset);
    offset += hasWideIds ? 4 : 2;
    const count = bytes.readUInt8(offset);
    offset += 1;
    const indexBytes = hasWideIndexes ? 2 : 1;
    indexesById.set(
      id,
      Array.from(
        { length: count },
        (_, index) => bytes.readUIntBE(offset + index * indexBytes, indexBytes) & (hasWideIndexes ? 0x7fff : 0x7f),
      ),
    );
    offset += count * indexBytes;
  }
  return indexesById;
}

/** Returns the first box of this type inside `parent`. Throws if there is none. */
function findBox(bytes: Buffer, parent: { readonly start: number; readonly end: number }, type: string): Box {
  for (const box of readBoxes(bytes, parent)) if (box.type === type) return box;
  throw new Error(`it has no box ${type}`);
}

/**
 * Yields the boxes between two offsets. A box has its size (4 bytes, including this header), its type (4 bytes) and its
 * content.
 */
function* readBoxes(bytes: Buffer, { start, end }: { readonly start: number; readonly end: number }): Generator<Box> {
  for (let offset = start; offset + 8 <= end;) {
    const size = bytes.readUInt32BE(offset);
    if (size < 8) return; // to the end of the file, or larger than any of ours
    yield {
      type: bytes.toString('latin1', offset + 4, offset + 8),
      start: offset + 8,
      end: Math.min(end, offset + size),
    };
    offset += size;
  }
}

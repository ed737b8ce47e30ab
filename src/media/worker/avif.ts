import type { Orientation } from './pixels';

interface Box {
  readonly type: string;
  /** Where its content begins and ends. */
  readonly start: number;
  readonly end: number;
}

// By the quarters that it is turned against the clock; not mirrored, top and bottom swapped, left and right swapped.
const PLAIN: readonly Orientation[] = [1, 8, 3, 6];
const UPSIDE_DOWN: readonly Orientation[] = [4, 5, 2, 7];
const MIRRORED: readonly Orientation[] = [2, 7, 4, 5];

/** The names by which a file says that it holds AVIF, for the general ones that it may say first. */
const AVIF = ['avif', 'avis'];
const GENERAL = ['mif1', 'msf1', 'miaf'];

/** Whether bytes begin as an AVIF does. Its container is that of other pictures too, which are told apart by their brands. */
export function isAvif(bytes: Buffer): boolean {
  if (bytes.length < 16 || bytes.toString('latin1', 4, 8) !== 'ftyp') return false;
  const [major = '', , ...compatible] = bytes.subarray(8, Math.min(bytes.readUInt32BE(0), 1024)).toString('latin1').match(/[^]{4}/g) ?? [];
  return AVIF.includes(major) || (GENERAL.includes(major) && compatible.some((brand) => AVIF.includes(brand)));
}

/** The same under the name of an AVIF that stands still: of one that moves its decoder would look for the frames, and not take the picture beside them. */
export function stillAvif(bytes: Buffer): Buffer {
  const still = Buffer.from(bytes);
  still.write('avif', 8, 'latin1');
  return still;
}

/** The sizes of the pictures that an AVIF holds, as it says. Throws where it cannot be read, and for one without a picture that stands still. */
export function avifSizes(bytes: Buffer): readonly { readonly width: number; readonly height: number }[] {
  const all = [...boxes(bytes, child(bytes, child(bytes, metaOf(bytes), 'iprp'), 'ipco'))];
  return all.flatMap(({ type, start }) => (type === 'ispe' ? [{ width: bytes.readUInt32BE(start + 4), height: bytes.readUInt32BE(start + 8) }] : []));
}

/** How an AVIF asks to be turned and mirrored; the decoder leaves that to its caller, and EXIF does not count here. */
export function avifOrientation(bytes: Buffer): Orientation {
  try {
    return orientationOf(propertiesOfPrimary(bytes), bytes);
  } catch {
    return 1; // a box that does not hold what it should: the decoder has the last word on the rest
  }
}

function orientationOf(properties: readonly Box[], bytes: Buffer): Orientation {
  const turn = properties.find(({ type }) => type === 'irot');
  const mirror = properties.find(({ type }) => type === 'imir');
  const table = mirror ? [UPSIDE_DOWN, MIRRORED][bytes.readUInt8(mirror.start) & 1] : PLAIN;
  return table?.[turn ? bytes.readUInt8(turn.start) & 3 : 0] ?? 1;
}

/** The properties of the picture that is shown: a file may hold others, each with its own. */
function propertiesOfPrimary(bytes: Buffer): readonly Box[] {
  const inside = metaOf(bytes);
  const primary = child(bytes, inside, 'pitm');
  const id = bytes.readUInt8(primary.start) === 0 ? bytes.readUInt16BE(primary.start + 4) : bytes.readUInt32BE(primary.start + 4);
  const properties = child(bytes, inside, 'iprp');
  const all = [...boxes(bytes, child(bytes, properties, 'ipco'))];
  const indexes = associations(bytes, child(bytes, properties, 'ipma')).get(id) ?? [];
  return indexes.flatMap((index) => all[index - 1] ?? []);
}

function metaOf(bytes: Buffer): { readonly start: number; readonly end: number } {
  const { start, end } = child(bytes, { start: 0, end: bytes.length }, 'meta');
  return { start: start + 4, end };
}

/** By the number of the picture: its properties, counted from 1. */
function associations(bytes: Buffer, box: Box): Map<number, readonly number[]> {
  const found = new Map<number, readonly number[]>();
  const wideIds = bytes.readUInt8(box.start) >= 1;
  const wideIndexes = (bytes.readUInt8(box.start + 3) & 1) === 1;
  let at = box.start + 8;
  while (at < box.end) {
    const id = wideIds ? bytes.readUInt32BE(at) : bytes.readUInt16BE(at);
    at += wideIds ? 4 : 2;
    const count = bytes.readUInt8(at);
    at += 1;
    const width = wideIndexes ? 2 : 1;
    found.set(id, Array.from({ length: count }, (_, index) => bytes.readUIntBE(at + index * width, width) & (wideIndexes ? 0x7fff : 0x7f)));
    at += count * width;
  }
  return found;
}

function child(bytes: Buffer, parent: { readonly start: number; readonly end: number }, type: string): Box {
  for (const box of boxes(bytes, parent)) if (box.type === type) return box;
  throw new Error(`there is no ${type}`);
}

function* boxes(bytes: Buffer, { start, end }: { readonly start: number; readonly end: number }): Generator<Box> {
  for (let at = start; at + 8 <= end; ) {
    const size = bytes.readUInt32BE(at);
    if (size < 8) return; // to the end of the file, or larger than any of ours
    yield { type: bytes.toString('latin1', at + 4, at + 8), start: at + 8, end: Math.min(end, at + size) };
    at += size;
  }
}

import { disableTypes, imageSize, types } from 'image-size';
import { avifOrientation, avifSizes, isAvif } from './avif';
import { isJpeg, readJpeg } from './jpeg';
import type { Orientation } from './pixels';

/** The kinds of pictures that are taken. */
export type KindName = 'JPEG' | 'PNG' | 'WebP' | 'GIF' | 'AVIF';

/** What the beginning of a picture tells, before memory is taken for it. */
export interface Header {
  readonly kind: KindName;
  /** Of all pictures that the file holds. */
  readonly sizes: readonly Size[];
  /** The most pixels that one of the kind has. */
  readonly mostPixels: number;
  /** How much memory it takes to decode one pixel, as measured, and some more. */
  readonly bytesPerPixel: number;
  readonly orientation: Orientation;
}

/** In pixels. */
export interface Size {
  readonly width: number;
  readonly height: number;
}

const MOST_PIXELS = 40_000_000;
// Its decoder holds several copies, in 16 bits where the picture has more than 8, and may use 768 MiB at most.
const MOST_AVIF_PIXELS = 16_000_000;
/** Real ones have ten or so. Each costs time, and next to no bytes. */
const MOST_SCANS = 200;

const BYTES_PER_PIXEL = { onePassJpeg: 10, otherJpeg: 16, png: 12, gif: 8, webp: 20, avif: 48 } as const;
const OTHERS: Readonly<Record<string, Pick<Header, 'kind' | 'bytesPerPixel'>>> = {
  png: { kind: 'PNG', bytesPerPixel: BYTES_PER_PIXEL.png },
  gif: { kind: 'GIF', bytesPerPixel: BYTES_PER_PIXEL.gif },
  webp: { kind: 'WebP', bytesPerPixel: BYTES_PER_PIXEL.webp },
};

disableTypes(types.filter((type) => !Object.hasOwn(OTHERS, type)));

/** Reads the header; a text says what is wrong with it. Undefined for what is none of the kinds. */
export function headerOf(bytes: Buffer): Header | string | undefined {
  if (isJpeg(bytes)) return jpegHeader(bytes);
  if (isAvif(bytes)) return avifHeader(bytes);
  try {
    const { type = '', width, height } = imageSize(bytes);
    const other = OTHERS[type];
    return other && { ...other, sizes: [{ width, height }], mostPixels: MOST_PIXELS, orientation: 1 };
  } catch {
    return undefined; // of no kind that it knows, or not even its beginning is right
  }
}

function jpegHeader(bytes: Buffer): Header | string {
  const frame = readJpeg(bytes);
  if (!frame?.isWhole) return 'begins as JPEG, but its end is missing; give one that is whole';
  if (frame.channels === 4) return 'is a JPEG in the colours of print (CMYK), which browsers show in different ways; save it in RGB';
  if (frame.scans > MOST_SCANS) return `is a JPEG in ${frame.scans} passes; save it in the usual way, in at most ${MOST_SCANS}`;
  const bytesPerPixel = frame.isOnePass ? BYTES_PER_PIXEL.onePassJpeg : BYTES_PER_PIXEL.otherJpeg;
  return { kind: 'JPEG', sizes: [frame], mostPixels: MOST_PIXELS, bytesPerPixel, orientation: frame.orientation };
}

function avifHeader(bytes: Buffer): Header | string {
  try {
    const sizes = avifSizes(bytes);
    if (sizes.length > 0) return { kind: 'AVIF', sizes, mostPixels: MOST_AVIF_PIXELS, bytesPerPixel: BYTES_PER_PIXEL.avif, orientation: avifOrientation(bytes) };
  } catch {
    // told below: to its reader the beginning of a file is all that there is
  }
  return 'begins as AVIF, but does not say how large it is: it is cut off, or it moves and holds no picture that stands still; give one that does';
}

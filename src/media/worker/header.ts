import { disableTypes, imageSize, types } from 'image-size';
import { readAvifOrientation, readAvifSizes, isAvif } from './avif';
import { isJpeg, readJpegFrame } from './jpeg';
import type { Orientation } from './pixels';

/** The supported image formats. */
export type ImageFormat = 'JPEG' | 'PNG' | 'WebP' | 'GIF' | 'AVIF';

/** The properties that the header of an image declares, read before any memory is allocated for it. */
export interface Header {
  readonly format: ImageFormat;
  /** The sizes of all images in the file. */
  readonly sizes: readonly Size[];
  /** The maximum number of pixels for an image of this format. */
  readonly maxPixels: number;
  /** The memory that decoding one pixel needs, as measured, with a margin. */
  readonly bytesPerPixel: number;
  readonly orientation: Orientation;
}

/** In pixels. */
export interface Size {
  readonly width: number;
  readonly height: number;
}

const MAX_PIXELS = 40_000_000;
// Its decoder holds several copies, in 16 bits if the image has more than 8, and may use 768 MiB at most.
const MAX_AVIF_PIXELS = 16_000_000;
/** Real images have about ten. Each one costs time and hardly any bytes. */
const MAX_JPEG_SCANS = 200;

const BYTES_PER_PIXEL = { onePassJpeg: 10, otherJpeg: 16, png: 12, gif: 8, webp: 20, avif: 48 } as const;
const OTHER_FORMATS: Readonly<Record<string, Pick<Header, 'format' | 'bytesPerPixel'>>> = {
  png: { format: 'PNG', bytesPerPixel: BYTES_PER_PIXEL.png },
  gif: { format: 'GIF', bytesPerPixel: BYTES_PER_PIXEL.gif },
  webp: { format: 'WebP', bytesPerPixel: BYTES_PER_PIXEL.webp },
};

disableTypes(types.filter((type) => !Object.hasOwn(OTHER_FORMATS, type)));

/** Reads the header, or returns the reason why the image is rejected. Undefined if the format is not supported. */
export function readHeader(bytes: Buffer): Header | string | undefined {
  if (isJpeg(bytes)) return readJpegHeader(bytes);
  if (isAvif(bytes)) return readAvifHeader(bytes);
  try {
    const { type = '', width, height } = imageSize(bytes);
    const other = OTHER_FORMATS[type];
    return other && { ...other, sizes: [{ width, height }], maxPixels: MAX_PIXELS, orientation: 1 };
  } catch {
    return undefined; // an unknown format, or an invalid header
  }
}

/** Reads the header of a JPEG, or returns the reason why the image is rejected. */
function readJpegHeader(bytes: Buffer): Header | string {
  const frame = readJpegFrame(bytes);
  if (!frame?.isComplete) return 'starts like JPEG, but its end is missing: upload an intact image';
  if (frame.channels === 4) return 'is a CMYK JPEG, which browsers show in different ways: save it in RGB';
  if (frame.scans > MAX_JPEG_SCANS)
    return `is a JPEG with ${frame.scans} scans: save it without progressive encoding, with at most ${MAX_JPEG_SCANS} scans`;
  const bytesPerPixel = frame.isOnePass ? BYTES_PER_PIXEL.onePassJpeg : BYTES_PER_PIXEL.otherJpeg;
  return { format: 'JPEG', sizes: [frame], maxPixels: MAX_PIXELS, bytesPerPixel, orientation: frame.orientation };
}

/** Reads the header of an AVIF, or returns the reason why the image is rejected. */
function readAvifHeader(bytes: Buffer): Header | string {
  try {
    const sizes = readAvifSizes(bytes);
    if (sizes.length > 0)
      return {
        format: 'AVIF',
        sizes,
        maxPixels: MAX_AVIF_PIXELS,
        bytesPerPixel: BYTES_PER_PIXEL.avif,
        orientation: readAvifOrientation(bytes),
      };
  } catch {
    // reported below: its reader sees only the beginning of the file
  }
  return 'starts like AVIF, but does not declare its size because it is cut off or is an animation without a still image: upload one with a still image';
}

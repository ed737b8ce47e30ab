import { markAsStillAvif } from './avif';
import { DECODERS, encodeWebp, type Decode } from './codecs';
import { decodeGif } from './gif';
import { readHeader, type Header, type ImageFormat, type Size } from './header';
import type { WorkerReport, WorkerStart } from './messages';
import { resize, swapsDimensions, applyOrientation, type Orientation, type Pixels } from './pixels';
import { decodeWebp } from './webp';

/** The maximum length of a side, in pixels. */
const MAX_DIMENSION = 16_384;
/** More than any image within the limits needs: the limit of a decoder if the machine has more memory. */
const MAX_DECODER_BYTES = 768 * 1024 * 1024;
/** The memory of a decoder itself, without the pixels. */
const DECODER_BYTES = 32 * 1024 * 1024;

const SUPPORTED_FORMATS_HINT = 'upload a JPEG, PNG, WebP, GIF or AVIF';

interface FormatSupport {
  readonly contentType: string;
  /** Decodes an image completely, or the first frame of an animation. */
  load(maxMemory: number, consoleOutput: readonly string[]): Promise<Decode>;
}

const FORMATS: Readonly<Record<ImageFormat, FormatSupport>> = {
  JPEG: { contentType: 'image/jpeg', load: DECODERS.jpeg },
  PNG: { contentType: 'image/png', load: DECODERS.png },
  WebP: { contentType: 'image/webp', load: loadWebpDecoder },
  GIF: {
    contentType: 'image/gif',
    load: async (_maxMemory, consoleOutput) => await Promise.resolve((bytes) => decodeGif(bytes, consoleOutput)),
  },
  AVIF: { contentType: 'image/avif', load: loadAvifDecoder },
};

/** Loads the WebP decoder, extended to the first frame of an animation. */
async function loadWebpDecoder(maxMemory: number): Promise<Decode> {
  const decode = await DECODERS.webp(maxMemory);
  return (bytes) => decodeWebp(bytes, decode);
}

/** Loads the AVIF decoder, which decodes the still image even if the file is marked as an animation. */
async function loadAvifDecoder(maxMemory: number): Promise<Decode> {
  const decode = await DECODERS.avif(maxMemory);
  return (bytes) => decode(markAsStillAvif(bytes));
}

/** The limits of the check. */
type Limits = Pick<WorkerStart, 'thumbnailPixels' | 'maxMemory'>;

/** Identifies the format and creates the thumbnail. `consoleOutput`: what decoders write to the console. */
export async function processImage(
  bytes: Buffer,
  { thumbnailPixels, maxMemory }: Limits,
  consoleOutput: readonly string[],
): Promise<WorkerReport> {
  if (bytes.length === 0) return { rejectionReason: `is empty: ${SUPPORTED_FORMATS_HINT}` };
  const header = readHeader(bytes);
  if (header === undefined)
    return { rejectionReason: `is not a supported image, whatever its name says: ${SUPPORTED_FORMATS_HINT}` };
  if (typeof header === 'string') return { rejectionReason: header };
  const problem = findSizeProblem(header, header.sizes, maxMemory);
  if (problem !== undefined) return { rejectionReason: problem };
  const decoderMemory = Math.min(maxMemory + DECODER_BYTES, MAX_DECODER_BYTES);
  const pixels = await decodeImage(FORMATS[header.format], bytes, decoderMemory, consoleOutput);
  if (!pixels)
    return {
      rejectionReason: `starts like ${header.format}, but cannot be decoded because it is cut off, corrupt, or saved in an unusual way: upload an intact image`,
    };
  const decodedProblem = findSizeProblem(header, [pixels], maxMemory); // the header may be wrong
  if (decodedProblem !== undefined) return { rejectionReason: decodedProblem };
  const thumbnail = applyOrientation(resize(pixels, thumbnailPixels), header.orientation);
  return {
    image: {
      contentType: FORMATS[header.format].contentType,
      ...getShownSize(pixels, header.orientation),
      thumbnail: await encodeWebp(thumbnail, decoderMemory),
    },
  };
}

/** Decodes the image; undefined if it cannot be decoded. */
async function decodeImage(
  format: FormatSupport,
  bytes: Buffer,
  maxMemory: number,
  consoleOutput: readonly string[],
): Promise<Pixels | undefined> {
  // Outside the try block: a missing codec is not an error of the image.
  const decode = await format.load(maxMemory, consoleOutput);
  try {
    return decode(bytes);
  } catch {
    return undefined;
  }
}

/** Returns why an image is rejected because of one of these sizes; undefined if all are allowed. */
function findSizeProblem(
  { format, maxPixels, bytesPerPixel }: Header,
  sizes: readonly Size[],
  maxMemory: number,
): string | undefined {
  const maxAffordablePixels = Math.floor(maxMemory / bytesPerPixel);
  for (const { width, height } of sizes) {
    const size = `has ${width} x ${height} pixels`;
    const areSidesAllowed = width >= 1 && height >= 1 && width <= MAX_DIMENSION && height <= MAX_DIMENSION;
    if (!areSidesAllowed || width * height > maxPixels)
      return `${size}: the maximum is ${MAX_DIMENSION} on each side, and ${maxPixels} in total (${format})`;
    if (width * height > maxAffordablePixels)
      return `${size}, which need too much memory on this machine: the maximum is ${maxAffordablePixels} in total (${format})`;
  }
  return undefined;
}

function getShownSize({ width, height }: Size, orientation: Orientation): Size {
  return swapsDimensions(orientation) ? { width: height, height: width } : { width, height };
}

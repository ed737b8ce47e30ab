import { disableTypes, imageSize, types } from 'image-size';
import { avifOrientation } from './avif';
import { DECODERS, encodeWebp, type Decode } from './codecs';
import { decodeGif } from './gif';
import { readJpeg } from './jpeg';
import type { Report } from './messages';
import { shrunk, swapsSides, turned, type Orientation, type Pixels } from './pixels';
import { decodeWebp } from './webp';

/** How large a picture may be, in pixels. */
const MOST_ON_A_SIDE = 16_384;
const MOST_IN_ALL = 40_000_000;

const TAKEN = 'give a JPEG, PNG, WebP, GIF or AVIF';

interface Kind {
  readonly name: string;
  readonly contentType: string;
  /** Gives what decodes it: all of it, or the first frame of one that moves. */
  load(complaints: readonly string[]): Promise<Decode>;
}

const KINDS: Readonly<Record<string, Kind>> = {
  jpg: { name: 'JPEG', contentType: 'image/jpeg', load: DECODERS.jpeg },
  png: { name: 'PNG', contentType: 'image/png', load: DECODERS.png },
  webp: { name: 'WebP', contentType: 'image/webp', load: webpFrames },
  gif: { name: 'GIF', contentType: 'image/gif', load: async (complaints) => await Promise.resolve((bytes) => decodeGif(bytes, complaints)) },
  avif: { name: 'AVIF', contentType: 'image/avif', load: DECODERS.avif },
};

async function webpFrames(): Promise<Decode> {
  const decode = await DECODERS.webp();
  return (bytes) => decodeWebp(bytes, decode);
}

// image-size calls the kind of AVIF heif, by its container.
disableTypes(types.filter((type) => !['jpg', 'png', 'webp', 'gif', 'heif'].includes(type)));

/** Says what the bytes are, and makes the small picture. `complaints`: what decoders write to the console. */
export async function examine(bytes: Buffer, thumbnailPixels: number, complaints: readonly string[]): Promise<Report> {
  if (bytes.length === 0) return { refused: `is empty; ${TAKEN}` };
  const header = headerOf(bytes);
  const kind = KINDS[header?.type ?? ''];
  if (!header || !kind) return { refused: `is none of the pictures that are taken, whatever its name says; ${TAKEN}` };
  const problem = headerProblem(header, bytes);
  if (problem !== undefined) return { refused: problem };
  const pixels = await decoded(kind, bytes, complaints);
  if (!pixels) return { refused: `begins as ${kind.name}, but cannot be decoded: it is cut off or damaged; give one that is whole` };
  const found = sizeProblem(pixels); // a header may have lied
  if (found !== undefined) return { refused: found };
  return { picture: { contentType: kind.contentType, ...(await shown(pixels, orientationOf(header, bytes), thumbnailPixels)) } };
}

async function decoded(kind: Kind, bytes: Buffer, complaints: readonly string[]): Promise<Pixels | undefined> {
  const decode = await kind.load(complaints); // a codec that is missing is no fault of the picture
  try {
    return decode(bytes);
  } catch {
    return undefined;
  }
}

type Header = ReturnType<typeof imageSize>;

function headerOf(bytes: Buffer): Header | undefined {
  try {
    return imageSize(bytes);
  } catch {
    return undefined; // of no kind that it knows, or not even its beginning is right
  }
}

/** What can be told before memory is taken for it. */
function headerProblem(header: Header, bytes: Buffer): string | undefined {
  const { type, width, height, images = [] } = header; // an AVIF may hold several pictures
  const problems = [{ width, height }, ...images].map(sizeProblem);
  return problems.find((problem) => problem !== undefined) ?? (type === 'jpg' ? jpegProblem(bytes) : undefined);
}

function sizeProblem({ width, height }: { width: number; height: number }): string | undefined {
  if (width >= 1 && height >= 1 && width <= MOST_ON_A_SIDE && height <= MOST_ON_A_SIDE && width * height <= MOST_IN_ALL) return undefined;
  return `has ${width} x ${height} pixels; give 1 to ${MOST_ON_A_SIDE} on each side, and at most ${MOST_IN_ALL} in all`;
}

function jpegProblem(bytes: Buffer): string | undefined {
  const frame = readJpeg(bytes);
  if (!frame?.isWhole) return 'begins as JPEG, but its end is missing; give one that is whole';
  if (frame.channels === 4) return 'is a JPEG in the colours of print (CMYK), which browsers show in different ways; save it in RGB';
  return sizeProblem(frame);
}

function orientationOf({ type, orientation }: Header, bytes: Buffer): Orientation {
  if (type === 'avif') return avifOrientation(bytes);
  return orientation !== undefined && orientation >= 1 && orientation <= 8 ? (orientation as Orientation) : 1;
}

async function shown(pixels: Pixels, orientation: Orientation, thumbnailPixels: number): Promise<{ width: number; height: number; thumbnail: Uint8Array }> {
  const [width, height] = swapsSides(orientation) ? [pixels.height, pixels.width] : [pixels.width, pixels.height];
  return { width, height, thumbnail: await encodeWebp(turned(shrunk(pixels, thumbnailPixels), orientation)) };
}

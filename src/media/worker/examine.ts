import { stillAvif } from './avif';
import { DECODERS, encodeWebp, type Decode } from './codecs';
import { decodeGif } from './gif';
import { headerOf, type Header, type KindName, type Size } from './header';
import type { Report, WorkerStart } from './messages';
import { shrunk, swapsSides, turned, type Orientation, type Pixels } from './pixels';
import { decodeWebp } from './webp';

/** How long a side may be, in pixels. */
const MOST_ON_A_SIDE = 16_384;
/** More than any picture within the limits takes: what its decoder may use where the machine has more. */
const MOST_DECODER_BYTES = 768 * 1024 * 1024;
/** What a decoder takes for itself, beside the pixels. */
const DECODER_BYTES = 32 * 1024 * 1024;

const TAKEN = 'give a JPEG, PNG, WebP, GIF or AVIF';

interface Kind {
  readonly contentType: string;
  /** Gives what decodes it: all of it, or the first frame of one that moves. */
  load(mostMemory: number, complaints: readonly string[]): Promise<Decode>;
}

const KINDS: Readonly<Record<KindName, Kind>> = {
  JPEG: { contentType: 'image/jpeg', load: DECODERS.jpeg },
  PNG: { contentType: 'image/png', load: DECODERS.png },
  WebP: { contentType: 'image/webp', load: webpFrames },
  GIF: { contentType: 'image/gif', load: async (_mostMemory, complaints) => await Promise.resolve((bytes) => decodeGif(bytes, complaints)) },
  AVIF: { contentType: 'image/avif', load: stillAvifs },
};

async function webpFrames(mostMemory: number): Promise<Decode> {
  const decode = await DECODERS.webp(mostMemory);
  return (bytes) => decodeWebp(bytes, decode);
}

async function stillAvifs(mostMemory: number): Promise<Decode> {
  const decode = await DECODERS.avif(mostMemory);
  return (bytes) => decode(stillAvif(bytes));
}

/** How a picture is looked at. */
export type Limits = Pick<WorkerStart, 'thumbnailPixels' | 'mostMemory'>;

/** Says what the bytes are, and makes the small picture. `complaints`: what decoders write to the console. */
export async function examine(bytes: Buffer, { thumbnailPixels, mostMemory }: Limits, complaints: readonly string[]): Promise<Report> {
  if (bytes.length === 0) return { refused: `is empty; ${TAKEN}` };
  const header = headerOf(bytes);
  if (header === undefined) return { refused: `is none of the pictures that are taken, whatever its name says; ${TAKEN}` };
  if (typeof header === 'string') return { refused: header };
  const problem = sizeProblem(header, header.sizes, mostMemory);
  if (problem !== undefined) return { refused: problem };
  const decoderMemory = Math.min(mostMemory + DECODER_BYTES, MOST_DECODER_BYTES);
  const pixels = await decoded(KINDS[header.kind], bytes, decoderMemory, complaints);
  if (!pixels) return { refused: `begins as ${header.kind}, but cannot be decoded: it is cut off, damaged, or saved in an unusual way; give one that is whole` };
  const found = sizeProblem(header, [pixels], mostMemory); // a header may have lied
  if (found !== undefined) return { refused: found };
  const small = turned(shrunk(pixels, thumbnailPixels), header.orientation);
  return { picture: { contentType: KINDS[header.kind].contentType, ...shownSize(pixels, header.orientation), thumbnail: await encodeWebp(small, decoderMemory) } };
}

async function decoded(kind: Kind, bytes: Buffer, mostMemory: number, complaints: readonly string[]): Promise<Pixels | undefined> {
  const decode = await kind.load(mostMemory, complaints); // a codec that is missing is no fault of the picture
  try {
    return decode(bytes);
  } catch {
    return undefined;
  }
}

function sizeProblem({ kind, mostPixels, bytesPerPixel }: Header, sizes: readonly Size[], mostMemory: number): string | undefined {
  const affordable = Math.floor(mostMemory / bytesPerPixel);
  for (const { width, height } of sizes) {
    const says = `has ${width} x ${height} pixels`;
    const isSized = width >= 1 && height >= 1 && width <= MOST_ON_A_SIDE && height <= MOST_ON_A_SIDE;
    if (!isSized || width * height > mostPixels) return `${says}; give 1 to ${MOST_ON_A_SIDE} on each side, and at most ${mostPixels} in all (${kind})`;
    if (width * height > affordable) return `${says}, which take too much memory on this machine; give at most ${affordable} in all (${kind})`;
  }
  return undefined;
}

function shownSize({ width, height }: Size, orientation: Orientation): Size {
  return swapsSides(orientation) ? { width: height, height: width } : { width, height };
}

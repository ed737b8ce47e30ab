import { promisify } from 'node:util';
import { brotliCompress, constants, gzip } from 'node:zlib';

/** A content coding that answers are sent in. */
export type Encoding = 'br' | 'gzip';

// Smaller ones fit in one packet either way.
const WORTH_IT = 1024;
const REMEMBERED = 200;
// The default quality of brotli is for what is compressed once; 4 costs about as much as gzip and gives less bytes.
const BROTLI = { params: { [constants.BROTLI_PARAM_QUALITY]: 4, [constants.BROTLI_PARAM_MODE]: constants.BROTLI_MODE_TEXT } };
const [brotliAsync, gzipAsync] = [promisify(brotliCompress), promisify(gzip)];

interface Choice {
  readonly encoding: Encoding | undefined;
  /** The reader does not take it as it is. */
  readonly isNeeded: boolean;
}

const choices = new Map<string, Choice>();

/** The coding for a text of that many characters; undefined: as it is. */
export function encodingFor(acceptEncoding: string | undefined, length: number): Encoding | undefined {
  if (acceptEncoding === undefined || acceptEncoding === '') return undefined;
  const { encoding, isNeeded } = choices.get(acceptEncoding) ?? remembered(acceptEncoding);
  return isNeeded || length >= WORTH_IT ? encoding : undefined;
}

/** Compresses beside the event loop. `quality` is that of brotli; what is compressed once and sent often is worth more of it. */
export async function compressed(content: string | Buffer, encoding: Encoding, quality?: number): Promise<Buffer> {
  if (encoding === 'gzip') return await gzipAsync(content);
  return await brotliAsync(content, quality === undefined ? BROTLI : { params: { ...BROTLI.params, [constants.BROTLI_PARAM_QUALITY]: quality } });
}

function remembered(acceptEncoding: string): Choice {
  const choice = chosen(acceptEncoding);
  if (choices.size < REMEMBERED) choices.set(acceptEncoding, choice); // browsers send a few, attackers any number
  return choice;
}

function chosen(acceptEncoding: string): Choice {
  const given = new Map(acceptEncoding.toLowerCase().split(',').map(weighted));
  const any = given.get('*');
  const asItIs = given.get('identity') ?? any ?? Number.MIN_VALUE; // it is taken where nothing is said, but all that is named is liked better
  const weights: readonly (readonly [Encoding, number])[] = [['br', given.get('br') ?? any ?? 0], ['gzip', given.get('gzip') ?? any ?? 0]];
  const [best, weight] = weights.toSorted((a, b) => b[1] - a[1])[0] as readonly [Encoding, number];
  const isBetter = weight > 0 && weight >= asItIs;
  return { encoding: isBetter ? best : undefined, isNeeded: asItIs === 0 };
}

/** `gzip;q=0.5` as name and weight. */
function weighted(item: string): [string, number] {
  const [name = '', ...parameters] = item.split(';').map((part) => part.trim());
  const weight = parameters.map((one) => /^q\s*=\s*([\d.]+)$/.exec(one)?.[1]).find((one) => one !== undefined);
  const value = weight === undefined ? 1 : Number(weight);
  return [name, Number.isFinite(value) ? Math.min(value, 1) : 0];
}

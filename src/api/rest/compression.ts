import { promisify } from 'node:util';
import { brotliCompress, constants, gzip } from 'node:zlib';

/** A content coding of responses. */
export type Encoding = 'br' | 'gzip';

// In characters. Smaller responses fit in one packet without compression.
const MIN_COMPRESS_LENGTH = 1024;
const MAX_CACHED_CHOICES = 200;
// The default quality of Brotli suits static files. Quality 4 costs about as much time as gzip and gives fewer bytes.
const BROTLI = {
  params: { [constants.BROTLI_PARAM_QUALITY]: 4, [constants.BROTLI_PARAM_MODE]: constants.BROTLI_MODE_TEXT },
};
const brotliAsync = promisify(brotliCompress);
const gzipAsync = promisify(gzip);

interface Choice {
  readonly encoding: Encoding | undefined;
  /** Whether the client does not accept uncompressed responses. */
  readonly isRequired: boolean;
}

const choiceByHeader = new Map<string, Choice>();

/**
 * Returns the coding for a text of `length` characters; undefined: uncompressed. A short text is only compressed if the
 * client does not accept uncompressed responses.
 */
export function chooseEncoding(acceptEncoding: string | undefined, length: number): Encoding | undefined {
  if (acceptEncoding === undefined || acceptEncoding === '') return undefined;
  const { encoding, isRequired } = choiceByHeader.get(acceptEncoding) ?? chooseAndCache(acceptEncoding);
  return isRequired || length >= MIN_COMPRESS_LENGTH ? encoding : undefined;
}

/**
 * Compresses outside the event loop. `quality` is that of Brotli; use a higher value for content that is sent often.
 */
export async function compress(content: string | Buffer, encoding: Encoding, quality?: number): Promise<Buffer> {
  if (encoding === 'gzip') return await gzipAsync(content);
  return await brotliAsync(
    content,
    quality === undefined ? BROTLI : { params: { ...BROTLI.params, [constants.BROTLI_PARAM_QUALITY]: quality } },
  );
}

/**
 * Parses an Accept-Encoding header and caches the choice. The cache is bounded, because browsers send a few different
 * values, but an attacker can send any number.
 */
function chooseAndCache(acceptEncoding: string): Choice {
  const choice = parseChoice(acceptEncoding);
  if (choiceByHeader.size < MAX_CACHED_CHOICES) choiceByHeader.set(acceptEncoding, choice);
  return choice;
}

/** Chooses the coding with the highest weight in an Accept-Encoding header. */
function parseChoice(acceptEncoding: string): Choice {
  const weightsByName = new Map(acceptEncoding.toLowerCase().split(',').map(parseWeight));
  const defaultWeight = weightsByName.get('*');
  // `identity` means uncompressed. If it is not listed, it is acceptable, but every listed coding is preferred.
  const identityWeight = weightsByName.get('identity') ?? defaultWeight ?? Number.MIN_VALUE;
  const weights: readonly (readonly [Encoding, number])[] = [
    ['br', weightsByName.get('br') ?? defaultWeight ?? 0],
    ['gzip', weightsByName.get('gzip') ?? defaultWeight ?? 0],
  ];
  const [best, weight] = weights.toSorted((first, second) => second[1] - first[1])[0] as readonly [Encoding, number];
  const isPreferred = weight > 0 && weight >= identityWeight;
  return { encoding: isPreferred ? best : undefined, isRequired: identityWeight === 0 };
}

/** Parses `gzip;q=0.5` to its name and weight. Without `q` the weight is 1, the highest. */
function parseWeight(item: string): [string, number] {
  const [name = '', ...parameters] = item.split(';').map((part) => part.trim());
  const weight = parameters
    .map((parameter) => /^q\s*=\s*([\d.]+)$/.exec(parameter)?.[1])
    .find((value) => value !== undefined);
  const value = weight === undefined ? 1 : Number(weight);
  return [name, Number.isFinite(value) ? Math.min(value, 1) : 0];
}

import { DomainError } from '../../kernel/errors';

/** An entry of the Accept header, such as `text/*;q=0.5`. */
interface MediaRange {
  readonly type: string;
  readonly quality: number;
}

/**
 * Returns the type of `types` that the Accept header prefers: the one with the highest quality, the first of several
 * equal ones, or the first one if the header is missing. Throws not_acceptable if the header allows none of them.
 */
export function negotiateType<T extends string>(accept: string | undefined, types: readonly T[]): T {
  const ranges = (accept ?? '')
    .split(',')
    .map(parseRange)
    .filter(({ type }) => type !== '');
  let best: { readonly type: T; readonly quality: number } | undefined;
  for (const type of types) {
    const quality = ranges.length === 0 ? 1 : findQuality(type, ranges);
    if (quality > (best?.quality ?? 0)) best = { type, quality };
  }
  if (!best)
    throw new DomainError(
      'not_acceptable',
      'not_acceptable',
      `the Accept header allows none of the supported types: use ${types.join(', ')}`,
    );
  return best.type;
}

/**
 * Parses `text/*;q=0.5`. Without `q` the quality is 1, the highest. An invalid quality counts as 0, which means "not
 * accepted".
 */
function parseRange(text: string): MediaRange {
  const [type = '', ...parameters] = text.split(';').map((part) => part.trim().toLowerCase());
  const weight = parameters.find((parameter) => parameter.startsWith('q='));
  const quality = weight === undefined ? 1 : Number(weight.slice(2));
  return { type, quality: quality >= 0 && quality <= 1 ? quality : 0 };
}

/**
 * Returns the quality of a type in the most specific range that contains it: `text/event-stream`, then `text/*`, then
 * `*` for both parts; 0 (not accepted) if none does.
 */
function findQuality(type: string, ranges: readonly MediaRange[]): number {
  for (const candidate of [type, `${type.slice(0, type.indexOf('/'))}/*`, '*/*']) {
    const found = ranges.find((range) => range.type === candidate);
    if (found) return found.quality;
  }
  return 0;
}

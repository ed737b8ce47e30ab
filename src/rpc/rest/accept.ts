import { DomainError } from '../../kernel/errors';

interface Range {
  readonly type: string;
  readonly quality: number;
}

/** Which of the types the header Accept likes best, the first where it likes several as much, or says nothing. Throws not_acceptable when it allows none. */
export function preferredType<T extends string>(accept: string | undefined, types: readonly T[]): T {
  const ranges = (accept ?? '').split(',').map(rangeOf).filter(({ type }) => type !== '');
  let best: { readonly type: T; readonly quality: number } | undefined;
  for (const type of types) {
    const quality = ranges.length === 0 ? 1 : qualityOf(type, ranges);
    if (quality > (best?.quality ?? 0)) best = { type, quality };
  }
  if (!best) throw new DomainError('not_acceptable', 'not_acceptable', `the answer comes as ${types.join(' or ')}, and the header Accept allows neither; name one of them`);
  return best.type;
}

function rangeOf(text: string): Range {
  const [type = '', ...parameters] = text.split(';').map((part) => part.trim().toLowerCase());
  const weight = parameters.find((one) => one.startsWith('q='));
  const quality = weight === undefined ? 1 : Number(weight.slice(2));
  return { type, quality: quality >= 0 && quality <= 1 ? quality : 0 };
}

/** By the range that is most exact: `text/event-stream` before `text/*` before `*` of both. */
function qualityOf(type: string, ranges: readonly Range[]): number {
  for (const wanted of [type, `${type.slice(0, type.indexOf('/'))}/*`, '*/*']) {
    const found = ranges.find((range) => range.type === wanted);
    if (found) return found.quality;
  }
  return 0;
}

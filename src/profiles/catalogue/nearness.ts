import { foldName } from '../../database';

/** More of a text is not compared. */
const COMPARED = 64;
/** More letters apart is not near, however long the texts are. */
const MOST_APART = 4;
const SHORTEST_PART = 3;

/** A text as it is compared with others: folded, without what stands between its words. */
export function comparable(text: string): string {
  return foldName(text).replaceAll(/[^\p{L}\p{N}]+/gu, '').slice(0, COMPARED);
}

/**
 * How far apart two comparable texts are: 0 for equal ones, 1 where one begins with the other, 2 where it holds it, then by the letters that
 * differ. Undefined: they are not near.
 */
export function distance(a: string, b: string): number | undefined {
  if (a === b) return 0;
  const [short, long] = a.length < b.length ? [a, b] : [b, a];
  if (short.length >= SHORTEST_PART && long.includes(short)) return long.startsWith(short) ? 1 : 2;
  const most = Math.min(MOST_APART, Math.max(1, Math.floor(short.length / 3)));
  const letters = long.length - short.length > most ? undefined : lettersApart(short, long, most);
  return letters === undefined ? undefined : 2 + letters;
}

/** How many letters must be added, removed or replaced (Levenshtein); undefined: more than `most`. Only the middle of the table is filled. */
function lettersApart(a: string, b: string, most: number): number | undefined {
  let previous = Array.from({ length: b.length + 1 }, (_, at) => at);
  for (let i = 1; i <= a.length; i += 1) {
    const row = new Array<number>(b.length + 1).fill(Infinity);
    if (i <= most) row[0] = i;
    let least = row[0] as number;
    for (let j = Math.max(1, i - most); j <= Math.min(b.length, i + most); j += 1) {
      const replaced = (previous[j - 1] as number) + (a[i - 1] === b[j - 1] ? 0 : 1);
      row[j] = Math.min(replaced, (previous[j] as number) + 1, (row[j - 1] as number) + 1);
      least = Math.min(least, row[j] as number);
    }
    if (least > most) return undefined;
    previous = row;
  }
  const apart = previous[b.length] as number;
  return apart > most ? undefined : apart;
}

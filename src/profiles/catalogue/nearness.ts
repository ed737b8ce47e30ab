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
 * differ. Undefined: they are not near; a text without letters and digits is near to none.
 */
export function distance(a: string, b: string): number | undefined {
  if (a === '' || b === '') return undefined;
  if (a === b) return 0;
  const [short, long] = a.length < b.length ? [a, b] : [b, a];
  if (short.length >= SHORTEST_PART && long.includes(short)) return long.startsWith(short) ? 1 : 2;
  const letters = lettersApart(short, long, mostApart(short));
  return letters === undefined ? undefined : 2 + letters;
}

function mostApart(text: string): number {
  return text.length < 4 ? 1 : Math.min(MOST_APART, Math.max(2, Math.floor(text.length / 3)));
}

/** How many letters must be added, removed or replaced (Levenshtein); undefined: more than `most`. Only the middle of the table is filled. */
function lettersApart(short: string, long: string, most: number): number | undefined {
  if (long.length - short.length > most) return undefined;
  const far = most + 1;
  let previous = new Uint8Array(COMPARED + 1).fill(far);
  let row = new Uint8Array(COMPARED + 1).fill(far);
  for (let j = 0; j <= most; j += 1) previous[j] = j;
  for (let i = 1; i <= short.length; i += 1) {
    const [from, to] = [Math.max(1, i - most), Math.min(long.length, i + most)];
    const letter = short.charCodeAt(i - 1);
    let left = from === 1 ? lesser(i, far) : far;
    row[from - 1] = left;
    let least = left;
    for (let j = from; j <= to; j += 1) {
      const replaced = (previous[j - 1] as number) + (letter === long.charCodeAt(j - 1) ? 0 : 1);
      left = lesser(far, lesser(replaced, lesser(previous[j] as number, left) + 1));
      least = lesser(least, left);
      row[j] = left;
    }
    if (least > most) return undefined;
    [previous, row] = [row.fill(far, to + 1), previous];
  }
  const apart = previous[long.length] as number;
  return apart > most ? undefined : apart;
}

// Of two, as it is asked for hundreds of times for each text.
function lesser(a: number, b: number): number {
  return a < b ? a : b;
}

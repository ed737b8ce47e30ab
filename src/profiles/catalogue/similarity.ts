import { normalizeForSearch } from '../../database';

/** The number of characters that are compared. */
const MAX_COMPARED_LENGTH = 64;
/** The maximum number of different letters for similar texts, however long they are. */
const MAX_DISTANCE = 4;
/** A shorter text does not count as a part of another one. */
const MIN_PART_LENGTH = 3;

/** Normalizes a text for the comparison: folded, without separators between words. */
export function normalizeName(text: string): string {
  return normalizeForSearch(text)
    .replaceAll(/[^\p{L}\p{N}]+/gu, '')
    .slice(0, MAX_COMPARED_LENGTH);
}

/**
 * Computes the distance of two normalized texts: 0 for equal texts, 1 if one starts with the other, 2 if one contains
 * the other, otherwise 2 plus the number of different letters. Returns undefined if they are not similar, or if one of
 * them is empty.
 */
export function computeDistance(a: string, b: string): number | undefined {
  if (a === '' || b === '') return undefined;
  if (a === b) return 0;
  const [short, long] = a.length < b.length ? [a, b] : [b, a];
  if (short.length >= MIN_PART_LENGTH && long.includes(short)) return long.startsWith(short) ? 1 : 2;
  const letters = countDifferentLetters(short, long, getMaxDistance(short));
  return letters === undefined ? undefined : 2 + letters;
}

/** Returns how many letters may differ in similar texts; `text` is the shorter one. */
function getMaxDistance(text: string): number {
  return text.length < 4 ? 1 : Math.min(MAX_DISTANCE, Math.max(2, Math.floor(text.length / 3)));
}

/**
 * Computes the Levenshtein distance; undefined if it is more than `max`. Row i of the table contains the distances of
 * the first i letters of `short` to the starts of `long`. Only the diagonal band of width 2 * `max` + 1 is filled,
 * because all distances outside of it exceed `max`. A distance above `max` is stored as `beyond`. Two rows are enough,
 * because each row depends only on the previous one: a letter is replaced (diagonal), removed (above) or added (left).
 */
function countDifferentLetters(short: string, long: string, max: number): number | undefined {
  if (long.length - short.length > max) return undefined;
  const beyond = max + 1;
  let previous = new Uint8Array(MAX_COMPARED_LENGTH + 1).fill(beyond);
  let row = new Uint8Array(MAX_COMPARED_LENGTH + 1).fill(beyond);
  for (let j = 0; j <= max; j += 1) previous[j] = j;
  for (let i = 1; i <= short.length; i += 1) {
    const firstColumn = Math.max(1, i - max);
    const lastColumn = Math.min(long.length, i + max);
    const letter = short.charCodeAt(i - 1);
    let left = firstColumn === 1 ? min2(i, beyond) : beyond;
    row[firstColumn - 1] = left;
    let rowMin = left;
    for (let j = firstColumn; j <= lastColumn; j += 1) {
      const replaced = (previous[j - 1] as number) + (letter === long.charCodeAt(j - 1) ? 0 : 1);
      left = min2(beyond, min2(replaced, min2(previous[j] as number, left) + 1));
      rowMin = min2(rowMin, left);
      row[j] = left;
    }
    if (rowMin > max) return undefined; // a later row cannot be lower
    const reusedRow = previous;
    previous = row.fill(beyond, lastColumn + 1);
    row = reusedRow;
  }
  const total = previous[long.length] as number;
  return total > max ? undefined : total;
}

// Faster than Math.min, and called hundreds of times per text.
function min2(a: number, b: number): number {
  return a < b ? a : b;
}

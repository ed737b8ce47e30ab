/**
 * Returns the candidate that is most similar to a mistyped text, ignoring case. Undefined: none is similar, which means
 * at most two changes, or one for every three characters of a longer text.
 */
export function findNearest(text: string, candidates: readonly string[]): string | undefined {
  const target = text.toLowerCase();
  const ranked = candidates.map((candidate) => ({
    candidate,
    distance: editDistance(target, candidate.toLowerCase()),
  }));
  const [best] = ranked.toSorted((a, b) => a.distance - b.distance);
  const maxDistance = Math.max(2, Math.floor(text.length / 3));
  return best && best.distance <= maxDistance ? best.candidate : undefined;
}

/**
 * Returns the number of insertions, deletions and replacements that turn one text into the other (Levenshtein
 * distance). `row[j]` is the distance of the first `i` characters of `a` from the first `j` characters of `b`; each row
 * needs only the one before it.
 */
function editDistance(a: string, b: string): number {
  let previousRow = Array.from({ length: b.length + 1 }, (_, index) => index);
  for (let i = 1; i <= a.length; i += 1) {
    const row = [i]; // every character is deleted
    for (let j = 1; j <= b.length; j += 1) {
      const replacement = (previousRow[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1);
      const deletion = (previousRow[j] ?? 0) + 1;
      const insertion = (row[j - 1] ?? 0) + 1;
      row.push(Math.min(replacement, deletion, insertion));
    }
    previousRow = row;
  }
  return previousRow[b.length] ?? 0;
}

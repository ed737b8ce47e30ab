/** The candidate that a mistyped text most likely meant; undefined if none is near. */
export function nearest(text: string, candidates: readonly string[]): string | undefined {
  const wanted = text.toLowerCase();
  const ranked = candidates.map((candidate) => ({ candidate, distance: editDistance(wanted, candidate.toLowerCase()) }));
  const best = ranked.toSorted((a, b) => a.distance - b.distance)[0];
  return best && best.distance <= Math.max(2, Math.floor(text.length / 3)) ? best.candidate : undefined;
}

/** How many letters must be added, removed or replaced (Levenshtein). */
function editDistance(a: string, b: string): number {
  let previous = Array.from({ length: b.length + 1 }, (_, at) => at);
  for (let i = 1; i <= a.length; i += 1) {
    const row = [i];
    for (let j = 1; j <= b.length; j += 1) {
      const replaced = (previous[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1);
      row.push(Math.min(replaced, (previous[j] ?? 0) + 1, (row[j - 1] ?? 0) + 1));
    }
    previous = row;
  }
  return previous[b.length] ?? 0;
}

/**
 * Removes the oldest tenth of the entries, in the order of insertion, if there are `max` entries. Removing single
 * entries would become slow, because iterating a map skips deleted entries at its beginning.
 */
export function evictOldest(entries: Map<string, unknown> | Set<string>, max: number): void {
  if (entries.size < max) return;
  const remainingSize = Math.floor(max * 0.9);
  for (const oldestKey of entries.keys()) {
    if (entries.size <= remainingSize) return;
    entries.delete(oldestKey);
  }
}

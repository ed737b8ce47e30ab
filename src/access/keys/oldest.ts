/** Lets the oldest tenth of a full map go. One by one would cost more and more: a map steps over what was deleted at its head. */
export function dropOldest(map: Map<string, unknown>, most: number): void {
  if (map.size < most) return;
  const left = Math.floor(most * 0.9);
  for (const name of map.keys()) {
    if (map.size <= left) return;
    map.delete(name);
  }
}

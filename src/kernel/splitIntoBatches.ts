/** Splits a list into batches of at most `size` items, in order. */
export function* splitIntoBatches<Item>(items: readonly Item[], size: number): Generator<readonly Item[]> {
  for (let start = 0; start < items.length; start += size) yield items.slice(start, start + size);
}

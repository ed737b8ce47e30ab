/** The result of runSequentially. */
interface SequentialResult<Item> {
  readonly succeeded: ReadonlySet<Item>;
  /** The failed items, with the error of each. */
  readonly rejected: ReadonlyMap<Item, unknown>;
  /** The error that stopped the run; undefined if all items were tried. */
  readonly unavailable: unknown;
}

/**
 * Calls `attempt` for each item in order. `attempt` returns the error of the item, or undefined on success. Stops after
 * an error for which `isUnavailable` returns true; the items after that error are in neither result.
 */
export async function runSequentially<Item>(
  items: readonly Item[],
  attempt: (item: Item) => Promise<unknown>,
  isUnavailable: (error: unknown) => boolean,
): Promise<SequentialResult<Item>> {
  const succeeded = new Set<Item>();
  const rejected = new Map<Item, unknown>();
  for (const item of items) {
    const error = await attempt(item);
    if (error === undefined) succeeded.add(item);
    else if (isUnavailable(error)) return { succeeded, rejected, unavailable: error };
    else rejected.set(item, error);
  }
  return { succeeded, rejected, unavailable: undefined };
}

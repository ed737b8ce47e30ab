/** What came of trying many one by one. */
export interface Tried<One> {
  readonly taken: ReadonlySet<One>;
  /** With the error of each. */
  readonly refused: ReadonlyMap<One, unknown>;
  /** Why not all were tried; undefined: they were. */
  readonly away: unknown;
}

/** Tries each; `attempt` answers with the error, undefined for none. Goes no further after one that `isAway`. */
export async function oneByOne<One>(all: readonly One[], attempt: (one: One) => Promise<unknown>, isAway: (error: unknown) => boolean): Promise<Tried<One>> {
  const taken = new Set<One>();
  const refused = new Map<One, unknown>();
  for (const one of all) {
    const error = await attempt(one);
    if (error === undefined) taken.add(one);
    else if (isAway(error)) return { taken, refused, away: error };
    else refused.set(one, error);
  }
  return { taken, refused, away: undefined };
}

import type { IncompleteEntries } from './readVendor';

/** The ids of stored profiles that an import did not find in the repository, sorted. They stay stored. */
export interface SkippedEntries {
  /** Profiles that the repository does not have any more. */
  readonly gone: readonly string[];
  /** Profiles that the repository may still have, because their files could not be read. */
  readonly kept: readonly string[];
}

/**
 * Classifies stored profiles that an import did not find: unreadable ones, and those that are gone. `incomplete`: the
 * models or the vendors that were incompletely read; `getOwner` returns the model or the vendor of a profile id.
 */
export function classifySkipped(
  ids: readonly string[],
  incomplete: IncompleteEntries,
  getOwner: (id: string) => string,
): SkippedEntries {
  const incompleteOwners = new Set(incomplete.ids);
  const isKept = (id: string): boolean => incomplete.all || incompleteOwners.has(getOwner(id));
  const sorted = ids.toSorted();
  return { gone: sorted.filter((id) => !isKept(id)), kept: sorted.filter(isKept) };
}

/** Returns the brand in a profile id. */
export const getBrand = (profileId: string): string => profileId.split('/')[0] ?? '';

/** Returns the model in a profile id. */
export const getModel = (profileId: string): string => profileId.split('/')[1] ?? '';

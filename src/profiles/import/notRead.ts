import type { Unread } from './readVendor';

/** Ids of profiles that are stored and were not read, in order; they stay. */
export interface NotRead {
  /** The repository does not have them any more. */
  readonly gone: readonly string[];
  /** The repository may still have them: what they stand in could not be read. */
  readonly kept: readonly string[];
}

/** Tells what could not be read from what is gone. `ownerOf`: the model or the vendor of a profile's id, as `unread` names it. */
export function notRead(ids: readonly string[], unread: Unread, ownerOf: (id: string) => string): NotRead {
  const owners = new Set(unread.ids);
  const isKept = (id: string): boolean => unread.all || owners.has(ownerOf(id));
  const sorted = ids.toSorted();
  return { gone: sorted.filter((id) => !isKept(id)), kept: sorted.filter(isKept) };
}

/** The brand in a profile's id. */
export const brandIn = (profileId: string): string => profileId.split('/')[0] ?? '';

/** The model in a profile's id. */
export const modelIn = (profileId: string): string => profileId.split('/')[1] ?? '';

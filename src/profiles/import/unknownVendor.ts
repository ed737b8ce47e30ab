import type { ReadVendor } from './readVendor';

/** What is answered for a vendor that the repository does not have. */
export function unknownVendor(id: string, vendors: string): ReadVendor {
  return { id, name: id, otherNames: [], models: [], codecs: [], unread: { all: false, ids: [] }, warnings: [{ file: vendors, reason: `has no vendor ${JSON.stringify(id)}` }] };
}

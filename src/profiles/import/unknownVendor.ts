import type { ReadVendor } from './readVendor';

/** Returns the result for a vendor that the repository does not have. `vendorsPath`: the folder of the vendors. */
export function createUnknownVendor(id: string, vendorsPath: string): ReadVendor {
  return {
    id,
    name: id,
    otherNames: [],
    models: [],
    codecs: [],
    incompleteModels: { all: false, ids: [] },
    warnings: [{ file: vendorsPath, reason: `has no vendor ${JSON.stringify(id)}` }],
  };
}

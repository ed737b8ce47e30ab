import { posix } from 'node:path';
import { ChirpStackVendor } from './chirpStackVendor';
import { toId } from './fields';
import { createYield } from './yieldToEventLoop';
import { ImportWarnings } from './importWarnings';
import type { ImportWarning, ProfileRepository } from './readVendor';
import type { SandboxedDirectory } from './sandboxedDirectory';
import { createUnknownVendor } from './unknownVendor';
import { VendorFiles } from './vendorFiles';
import { ImportQuota, type ImportLimits } from './importQuota';

const MAX_VENDORS = 5000;
const EXAMPLE_VENDOR = 'example-vendor';

/**
 * Opens a checkout of chirpstack-device-profiles. `vendorsPath` is the path of the folder with the vendor folders,
 * relative to the checkout. `limits` apply to each vendor.
 */
export function openChirpStackProfiles(
  checkout: SandboxedDirectory,
  vendorsPath: string,
  initialWarnings: readonly ImportWarning[],
  limits: ImportLimits,
): ProfileRepository {
  const warnings = new ImportWarnings();
  const folderById = listVendorFolders(checkout, vendorsPath, warnings);
  return {
    source: 'chirpstack-device-profiles',
    vendorIds: [...folderById.keys()],
    warnings: [...initialWarnings, ...warnings.list(vendorsPath)],
    incompleteVendors: warnings.getIncompletelyRead(),
    findVendor: (idOrFolder) =>
      folderById.has(idOrFolder) ? idOrFolder : [...folderById].find(([, folder]) => folder === idOrFolder)?.[0],
    readVendor: async (id, signal) => {
      const folder = folderById.get(id);
      if (folder === undefined) return createUnknownVendor(id, vendorsPath);
      const quota = new ImportQuota(limits); // a new one for each vendor
      const files = new VendorFiles(checkout, quota);
      const vendor = new ChirpStackVendor(files, posix.join(vendorsPath, folder), id, quota);
      return await vendor.read(createYield(signal));
    },
  };
}

/** Maps the vendor ids to the names of their folders. An id is the name of the folder in the form of a profile id. */
function listVendorFolders(
  checkout: SandboxedDirectory,
  vendorsPath: string,
  warnings: ImportWarnings,
): Map<string, string> {
  const listed = checkout.list(vendorsPath, 'folders');
  if ('problem' in listed) warnings.add(vendorsPath, `${listed.problem}; nothing is imported`);
  const names =
    'value' in listed ? listed.value.filter((name) => name !== EXAMPLE_VENDOR && !name.startsWith('.')) : [];
  if ('problem' in listed || names.length > MAX_VENDORS) warnings.markAllIncompletelyRead();
  if (names.length > MAX_VENDORS)
    warnings.add(vendorsPath, `has ${names.length} folders; only the first ${MAX_VENDORS} are imported`);
  const folderById = new Map<string, string>();
  for (const name of names.slice(0, MAX_VENDORS)) {
    const path = posix.join(vendorsPath, name);
    const id = toId(name);
    if ('problem' in id) warnings.add(path, `has a name that ${id.problem}; it is not imported`);
    else if (folderById.has(id.value))
      warnings.add(
        path,
        `has the same id as the folder ${JSON.stringify(folderById.get(id.value))}; that one is imported`,
      );
    else if (checkout.has(path, 'folder')) folderById.set(id.value, name);
    else {
      warnings.add(path, 'is a link whose target is not a folder of the repository; it is not followed');
      warnings.markIncompletelyRead(id.value);
    }
  }
  return folderById;
}

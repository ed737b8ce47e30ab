import { posix } from 'node:path';
import { findFileName, toId, isTable, toList, getField, formatShortText, formatText, type Table } from './fields';
import { createYield } from './yieldToEventLoop';
import { ImportWarnings, formatNames } from './importWarnings';
import { LorawanDevicesVendor, readFields, type ListedVendor } from './lorawanDevicesVendor';
import { MAX_NAME_LENGTH, type ImportWarning, type ProfileRepository } from './readVendor';
import { createUnknownVendor } from './unknownVendor';
import type { SandboxedDirectory } from './sandboxedDirectory';
import { VendorFiles } from './vendorFiles';
import { ImportQuota, type ImportLimits } from './importQuota';

const MAX_VENDORS = 5000;

/**
 * Opens a checkout of lorawan-devices. `vendorsPath` is the path of the folder with index.yaml and the vendor folders,
 * relative to the checkout. `limits` apply to each vendor.
 */
export function openLorawanDevices(
  checkout: SandboxedDirectory,
  vendorsPath: string,
  initialWarnings: readonly ImportWarning[],
  limits: ImportLimits,
): ProfileRepository {
  const warnings = new ImportWarnings();
  const vendorById = new Map(listVendors(checkout, vendorsPath, warnings).map((vendor) => [vendor.id, vendor]));
  return {
    source: 'lorawan-devices',
    vendorIds: [...vendorById.keys()],
    warnings: [...initialWarnings, ...warnings.list(vendorsPath)],
    incompleteVendors: warnings.getIncompletelyRead(),
    findVendor: (idOrFolder) =>
      vendorById.has(idOrFolder)
        ? idOrFolder
        : [...vendorById.values()].find(({ folder }) => folder === idOrFolder)?.id,
    readVendor: async (id, signal) => {
      const vendor = vendorById.get(id);
      if (!vendor) return createUnknownVendor(id, vendorsPath);
      const quota = new ImportQuota(limits); // a new one for each vendor
      const files = new VendorFiles(checkout, quota);
      return await new LorawanDevicesVendor(files, vendorsPath, vendor, quota).read(createYield(signal));
    },
  };
}

/** Lists the vendors of the index that have a folder. One warning names the vendors without a folder. */
function listVendors(checkout: SandboxedDirectory, vendorsPath: string, warnings: ImportWarnings): ListedVendor[] {
  const indexFile = posix.join(vendorsPath, 'index.yaml');
  const index = new VendorFiles(checkout).readTable(indexFile, readFields);
  const folders = checkout.list(vendorsPath, 'folders');
  if ('problem' in index || 'problem' in folders) {
    warnings.add(
      indexFile,
      `${'problem' in index ? index.problem.reason : 'is in a folder that cannot be read'}; nothing is imported`,
    );
    warnings.markAllIncompletelyRead();
    return [];
  }
  const vendorById = new Map<string, ListedVendor>();
  const existingFolders = new Set(folders.value);
  const withoutFolder = readVendorRows(index.value, indexFile, warnings).flatMap((row) =>
    addVendor(row, indexFile, { existingFolders, vendorById, warnings }),
  );
  if (withoutFolder.length > 0)
    warnings.add(
      indexFile,
      `lists vendors without a folder, whose devices cannot be imported: ${formatNames(withoutFolder)}`,
    );
  const expectedFolders = new Set(['example', ...[...vendorById.values()].map((vendor) => vendor.folder)]);
  const unlistedFolders = folders.value.filter((name) => !expectedFolders.has(name));
  warnAboutUnlisted(unlistedFolders, checkout, vendorsPath, warnings);
  return [...vendorById.values()];
}

/**
 * Adds a vendor of the index to `vendorById`, or a warning if it is invalid. Returns its name if it has no folder,
 * otherwise an empty list.
 */
function addVendor(
  row: Table,
  indexFile: string,
  {
    existingFolders,
    vendorById,
    warnings,
  }: {
    readonly existingFolders: ReadonlySet<string>;
    readonly vendorById: Map<string, ListedVendor>;
    readonly warnings: ImportWarnings;
  },
): string[] {
  const folder = findFileName(getField(row, 'id'));
  const id = toId(folder);
  if ('problem' in id || folder === undefined)
    warnings.add(indexFile, `lists a vendor whose id ${'problem' in id ? id.problem : 'is empty'}; it is not imported`);
  else if (vendorById.has(id.value))
    warnings.add(indexFile, `lists the vendor ${JSON.stringify(id.value)} more than once; the first is imported`);
  else if (!existingFolders.has(folder)) return [folder];
  else
    vendorById.set(id.value, {
      id: id.value,
      name: formatShortText(getField(row, 'name'), MAX_NAME_LENGTH) || id.value,
      folder,
    });
  return [];
}

/** Reads the vendors in the index, at most MAX_VENDORS, without the example vendor. */
function readVendorRows(index: Table, file: string, warnings: ImportWarnings): Table[] {
  const rows = toList(getField(index, 'vendors'));
  if (rows.length === 0 || rows.length > MAX_VENDORS) warnings.markAllIncompletelyRead();
  if (rows.length === 0) warnings.add(file, 'lists no vendors; nothing is imported');
  if (rows.length > MAX_VENDORS)
    warnings.add(file, `lists ${rows.length} vendors; only the first ${MAX_VENDORS} are imported`);
  return rows
    .slice(0, MAX_VENDORS)
    .map((row) => (isTable(row) ? row : {})) // reported as a vendor without an id
    .filter((row) => formatText(getField(row, 'id')) !== 'example');
}

/** Adds one warning about the vendor folders, with an index of devices, that the index of vendors does not list. */
function warnAboutUnlisted(
  unlistedFolders: readonly string[],
  checkout: SandboxedDirectory,
  vendorsPath: string,
  warnings: ImportWarnings,
): void {
  const withIndex = unlistedFolders
    .slice(0, MAX_VENDORS)
    .filter((name) => checkout.has(posix.join(vendorsPath, name, 'index.yaml'), 'file'));
  if (withIndex.length > 0)
    warnings.add(
      posix.join(vendorsPath, 'index.yaml'),
      `does not list the vendor folders ${formatNames(withIndex)}; they are not imported`,
    );
}

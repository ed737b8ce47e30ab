import { posix } from 'node:path';
import { fileNameOf, idOf, isTable, listOf, member, shortText, textOf, type Table } from './fields';
import { givingWay } from './givingWay';
import { ImportWarnings, some } from './importWarnings';
import { LorawanDevicesVendor, readFields, type ListedVendor } from './lorawanDevicesVendor';
import { LONGEST_NAME, type ImportWarning, type ProfileRepository } from './readVendor';
import { unknownVendor } from './unknownVendor';
import type { SafeFolder } from './safeFolder';
import { VendorFiles } from './vendorFiles';
import { VendorRoom, type Most } from './vendorRoom';

const MOST_VENDORS = 5000;

/** A checkout of lorawan-devices. `vendors` is the folder that holds index.yaml and those of the vendors. */
export function lorawanDevices(folder: SafeFolder, vendors: string, before: readonly ImportWarning[], most: Most): ProfileRepository {
  const warnings = new ImportWarnings();
  const listed = new Map(listVendors(folder, vendors, warnings).map((vendor) => [vendor.id, vendor]));
  return {
    source: 'lorawan-devices',
    vendorIds: [...listed.keys()],
    warnings: [...before, ...warnings.all(vendors)],
    unread: warnings.left(),
    findVendor: (name) => (listed.has(name) ? name : [...listed.values()].find((vendor) => vendor.folder === name)?.id),
    readVendor: async (id, signal) => {
      const vendor = listed.get(id);
      const room = new VendorRoom(most);
      return vendor ? await new LorawanDevicesVendor(new VendorFiles(folder, room), vendors, vendor, room).read(givingWay(signal)) : unknownVendor(id, vendors);
    },
  };
}

/** Those of the index that have a folder; the others are counted. */
function listVendors(folder: SafeFolder, vendors: string, warnings: ImportWarnings): ListedVendor[] {
  const file = posix.join(vendors, 'index.yaml');
  const index = new VendorFiles(folder).table(file, readFields);
  const folders = folder.list(vendors, 'folders');
  if ('problem' in index || 'problem' in folders) {
    warnings.add(file, `${'problem' in index ? index.problem.reason : 'lies in a folder that cannot be read'}; nothing is imported`);
    warnings.leaves();
    return [];
  }
  const listed = new Map<string, ListedVendor>();
  const present = new Set(folders.value);
  const without = vendorRows(index.value, file, warnings).flatMap((row) => take(row, file, { present, listed, warnings }));
  if (without.length > 0) warnings.add(file, `lists vendors without a folder, which have no devices here: ${some(without)}`);
  const taken = new Set(['example', ...[...listed.values()].map((vendor) => vendor.folder)]);
  notListed(folders.value.filter((name) => !taken.has(name)), folder, vendors, warnings);
  return [...listed.values()];
}

/** Answers its name if it has no folder. */
function take(row: Table, file: string, { present, listed, warnings }: { readonly present: ReadonlySet<string>; readonly listed: Map<string, ListedVendor>; readonly warnings: ImportWarnings }): string[] {
  const name = fileNameOf(member(row, 'id'));
  const id = idOf(name);
  if ('problem' in id || name === undefined) warnings.add(file, `lists a vendor whose id ${'problem' in id ? id.problem : 'is empty'}; it is not imported`);
  else if (listed.has(id.value)) warnings.add(file, `lists the vendor ${JSON.stringify(id.value)} more than once; the first is imported`);
  else if (!present.has(name)) return [name];
  else listed.set(id.value, { id: id.value, name: shortText(member(row, 'name'), LONGEST_NAME) || id.value, folder: name });
  return [];
}

function vendorRows(index: Table, file: string, warnings: ImportWarnings): Table[] {
  const rows = listOf(member(index, 'vendors'));
  if (rows.length === 0 || rows.length > MOST_VENDORS) warnings.leaves();
  if (rows.length === 0) warnings.add(file, 'lists no vendors; nothing is imported');
  if (rows.length > MOST_VENDORS) warnings.add(file, `lists ${rows.length} vendors; the first ${MOST_VENDORS} are imported`);
  return rows.slice(0, MOST_VENDORS).map((row) => (isTable(row) ? row : {})).filter((row) => textOf(member(row, 'id')) !== 'example');
}

function notListed(names: readonly string[], folder: SafeFolder, vendors: string, warnings: ImportWarnings): void {
  const withIndex = names.slice(0, MOST_VENDORS).filter((name) => folder.has(posix.join(vendors, name, 'index.yaml'), 'file'));
  if (withIndex.length > 0) warnings.add(posix.join(vendors, 'index.yaml'), `does not list the vendor folders ${some(withIndex)}; what lies there is not imported`);
}

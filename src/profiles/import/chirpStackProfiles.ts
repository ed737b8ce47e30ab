import { posix } from 'node:path';
import { ChirpStackVendor } from './chirpStackVendor';
import { idOf } from './fields';
import { givingWay } from './givingWay';
import { ImportWarnings } from './importWarnings';
import type { ImportWarning, ProfileRepository } from './readVendor';
import type { SafeFolder } from './safeFolder';
import { unknownVendor } from './unknownVendor';
import { VendorFiles } from './vendorFiles';
import { VendorRoom, type Most } from './vendorRoom';

const MOST_VENDORS = 5000;
const EXAMPLE = 'example-vendor';

/** A checkout of chirpstack-device-profiles. `vendors` is the folder that holds those of the vendors. */
export function chirpStackProfiles(folder: SafeFolder, vendors: string, before: readonly ImportWarning[], most: Most): ProfileRepository {
  const warnings = new ImportWarnings();
  const folders = listVendors(folder, vendors, warnings);
  return {
    source: 'chirpstack-device-profiles',
    vendorIds: [...folders.keys()],
    warnings: [...before, ...warnings.all(vendors)],
    unread: warnings.left(),
    findVendor: (name) => (folders.has(name) ? name : [...folders].find(([, own]) => own === name)?.[0]),
    readVendor: async (id, signal) => {
      const name = folders.get(id);
      const room = new VendorRoom(most);
      return name === undefined ? unknownVendor(id, vendors) : await new ChirpStackVendor(new VendorFiles(folder, room), posix.join(vendors, name), id, room).read(givingWay(signal));
    },
  };
}

/** The names of the folders of vendors, by their ids. */
function listVendors(folder: SafeFolder, vendors: string, warnings: ImportWarnings): Map<string, string> {
  const listed = folder.list(vendors, 'folders');
  if ('problem' in listed) warnings.add(vendors, `${listed.problem}; nothing is imported`);
  const names = 'value' in listed ? listed.value.filter((name) => name !== EXAMPLE && !name.startsWith('.')) : [];
  if ('problem' in listed || names.length > MOST_VENDORS) warnings.leaves();
  if (names.length > MOST_VENDORS) warnings.add(vendors, `holds ${names.length} folders; the first ${MOST_VENDORS} are imported`);
  const byId = new Map<string, string>();
  for (const name of names.slice(0, MOST_VENDORS)) {
    const id = idOf(name);
    if ('problem' in id) warnings.add(posix.join(vendors, name), `has a name that ${id.problem}; it is not imported`);
    else if (byId.has(id.value)) warnings.add(posix.join(vendors, name), `has the same id as the folder ${JSON.stringify(byId.get(id.value))}; that one is imported`);
    else if (folder.has(posix.join(vendors, name), 'folder')) byId.set(id.value, name);
    else {
      warnings.add(posix.join(vendors, name), 'is a link that leads to no folder of the repository, and is not followed');
      warnings.leaves(id.value);
    }
  }
  return byId;
}

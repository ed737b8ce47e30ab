import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { openRepository, type ImportWarning, type ReadVendor } from '../../src/profiles';

const folders: string[] = [];

/** Creates an empty temporary folder. `removeFolders` removes all of them. */
export function freshFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'plantroom-profiles-'));
  folders.push(folder);
  return folder;
}

/** Call this in afterAll. */
export function removeFolders(): void {
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true });
}

/** The complete content of a checkout. */
export interface ReadFolder {
  readonly source: string;
  readonly vendors: Readonly<Record<string, ReadVendor>>;
  /** The warnings of the lists of vendors, and of all vendors. */
  readonly warnings: readonly ImportWarning[];
}

/** Reads a complete checkout, at most `max` of each vendor. */
export async function readFolder(folder: string, max?: Parameters<typeof openRepository>[1]): Promise<ReadFolder> {
  const repository = openRepository(folder, max);
  const vendors: ReadVendor[] = [];
  for (const id of repository.vendorIds) vendors.push(await repository.readVendor(id));
  return {
    source: repository.source,
    vendors: Object.fromEntries(vendors.map((vendor) => [vendor.id, vendor])),
    warnings: [...repository.warnings, ...vendors.flatMap(({ warnings }) => warnings)],
  };
}

/** Lists `model/firmware/region` of all profiles of a vendor. */
export function profileNames(vendor: ReadVendor | undefined): string[] {
  return (vendor?.models ?? []).flatMap((model) =>
    model.profiles.map((profile) => `${model.id}/${profile.firmwareVersion}/${profile.region}`),
  );
}

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { openRepository, type ImportWarning, type ReadVendor } from '../../src/profiles';

const made: string[] = [];

/** An empty temporary folder; `removeFolders` removes all. */
export function freshFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'plantroom-profiles-'));
  made.push(folder);
  return folder;
}

/** For afterAll. */
export function removeFolders(): void {
  for (const folder of made.splice(0)) rmSync(folder, { recursive: true, force: true });
}

/** All that a checkout holds. */
export interface ReadFolder {
  readonly source: string;
  readonly vendors: Readonly<Record<string, ReadVendor>>;
  /** Of the lists of vendors, and of all vendors. */
  readonly warnings: readonly ImportWarning[];
}

/** Reads all of a checkout, `most` of each vendor. */
export async function readFolder(folder: string, most?: Parameters<typeof openRepository>[1]): Promise<ReadFolder> {
  const repository = openRepository(folder, most);
  const vendors: ReadVendor[] = [];
  for (const id of repository.vendorIds) vendors.push(await repository.readVendor(id));
  return { source: repository.source, vendors: Object.fromEntries(vendors.map((vendor) => [vendor.id, vendor])), warnings: [...repository.warnings, ...vendors.flatMap(({ warnings }) => warnings)] };
}

/** `model/firmware/region` of all profiles of a vendor. */
export function profileNames(vendor: ReadVendor | undefined): string[] {
  return (vendor?.models ?? []).flatMap((model) => model.profiles.map((profile) => `${model.id}/${profile.firmwareVersion}/${profile.region}`));
}

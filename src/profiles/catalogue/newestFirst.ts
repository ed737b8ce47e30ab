import { getHardwareSuffix } from '../import/modelProfiles';
import { compareTexts, compareVersions, pickNewest, type Version, parseVersion } from './versions';

/** An item with a firmware version. */
interface FirmwareItem {
  readonly id: string;
  readonly firmwareVersion: string;
  readonly hardwareVersions: readonly string[];
}

/** The parsed versions of an item. */
interface SortKey {
  readonly id: string;
  readonly firmware: Version;
  readonly hardware: Version | undefined;
  readonly fullVersion: Version;
}

/** Sorts items by firmware, then by hardware, then by the full version, each the newest first, and finally by id. */
export function sortNewestFirst<Item extends FirmwareItem>(items: readonly Item[]): Item[] {
  const keyed = items.map((item) => ({ item, key: getSortKey(item) }));
  return keyed.toSorted((a, b) => compareSortKeys(a.key, b.key)).map(({ item }) => item);
}

/** Returns the version as the vendor writes it, without the hardware suffix that an import appends. */
export function getVendorVersion(version: string, hardwareVersions: readonly string[]): string {
  const suffix = getHardwareSuffix(hardwareVersions);
  return suffix !== '' && version.endsWith(suffix) ? version.slice(0, -suffix.length) : version;
}

/** Parses the versions of an item, once per item, because each item is compared with many others. */
function getSortKey({ id, firmwareVersion, hardwareVersions }: FirmwareItem): SortKey {
  return {
    id,
    firmware: parseVersion(getVendorVersion(firmwareVersion, hardwareVersions)),
    hardware: pickNewest(hardwareVersions),
    fullVersion: parseVersion(firmwareVersion),
  };
}

/** Orders items from the newest to the oldest. */
function compareSortKeys(a: SortKey, b: SortKey): number {
  return (
    compareVersions(b.firmware, a.firmware) ||
    compareHardware(b.hardware, a.hardware) ||
    compareVersions(b.fullVersion, a.fullVersion) ||
    compareTexts(a.id, b.id)
  );
}

/** Known hardware counts as newer than unknown hardware. */
function compareHardware(a: Version | undefined, b: Version | undefined): number {
  if (a !== undefined && b !== undefined) return compareVersions(a, b);
  return Number(a !== undefined) - Number(b !== undefined);
}

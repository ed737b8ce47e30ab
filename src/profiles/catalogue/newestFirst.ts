import { hardwareEnding } from '../import/modelProfiles';
import { compareTexts, compareVersions, newestOf, type Version, versionOf } from './versions';

/** What is of a firmware version. */
export interface OfFirmware {
  readonly id: string;
  readonly firmwareVersion: string;
  readonly hardwareVersions: readonly string[];
}

interface Age {
  readonly id: string;
  readonly firmware: Version;
  readonly hardware: Version | undefined;
  readonly whole: Version;
}

/** The newest firmware first, of one firmware the newest hardware; then by the whole version, the newest first, and equal ones by id. */
export function newestFirst<Item extends OfFirmware>(items: readonly Item[]): Item[] {
  const aged = items.map((item) => ({ item, age: ageOf(item) }));
  return aged.toSorted((a, b) => compareAges(a.age, b.age)).map(({ item }) => item);
}

/** The version without what an import put behind it, because its vendor has it for other hardware too. */
export function vendorVersionOf(version: string, hardwareVersions: readonly string[]): string {
  const ending = hardwareEnding(hardwareVersions);
  return ending !== '' && version.endsWith(ending) ? version.slice(0, -ending.length) : version;
}

// Once for each, because each is compared with many.
function ageOf({ id, firmwareVersion, hardwareVersions }: OfFirmware): Age {
  return { id, firmware: versionOf(vendorVersionOf(firmwareVersion, hardwareVersions)), hardware: newestOf(hardwareVersions), whole: versionOf(firmwareVersion) };
}

function compareAges(a: Age, b: Age): number {
  return compareVersions(b.firmware, a.firmware) || compareHardware(b.hardware, a.hardware) || compareVersions(b.whole, a.whole) || compareTexts(a.id, b.id);
}

/** Known hardware is newer than none. */
function compareHardware(a: Version | undefined, b: Version | undefined): number {
  return a === undefined || b === undefined ? Number(a !== undefined) - Number(b !== undefined) : compareVersions(a, b);
}

import type { CodecRuntime } from '../profile';
import { cut } from '../../kernel/shortened';
import { compareTexts, compareVersions, versionOf } from '../catalogue/versions';
import { idOf, textOf } from './fields';
import type { ImportWarnings } from './importWarnings';
import type { Outcome } from './outcome';
import type { RadioSettings } from './radio';
import type { ImportWarning, ReadProfile } from './readVendor';
import type { VendorRoom } from './vendorRoom';

const MOST = 500;
const LONGEST_ID = 128;

/** A firmware version of a model. */
export interface Firmware {
  readonly version: string;
  readonly hardwareVersions: readonly string[];
}

/** What a profile has beside its firmware and region. */
export interface ProfileParts {
  readonly radio: Outcome<RadioSettings, ImportWarning>;
  /** Its name; undefined: it has none. */
  readonly codec: Outcome<string | undefined, ImportWarning>;
  readonly payloadCodecRuntime: CodecRuntime;
}

/** A firmware version as a device lists it. */
export interface ListedFirmware {
  readonly version: unknown;
  readonly hardware: unknown;
}

/** What stands behind a version that a model has for older hardware already; empty: no hardware is named. It does not change where newer hardware is listed too. */
export function hardwareEnding(hardwareVersions: readonly string[]): string {
  const [oldest] = hardwareVersions.toSorted(byAge);
  return oldest === undefined ? '' : `-hw${oldest.replace(/[/\s]+/g, '-')}`;
}

/** The oldest first. */
function byAge(one: string, other: string): number {
  return compareVersions(versionOf(one), versionOf(other)) || compareTexts(one, other);
}

/** Collects the profiles of one model, no two of the same firmware version and region. */
export class ModelProfiles {
  private readonly profiles = new Map<string, ReadProfile>();
  private isFull = false;

  constructor(
    private readonly model: string,
    /** Where the model stands. */
    private readonly file: string,
    private readonly warnings: ImportWarnings,
    private readonly room: VendorRoom,
  ) {}

  /** The firmware versions of the model as their ids name them; undefined: it has no name that can be used. Of one version for several hardware, what is for the oldest has the version alone, and the others that of their hardware behind it. */
  open(listed: readonly ListedFirmware[]): (Firmware | undefined)[] {
    const all = listed.map((one) => this.read(one));
    const first = new Map<string, readonly string[]>();
    for (const one of all) if (one && isOlder(one.hardwareVersions, first.get(one.version))) first.set(one.version, one.hardwareVersions);
    return all.map((one) => one && this.named(one, hardwareEnding(first.get(one.version) ?? [])));
  }

  /** Adds the profile of a firmware version in a region, if nothing that it needs is broken. */
  add({ version, hardwareVersions }: Firmware, region: string, { radio, codec, payloadCodecRuntime }: ProfileParts): void {
    if (this.room.full !== undefined) return;
    const broken = [radio, codec].find((part) => 'problem' in part);
    if (broken && 'problem' in broken) this.lose(broken.problem);
    if ('problem' in radio || 'problem' in codec || !this.hasRoom()) return;
    const key = `${version}/${region}`;
    if (this.profiles.has(key)) this.warnings.add(this.file, `has firmware ${JSON.stringify(version)} for ${region} more than once; the first is imported`);
    else if (this.room.takeProfile()) this.profiles.set(key, { ...radio.value, region, firmwareVersion: version, hardwareVersions, payloadCodecRuntime, codec: codec.value });
  }

  /** Something of the model that is not taken. */
  drop(reason: string): void {
    this.warnings.add(this.file, reason);
    this.warnings.leaves(this.model);
  }

  /** A profile that cannot be read. */
  lose(problem: ImportWarning): void {
    this.warnings.costsProfile(problem, this.model);
  }

  /** All that can be used, in the order of the file. */
  all(): ReadProfile[] {
    if (this.profiles.size === 0) this.warnings.leaves(this.model);
    if (this.profiles.size === 0 && this.room.full === undefined) this.warnings.add(this.file, `has no profile that can be used; the model ${JSON.stringify(this.model)} is not imported`);
    return [...this.profiles.values()];
  }

  private read({ version, hardware }: ListedFirmware): Firmware | undefined {
    const name = idOf(version);
    if ('problem' in name) {
      this.drop(`has a firmware version whose name ${name.problem}; it is not imported`);
      return undefined;
    }
    const given = Array.isArray(hardware) ? hardware : [hardware ?? []].flat();
    const texts = given.flatMap((one) => textOf(one) ?? []);
    if (texts.length < given.length) this.warnings.add(this.file, `has hardwareVersions of firmware ${JSON.stringify(name.value)} that are no names; they are not used`);
    return { version: name.value, hardwareVersions: [...new Set(texts.map((one) => cut(one, LONGEST_ID)))] };
  }

  private named({ version, hardwareVersions }: Firmware, bare: string): Firmware | undefined {
    const ending = hardwareEnding(hardwareVersions);
    const name = ending === bare ? version : version + ending;
    if (name.length <= LONGEST_ID) return { version: name, hardwareVersions };
    this.drop(`has a firmware version whose name, with its hardware, is longer than ${LONGEST_ID} characters; it is not imported`);
    return undefined;
  }

  private hasRoom(): boolean {
    const hasRoom = this.profiles.size < MOST;
    if (!hasRoom) this.warnings.leaves(this.model);
    if (!hasRoom && !this.isFull) this.drop(`has more than ${MOST} profiles; the first ${MOST} are imported`);
    this.isFull ||= !hasRoom;
    return hasRoom;
  }
}

/** Whether the oldest of some hardware is older than that of other; none is older than any, for it was there before somebody named hardware. */
function isOlder(hardware: readonly string[], than: readonly string[] | undefined): boolean {
  if (than === undefined) return true;
  const [[one], [other]] = [hardware.toSorted(byAge), than.toSorted(byAge)];
  return other !== undefined && (one === undefined || byAge(one, other) < 0);
}

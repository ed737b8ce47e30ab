import type { CodecRuntime } from '../profile';
import { truncate } from '../../kernel/truncate';
import { compareTexts, compareVersions, parseVersion } from '../catalogue/versions';
import { toId, formatText } from './fields';
import type { ImportWarnings } from './importWarnings';
import type { Outcome } from '../../kernel/outcome';
import type { RadioSettings } from './radio';
import type { ImportWarning, ReadProfile } from './readVendor';
import type { ImportQuota } from './importQuota';

const MAX_PROFILES = 500;
const MAX_ID_LENGTH = 128;

/** A firmware version of a model with its hardware versions. */
export interface Firmware {
  readonly version: string;
  readonly hardwareVersions: readonly string[];
}

/** The parts of a profile besides its firmware and region. */
export interface ProfileParts {
  readonly radio: Outcome<RadioSettings, ImportWarning>;
  /** The name of the codec; undefined: the profile has none. */
  readonly codec: Outcome<string | undefined, ImportWarning>;
  readonly payloadCodecRuntime: CodecRuntime;
}

/** A firmware version as listed by a device. */
interface ListedFirmware {
  readonly version: unknown;
  readonly hardware: unknown;
}

/**
 * Returns the suffix of a firmware version that the model also has for older hardware; empty if no hardware is listed.
 * The suffix stays the same when newer hardware is added to the list.
 */
export function getHardwareSuffix(hardwareVersions: readonly string[]): string {
  const [oldest] = hardwareVersions.toSorted(compareHardwareAge);
  return oldest === undefined ? '' : `-hw${oldest.replace(/[/\s]+/g, '-')}`;
}

/** Orders hardware versions, the oldest first. */
function compareHardwareAge(a: string, b: string): number {
  return compareVersions(parseVersion(a), parseVersion(b)) || compareTexts(a, b);
}

/** Collects the profiles of one model, at most one per firmware version and region. */
export class ModelProfiles {
  private readonly profiles = new Map<string, ReadProfile>();
  private isFull = false;

  constructor(
    private readonly model: string,
    /** The file of the model. */
    private readonly file: string,
    private readonly warnings: ImportWarnings,
    private readonly quota: ImportQuota,
  ) {}

  /**
   * Returns the firmware versions of the model as the profile ids contain them; undefined for a version without a
   * usable name. If a version is listed for several hardware versions, the one for the oldest hardware has the plain
   * version, and each other one has its hardware as a suffix, for example `1.0-hw2`.
   */
  resolveFirmware(listed: readonly ListedFirmware[]): (Firmware | undefined)[] {
    const parsed = listed.map((firmware) => this.parseFirmware(firmware));
    const oldestHardwareByVersion = new Map<string, readonly string[]>();
    for (const firmware of parsed) {
      if (firmware && isOlderThan(firmware.hardwareVersions, oldestHardwareByVersion.get(firmware.version)))
        oldestHardwareByVersion.set(firmware.version, firmware.hardwareVersions);
    }
    return parsed.map(
      (firmware) =>
        firmware && this.addSuffix(firmware, getHardwareSuffix(oldestHardwareByVersion.get(firmware.version) ?? [])),
    );
  }

  /** Adds the profile of a firmware version in a region, unless a part that it needs is broken. */
  add(
    { version, hardwareVersions }: Firmware,
    region: string,
    { radio, codec, payloadCodecRuntime }: ProfileParts,
  ): void {
    if (this.quota.exceededLimit !== undefined) return;
    const brokenPart = [radio, codec].find((part) => 'problem' in part);
    if (brokenPart && 'problem' in brokenPart) this.addSkippedProfile(brokenPart.problem); // one warning per profile
    if ('problem' in radio || 'problem' in codec || !this.checkCapacity()) return;
    const key = `${version}/${region}`;
    if (this.profiles.has(key))
      this.warnings.add(
        this.file,
        `has firmware ${JSON.stringify(version)} for ${region} more than once; the first is imported`,
      );
    else if (this.quota.addProfile())
      this.profiles.set(key, {
        ...radio.value,
        region,
        firmwareVersion: version,
        hardwareVersions,
        payloadCodecRuntime,
        codec: codec.value,
      });
  }

  /** Adds a warning about a part of the model that is not imported, and marks the model as incompletely read. */
  warnAboutSkippedPart(reason: string): void {
    this.warnings.add(this.file, reason);
    this.warnings.markIncompletelyRead(this.model);
  }

  /** Adds a warning about a profile that cannot be read. */
  addSkippedProfile(problem: ImportWarning): void {
    this.warnings.addSkippedProfile(problem, this.model);
  }

  /** Lists the usable profiles in the order of the file. Without any, adds a warning that the model is not imported. */
  list(): ReadProfile[] {
    if (this.profiles.size === 0) this.warnings.markIncompletelyRead(this.model);
    if (this.profiles.size === 0 && this.quota.exceededLimit === undefined)
      this.warnings.add(this.file, `has no usable profile; the model ${JSON.stringify(this.model)} is not imported`);
    return [...this.profiles.values()];
  }

  /** Reads a firmware version; undefined, with a warning, if it has no usable name. */
  private parseFirmware({ version, hardware }: ListedFirmware): Firmware | undefined {
    const name = toId(version);
    if ('problem' in name) {
      this.warnAboutSkippedPart(`has a firmware version whose name ${name.problem}; it is not imported`);
      return undefined;
    }
    // A single value counts as a list of one, a missing value as an empty list.
    const listedHardware = Array.isArray(hardware) ? hardware : [hardware ?? []].flat();
    const hardwareNames = listedHardware.flatMap((item) => formatText(item) ?? []);
    if (hardwareNames.length < listedHardware.length)
      this.warnings.add(
        this.file,
        `has hardwareVersions of firmware ${JSON.stringify(name.value)} that are not names; they are ignored`,
      );
    return {
      version: name.value,
      hardwareVersions: [...new Set(hardwareNames.map((text) => truncate(text, MAX_ID_LENGTH)))],
    };
  }

  /** Appends the hardware suffix unless it is the one that is omitted; undefined if the name becomes too long. */
  private addSuffix({ version, hardwareVersions }: Firmware, omittedSuffix: string): Firmware | undefined {
    const suffix = getHardwareSuffix(hardwareVersions);
    const name = suffix === omittedSuffix ? version : version + suffix;
    if (name.length <= MAX_ID_LENGTH) return { version: name, hardwareVersions };
    this.warnAboutSkippedPart(
      `has a firmware version whose name, with its hardware, is longer than ${MAX_ID_LENGTH} characters; it is not imported`,
    );
    return undefined;
  }

  /** Returns whether another profile may be added. The first time that it may not, adds a warning. */
  private checkCapacity(): boolean {
    if (this.profiles.size < MAX_PROFILES) return true;
    this.warnings.markIncompletelyRead(this.model);
    if (!this.isFull)
      this.warnAboutSkippedPart(`has more than ${MAX_PROFILES} profiles; only the first ${MAX_PROFILES} are imported`);
    this.isFull = true;
    return false;
  }
}

/**
 * Returns whether the oldest version in `hardware` is older than the oldest one in `otherHardware`; true without
 * `otherHardware`. An empty list is older than any version, because vendors add hardware versions later.
 */
function isOlderThan(hardware: readonly string[], otherHardware: readonly string[] | undefined): boolean {
  if (otherHardware === undefined) return true;
  const [oldest] = hardware.toSorted(compareHardwareAge);
  const [oldestOther] = otherHardware.toSorted(compareHardwareAge);
  return oldestOther !== undefined && (oldest === undefined || compareHardwareAge(oldest, oldestOther) < 0);
}

import type { CodecRuntime } from '../profile';
import { cut } from '../../kernel/shortened';
import { idOf, listOf, textOf } from './fields';
import type { ImportWarnings } from './importWarnings';
import type { Outcome } from './outcome';
import type { RadioSettings } from './radio';
import type { ImportWarning, ReadProfile } from './readVendor';

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

/** What stands behind a version that a model has for other hardware already; empty: no hardware is named. */
export function hardwareEnding(hardwareVersions: readonly string[]): string {
  const hardware = hardwareVersions.join('-').replace(/[/\s]+/g, '-');
  return hardware === '' ? '' : `-hw${hardware}`;
}

/** Collects the profiles of one model, no two of the same firmware version and region. */
export class ModelProfiles {
  private readonly profiles = new Map<string, ReadProfile>();
  /** What hardware each version was first listed for. */
  private readonly firstHardware = new Map<string, string>();
  private isFull = false;

  constructor(
    private readonly model: string,
    /** Where the model stands. */
    private readonly file: string,
    private readonly warnings: ImportWarnings,
  ) {}

  /** A firmware version as its id names it; undefined: it has no name that can be used. The same version for other hardware gets that into its name. */
  open(version: unknown, hardware: unknown): Firmware | undefined {
    const name = idOf(version);
    if ('problem' in name) {
      this.warnings.add(this.file, `has a firmware version whose name ${name.problem}; it is not imported`);
      return undefined;
    }
    const hardwareVersions = [...new Set(listOf(hardware).flatMap((one) => textOf(one) ?? []).map((one) => cut(one, LONGEST_ID)))];
    const forHardware = hardwareEnding(hardwareVersions);
    const first = this.firstHardware.get(name.value) ?? forHardware;
    this.firstHardware.set(name.value, first);
    const another = `${name.value}${forHardware}`;
    const isAnother = forHardware !== first && forHardware !== '' && another.length <= LONGEST_ID;
    return { version: isAnother ? another : name.value, hardwareVersions };
  }

  /** Adds the profile of a firmware version in a region, if nothing that it needs is broken. */
  add({ version, hardwareVersions }: Firmware, region: string, { radio, codec, payloadCodecRuntime }: ProfileParts): void {
    const broken = [radio, codec].find((part) => 'problem' in part);
    if (broken && 'problem' in broken) this.lose(broken.problem);
    if ('problem' in radio || 'problem' in codec || !this.hasRoom()) return;
    const key = `${version}/${region}`;
    if (this.profiles.has(key)) this.warnings.add(this.file, `has firmware ${JSON.stringify(version)} for ${region} more than once; the first is imported`);
    else this.profiles.set(key, { ...radio.value, region, firmwareVersion: version, hardwareVersions, payloadCodecRuntime, codec: codec.value });
  }

  /** A profile that cannot be read. */
  lose(problem: ImportWarning): void {
    this.warnings.costsProfile(problem, this.model);
  }

  /** All that can be used, in the order of the file. */
  all(): ReadProfile[] {
    if (this.profiles.size === 0) this.warnings.add(this.file, `has no profile that can be used; the model ${JSON.stringify(this.model)} is not imported`);
    return [...this.profiles.values()];
  }

  private hasRoom(): boolean {
    const hasRoom = this.profiles.size < MOST;
    if (!hasRoom && !this.isFull) this.warnings.add(this.file, `has more than ${MOST} profiles; the first ${MOST} are imported`);
    this.isFull ||= !hasRoom;
    return hasRoom;
  }
}

import { formatSize } from './sandboxedDirectory';

/** Limits of the import of one vendor. */
export interface ImportLimits {
  readonly profiles: number;
  /** The total size of scripts and examples. */
  readonly bytes: number;
}

/**
 * Far more than any vendor needs. The limit is necessary because a small repository can reference the same file many
 * times.
 */
export const MAX_PER_VENDOR: ImportLimits = { profiles: 20_000, bytes: 64 * 1024 * 1024 };

/** Counts what is imported of a vendor, until a limit is exceeded. */
export class ImportQuota {
  private readonly used = { profiles: 0, read: 0, stored: 0 };
  private exceeded: string | undefined;

  constructor(private readonly max: ImportLimits = MAX_PER_VENDOR) {}

  /** Describes the limit that was exceeded; undefined if none was. Nothing more is accepted after that. */
  get exceededLimit(): string | undefined {
    return this.exceeded;
  }

  /** Counts a profile. Returns false if it exceeds the limit. */
  addProfile(): boolean {
    return this.add('profiles', 1, this.max.profiles, `${this.max.profiles} profiles`);
  }

  /**
   * Counts bytes of scripts that are `read`, or of a codec that is `stored` with all of its scripts. Returns false if
   * they exceed the limit.
   */
  addBytes(kind: 'read' | 'stored', bytes: number): boolean {
    return this.add(kind, bytes, this.max.bytes, `${formatSize(this.max.bytes)} of scripts and examples`);
  }

  /** Adds to a counter. The first limit that is exceeded is recorded with its description. */
  private add(kind: keyof typeof this.used, amount: number, max: number, description: string): boolean {
    this.used[kind] += amount;
    if (this.used[kind] > max) this.exceeded ??= description;
    return this.exceeded === undefined;
  }
}

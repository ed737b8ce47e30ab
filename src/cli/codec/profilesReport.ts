import type { CodecRole, DeviceCodec, ProfileSource } from '../../profiles';
import type { Example } from './example';
import type { Outcome } from './exampleRunner';

/** What a role is called. */
export const ROLE_WORDS: Readonly<Record<CodecRole, string>> = { encoder: 'encoder', decoder: 'decoder', downlinkDecoder: 'decoder of downlinks' };

/** How many codecs, and how many examples of them had which result. */
export interface Sums {
  readonly codecs: number;
  readonly passed: number;
  readonly failed: number;
  readonly skipped: number;
  /** Codecs without an example. */
  readonly noExamples: number;
}

/** The sums of one vendor in one repository. */
export interface VendorSums extends Sums {
  readonly vendor: string;
  readonly source: ProfileSource;
}

/** An example that failed. */
export interface Failure {
  readonly vendor: string;
  readonly source: ProfileSource;
  readonly codec: string;
  readonly role: CodecRole;
  /** The file of the example, seen from the repository. */
  readonly file: string;
  readonly example: string;
  readonly why: string;
  /** Milliseconds; null: it did not run. */
  readonly timeMs: number | null;
}

const NONE: Sums = { codecs: 0, passed: 0, failed: 0, skipped: 0, noExamples: 0 };

/** Counts what came of the examples by vendor, and keeps what failed. */
export class ProfilesReport {
  private readonly vendors = new Map<string, VendorSums>();
  private readonly failures: { readonly at: number; readonly failure: Failure }[] = [];

  /** Takes note of a codec with so many examples. */
  begin(codec: DeviceCodec, examples: number): void {
    this.count(codec, 'codecs');
    if (examples === 0) this.count(codec, 'noExamples');
  }

  /** Takes note of what came of an example; `at` is its place among all. */
  add(at: number, { codec, role, file, example }: { readonly codec: DeviceCodec; readonly role: CodecRole; readonly file: string; readonly example: Example }, { result, why, timeMs }: Outcome): void {
    this.count(codec, result);
    if (result !== 'failed') return;
    this.failures.push({ at, failure: { vendor: codec.brandId, source: codec.source, codec: codec.name, role, file, example: example.name, why, timeMs } });
  }

  /** The sums of all and of each vendor, by its id, and what failed, in the order of the examples. */
  result(): { sums: { all: Sums; vendors: VendorSums[] }; failures: Failure[] } {
    const order = ({ vendor, source }: VendorSums): string => `${vendor} ${source}`;
    const vendors = [...this.vendors.values()].toSorted((a, b) => (order(a) < order(b) ? -1 : 1)); // the engines order texts differently
    const all = { ...NONE };
    for (const name of Object.keys(NONE) as (keyof Sums)[]) all[name] = vendors.reduce((sum, vendor) => sum + vendor[name], 0);
    return { sums: { all, vendors }, failures: this.failures.toSorted((a, b) => a.at - b.at).map(({ failure }) => failure) };
  }

  private count({ source, brandId }: DeviceCodec, what: keyof Sums): void {
    const key = `${source}/${brandId}`;
    const sums = this.vendors.get(key) ?? { vendor: brandId, source, ...NONE };
    this.vendors.set(key, { ...sums, [what]: sums[what] + 1 });
  }
}

import type { CodecRole, DeviceCodec, ProfileSource } from '../../profiles';
import type { Example } from './example';
import type { Outcome } from './exampleRunner';

/** An example to run. */
export interface Job {
  readonly codec: DeviceCodec;
  readonly role: CodecRole;
  readonly file: string;
  readonly example: Example;
}

/** The display names of the roles. */
export const ROLE_NAMES: Readonly<Record<CodecRole, string>> = {
  encoder: 'encoder',
  decoder: 'decoder',
  downlinkDecoder: 'downlink decoder',
};

/** The number of codecs, and of their examples by result. */
export interface Totals {
  readonly codecs: number;
  readonly passed: number;
  readonly failed: number;
  readonly skipped: number;
  readonly noExamples: number;
}

/** The totals of one vendor in one repository. */
export interface VendorTotals extends Totals {
  readonly vendor: string;
  readonly source: ProfileSource;
}

/** A failed example. */
export interface ExampleFailure {
  readonly vendor: string;
  readonly source: ProfileSource;
  readonly codec: string;
  readonly role: CodecRole;
  /** The file of the example, relative to the repository. */
  readonly file: string;
  readonly example: string;
  readonly why: string;
  /** Run time in milliseconds; null if it did not run. */
  readonly timeMs: number | null;
}

const NO_TOTALS: Totals = { codecs: 0, passed: 0, failed: 0, skipped: 0, noExamples: 0 };

/** Counts results by vendor and collects failures. */
export class ProfilesReport {
  private readonly totalsByVendor = new Map<string, VendorTotals>();
  private readonly failures: { readonly index: number; readonly failure: ExampleFailure }[] = [];

  /** Registers a codec with its number of examples. */
  addCodec(codec: DeviceCodec, examples: number): void {
    this.increment(codec, 'codecs');
    if (examples === 0) this.increment(codec, 'noExamples');
  }

  /** Registers a result; `index` is the position of the example, by which failures are sorted. */
  addResult(index: number, { codec, role, file, example }: Job, { result, why, timeMs }: Outcome): void {
    this.increment(codec, result);
    if (result !== 'failed') return;
    this.failures.push({
      index,
      failure: {
        vendor: codec.brandId,
        source: codec.source,
        codec: codec.name,
        role,
        file,
        example: example.name,
        why,
        timeMs,
      },
    });
  }

  /** Returns the totals overall and per vendor (by id), and the failures in the order of the examples. */
  getResult(): { sums: { all: Totals; vendors: VendorTotals[] }; failures: ExampleFailure[] } {
    const getSortKey = ({ vendor, source }: VendorTotals): string => `${vendor} ${source}`;
    // Sorted here, because SQLite and PostgreSQL sort text differently.
    const vendors = [...this.totalsByVendor.values()].toSorted((a, b) => (getSortKey(a) < getSortKey(b) ? -1 : 1));
    const all = { ...NO_TOTALS };
    for (const counter of Object.keys(NO_TOTALS) as (keyof Totals)[])
      all[counter] = vendors.reduce((sum, vendor) => sum + vendor[counter], 0);
    return {
      sums: { all, vendors },
      failures: this.failures.toSorted((a, b) => a.index - b.index).map(({ failure }) => failure),
    };
  }

  /** Adds one to a counter of the vendor (the brand in one repository) of a codec. */
  private increment({ source, brandId }: DeviceCodec, counter: keyof Totals): void {
    const key = `${source}/${brandId}`;
    const totals = this.totalsByVendor.get(key) ?? { vendor: brandId, source, ...NO_TOTALS };
    this.totalsByVendor.set(key, { ...totals, [counter]: totals[counter] + 1 });
  }
}

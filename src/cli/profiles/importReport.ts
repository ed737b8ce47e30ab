import type { ImportedVendor, ImportWarning, NotRead, ProfileRepository, ReadVendor } from '../../profiles';
import { say, sayJson, showRecord, showTable, type OutputOptions } from '../output';
import { plainText } from '../plainText';

const MOST_WARNINGS = 50;

/** What an import did, vendor by vendor summed up. */
export class ImportReport {
  readonly source: string;
  readonly warnings: ImportWarning[];
  readonly gone: string[] = [];
  readonly kept: string[] = [];
  vendors = 0;
  devices = 0;
  created = 0;
  changed = 0;
  unchanged = 0;
  changedCodecs = 0;
  /** It ended before the last vendor. */
  isStopped = false;
  /** What ended it; undefined: nothing, or somebody who wanted it. */
  failure: Error | undefined;
  /** The vendor that it is at; undefined: none. */
  at: string | undefined;

  constructor(repository: ProfileRepository) {
    this.source = repository.source;
    this.warnings = [...repository.warnings];
  }

  /** All that are stored now and were read. */
  get profiles(): number {
    return this.created + this.changed + this.unchanged;
  }

  /** One more vendor is stored. */
  add(read: ReadVendor, imported: ImportedVendor): void {
    this.vendors += 1;
    this.devices += imported.models;
    this.created += imported.created;
    this.changed += imported.changed;
    this.unchanged += imported.unchanged;
    this.changedCodecs += imported.changedCodecs;
    this.addNotRead(imported);
    for (const warning of [...read.warnings, ...imported.warnings]) this.warnings.push(warning);
  }

  /** Profiles that are stored and were not read; there may be more of them than a call may have arguments. */
  addNotRead({ gone, kept }: NotRead): void {
    for (const id of gone) this.gone.push(id);
    for (const id of kept) this.kept.push(id);
  }

  /** Somebody wants it to end. */
  stop(): void {
    this.isStopped = true;
  }

  /** It cannot go on. An error speaks of the vendor that it was at: those before it are stored. */
  fail(error: unknown): void {
    this.stop();
    const reason = error instanceof Error ? error.message : String(error);
    this.failure = new Error(this.at === undefined ? reason : `at the vendor ${JSON.stringify(plainText(this.at, 80))}: ${reason}`, { cause: error });
  }
}

/** Shows it: the sums, then what could not be used. */
export function showReport(report: ImportReport, { json }: OutputOptions): void {
  const { source, vendors, devices, profiles, created, changed, unchanged, changedCodecs, gone, kept, warnings, isStopped } = report;
  const sums = { source, vendors, devices, profiles, new: created, changed, unchanged, changedCodecs };
  if (json) return sayJson({ ...sums, gone, kept, warnings, stopped: isStopped });
  const notRead = {
    gone: counted(gone, 'that the repository does not have any more; they stay until `plantroom profiles remove`'),
    kept: counted(kept, 'that could not be read; they stay as they were'),
  };
  showRecord({ ...sums, ...notRead, warnings: warnings.length }, {});
  if (warnings.length === 0) return;
  say('');
  showTable(warnings.slice(0, MOST_WARNINGS).map(({ file, reason }) => ({ file: plainText(file, 120), reason: plainText(reason) })), ['file', 'reason'], {});
  if (warnings.length > MOST_WARNINGS) say(`\nand ${warnings.length - MOST_WARNINGS} more warnings; --json has all of them`);
}

function counted(ids: readonly string[], which: string): string | number {
  return ids.length === 0 ? 0 : `${ids.length} ${which}`;
}

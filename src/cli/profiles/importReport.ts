import type { ImportedVendor, ImportWarning, SkippedEntries, ProfileRepository, ReadVendor } from '../../profiles';
import { print, printJson, showRecord, showTable, type OutputOptions } from '../output';
import { toPlainText } from '../plainText';

const MAX_WARNINGS = 50;

/** The totals of an import, added vendor by vendor. */
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
  /** Whether the import ended before the last vendor. */
  isStopped = false;
  /** The error that ended the import; undefined if there was none or the user stopped it. */
  failure: Error | undefined;
  /** The vendor that is being imported; undefined: none. */
  currentVendor: string | undefined;

  constructor(repository: ProfileRepository) {
    this.source = repository.source;
    this.warnings = [...repository.warnings];
  }

  /** The number of profiles that were read and are stored. */
  get profiles(): number {
    return this.created + this.changed + this.unchanged;
  }

  /** Adds the result of a vendor that was read and stored. */
  add(read: ReadVendor, imported: ImportedVendor): void {
    this.vendors += 1;
    this.devices += imported.models;
    this.created += imported.created;
    this.changed += imported.changed;
    this.unchanged += imported.unchanged;
    this.changedCodecs += imported.changedCodecs;
    this.addSkipped(imported);
    this.addWarnings([...read.warnings, ...imported.warnings]);
  }

  /** Adds warnings one by one, because the number of arguments of a call is limited. */
  addWarnings(warnings: readonly ImportWarning[]): void {
    for (const warning of warnings) this.warnings.push(warning);
  }

  /**
   * Adds the ids of stored profiles that were not read: `gone` are no longer in the repository, `kept` could not be
   * read. They are pushed one by one, because the number of arguments of a call is
   * limited.
   */
  addSkipped({ gone, kept }: SkippedEntries): void {
    for (const id of gone) this.gone.push(id);
    for (const id of kept) this.kept.push(id);
  }

  /** Marks the import as stopped. */
  stop(): void {
    this.isStopped = true;
  }

  /** Marks the import as failed. The error names the current vendor; the vendors before it are stored. */
  fail(error: unknown): void {
    this.stop();
    const reason = error instanceof Error ? error.message : String(error);
    this.failure = new Error(
      this.currentVendor === undefined
        ? reason
        : `vendor ${JSON.stringify(toPlainText(this.currentVendor, 80))}: ${reason}`,
      { cause: error },
    );
  }
}

/** Prints the totals, then the warnings. */
export function showReport(report: ImportReport, { json }: OutputOptions): void {
  const {
    source,
    vendors,
    devices,
    profiles,
    created,
    changed,
    unchanged,
    changedCodecs,
    gone,
    kept,
    warnings,
    isStopped,
  } = report;
  const totals = { source, vendors, devices, profiles, new: created, changed, unchanged, changedCodecs };
  if (json) return printJson({ ...totals, gone, kept, warnings, stopped: isStopped });
  const skipped = {
    gone: formatCount(gone, 'no longer in the repository; kept until `plantroom profiles remove`'),
    kept: formatCount(kept, 'unreadable; kept unchanged'),
  };
  showRecord({ ...totals, ...skipped, warnings: warnings.length }, {});
  if (warnings.length === 0) return;
  print('');
  showTable(
    warnings
      .slice(0, MAX_WARNINGS)
      .map(({ file, reason }) => ({ file: toPlainText(file, 120), reason: toPlainText(reason) })),
    ['file', 'reason'],
    {},
  );
  if (warnings.length > MAX_WARNINGS)
    print(`\nand ${warnings.length - MAX_WARNINGS} more warnings; use --json to see all`);
}

/** Formats the number of ids and what it means; 0 without the meaning. */
function formatCount(ids: readonly string[], description: string): string | number {
  return ids.length === 0 ? 0 : `${ids.length} ${description}`;
}

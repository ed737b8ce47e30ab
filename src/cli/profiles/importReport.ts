import type { ImportedVendor, ImportWarning, ProfileRepository, ReadVendor } from '../../profiles';
import { say, showRecord, showTable, type OutputOptions } from '../output';
import { plainText } from '../plainText';

const MOST_WARNINGS = 50;

/** What an import did, vendor by vendor summed up. */
export class ImportReport {
  readonly source: string;
  readonly warnings: ImportWarning[];
  readonly gone: string[] = [];
  vendors = 0;
  devices = 0;
  created = 0;
  changed = 0;
  unchanged = 0;
  isStopped = false;

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
    this.gone.push(...imported.gone);
    for (const warning of [...read.warnings, ...imported.warnings]) this.warnings.push(warning);
  }

  /** Profiles of brands that the repository does not have any more. */
  addGone(ids: readonly string[]): void {
    for (const id of ids) this.gone.push(id);
  }

  /** Somebody wants it to end. */
  stop(): void {
    this.isStopped = true;
  }
}

/** Shows it: the sums, then what could not be used. */
export function showReport(report: ImportReport, { json }: OutputOptions): void {
  const { source, vendors, devices, profiles, created, changed, unchanged, gone, warnings, isStopped } = report;
  const sums = { source, vendors, devices, profiles, new: created, changed, unchanged };
  if (json) return say(JSON.stringify({ ...sums, gone, warnings, stopped: isStopped }));
  showRecord({ ...sums, gone: gone.length === 0 ? 0 : `${gone.length} that the repository does not have any more; they stay until \`plantroom profiles remove\``, warnings: warnings.length }, {});
  if (warnings.length === 0) return;
  say('');
  showTable(warnings.slice(0, MOST_WARNINGS).map(({ file, reason }) => ({ file: plainText(file, 120), reason: plainText(reason) })), ['file', 'reason'], {});
  if (warnings.length > MOST_WARNINGS) say(`\nand ${warnings.length - MOST_WARNINGS} more warnings; --json has all of them`);
}

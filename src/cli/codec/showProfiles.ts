import { say, showTable } from '../output';
import { plainText } from '../plainText';
import { ROLE_WORDS, type Failure, type Sums, type VendorSums } from './profilesReport';

const MOST_FAILURES = 100;

/** Shows people the sums of each vendor, the first failures, and the sums of all. */
export function showReport({ all, vendors }: { readonly all: Sums; readonly vendors: readonly VendorSums[] }, failures: readonly Failure[]): void {
  if (vendors.length === 0) return say('There is no codec: import profiles with `plantroom profiles import <folder>` first.');
  const rows = vendors.map(({ vendor, source, codecs, passed, failed, skipped, noExamples }) => ({ vendor: plainText(vendor, 60), source, codecs, passed, failed, skipped, 'no examples': noExamples }));
  showTable(rows, ['vendor', 'source', 'codecs', 'passed', 'failed', ...(all.skipped > 0 ? (['skipped'] as const) : []), 'no examples'], {});
  if (failures.length > 0) showFailures(failures);
  const more = [all.noExamples ? `${all.noExamples} of ${all.codecs} codecs without examples` : '', all.skipped ? `${all.skipped} skipped` : ''].filter(Boolean);
  say(`\n${[`${all.passed} passed`, `${all.failed} failed`, ...more].join(', ')}`);
}

function showFailures(failures: readonly Failure[]): void {
  const shown = failures.slice(0, MOST_FAILURES).map(({ vendor, codec, role, example, why }) => ({ vendor: plainText(vendor, 60), codec: plainText(codec, 60), role: ROLE_WORDS[role], example: plainText(example, 60), why: plainText(why) }));
  say('\nWhat failed:');
  showTable(shown, ['vendor', 'codec', 'role', 'example', 'why'], {});
  const more = failures.length - shown.length;
  if (more > 0) say(`... and ${more} more; --json has all`);
}

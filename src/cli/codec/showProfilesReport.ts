import { print, showTable } from '../output';
import { toPlainText } from '../plainText';
import { ROLE_NAMES, type ExampleFailure, type Totals, type VendorTotals } from './profilesReport';

const MAX_FAILURES = 100;

/** Prints the totals of each vendor, the first failures, and the overall totals. */
export function showReport(
  { all, vendors }: { readonly all: Totals; readonly vendors: readonly VendorTotals[] },
  failures: readonly ExampleFailure[],
): void {
  if (vendors.length === 0)
    return print('No codecs found: import profiles with `plantroom profiles import <folder>` first.');
  const rows = vendors.map(({ vendor, source, codecs, passed, failed, skipped, noExamples }) => ({
    vendor: toPlainText(vendor, 60),
    source,
    codecs,
    passed,
    failed,
    skipped,
    'no examples': noExamples,
  }));
  showTable(
    rows,
    [
      'vendor',
      'source',
      'codecs',
      'passed',
      'failed',
      ...(all.skipped > 0 ? (['skipped'] as const) : []),
      'no examples',
    ],
    {},
  );
  if (failures.length > 0) showFailures(failures);
  const more = [
    all.noExamples ? `${all.noExamples} of ${all.codecs} codecs without examples` : '',
    all.skipped ? `${all.skipped} skipped` : '',
  ].filter(Boolean);
  print(`\n${[`${all.passed} passed`, `${all.failed} failed`, ...more].join(', ')}`);
}

function showFailures(failures: readonly ExampleFailure[]): void {
  const shown = failures.slice(0, MAX_FAILURES).map(({ vendor, codec, role, example, why }) => ({
    vendor: toPlainText(vendor, 60),
    codec: toPlainText(codec, 60),
    role: ROLE_NAMES[role],
    example: toPlainText(example, 60),
    why: toPlainText(why),
  }));
  print('\nFailed examples:');
  showTable(shown, ['vendor', 'codec', 'role', 'example', 'why'], {});
  const more = failures.length - shown.length;
  if (more > 0) print(`... and ${more} more; --json shows all`);
}

import { type Command, InvalidArgumentError, Option } from 'commander';
import { withTarget } from '../call/command';
import { parseIsoTime } from '../isoTime';
import { parseCommaList, parseDuration, withJson } from '../options';
import type * as exportReadings from './exportReadings';
import type { ExportFlags } from './exportReadings';

// gRPC is loaded only by the command that needs it.
const loadExport = (): typeof exportReadings => require('./exportReadings');

const ISO_TIME = /^\d{4}-\d\d-\d\d(?:T\d\d:\d\d(?::\d\d(?:\.\d{1,3})?)?(?:Z|[+-]\d\d:\d\d))?$/;

/** Adds `plantroom readings export`. */
export function addReadings(program: Command): void {
  const group = program.command('readings').description('Query and export sensor readings.');
  withTarget(
    withJson(
      group
        .command('export')
        .description('Export the readings of a time range to a file or to stdout, device by device.'),
    ),
  )
    .requiredOption(
      '--from <time>',
      'readings at or after this time: 2026-01-31, 2026-01-31T12:00Z, or a time ago such as 7d',
      parseTime,
    )
    .option('--to <time>', 'readings before this time (default: now)', parseTime)
    .option('--device <ids>', 'only these devices, comma-separated', parseCommaList)
    .option('--sensor <ids>', 'only these sensors, comma-separated', parseCommaList)
    .addOption(
      new Option('--format <format>', 'csv, or jsonl: one JSON object per line')
        .choices(['csv', 'jsonl'])
        .default('csv'),
    )
    .option('--output <file>', 'file to write; it appears only when the export is complete (default: stdout)')
    .addHelpText(
      'after',
      `
The API key needs telemetry:read, devices:read and sensors:read. --to is exclusive, so adjacent ranges do not overlap.
In CSV, text that starts with = + - @ is prefixed with ' so that spreadsheets do not run it as a formula; jsonl leaves it unchanged.

Example:
  plantroom readings export --from 2026-01-01 --to 2026-02-01 --output january.csv`,
    )
    .action((flags: ExportFlags) => loadExport().runExport(flags));
}

// Readings are not older than 1970. Unix milliseconds.
const MIN_TIME = 0;

/** Parses a day, a time or a time ago. Returns Unix milliseconds. */
function parseTime(text: string): number {
  if (!ISO_TIME.test(text)) return Date.now() - parseTimeAgo(text);
  const time = parseIsoTime(text);
  if (Number.isNaN(time)) throw new InvalidArgumentError('this day or time does not exist');
  return time;
}

/** Parses a time ago such as `7d`. Returns milliseconds. */
function parseTimeAgo(text: string): number {
  const hasUnit = /\d(?:ms|s|m|h|d)$/.test(text); // without a unit, a number could also be meant as a year
  if (!hasUnit)
    throw new InvalidArgumentError(
      'use a day such as 2026-01-31 (UTC), a time with time zone such as 2026-01-31T12:00Z or 2026-01-31T13:00+01:00, or a time ago such as 7d',
    );
  const elapsedMs = parseDuration(text);
  if (Date.now() - elapsedMs < MIN_TIME)
    throw new InvalidArgumentError('is before 1970: use a shorter time such as 365d, or a day such as 2026-01-31');
  return elapsedMs;
}

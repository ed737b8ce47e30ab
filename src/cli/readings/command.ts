import { type Command, InvalidArgumentError, Option } from 'commander';
import { withTarget } from '../call/command';
import { commaList, duration, withJson } from '../options';
import type * as exportReadings from './exportReadings';
import type { ExportFlags } from './exportReadings';

// gRPC is loaded only by the command that needs it.
const lazyExport = (): typeof exportReadings => require('./exportReadings');

const ISO = /^\d{4}-\d\d-\d\d(?:T\d\d:\d\d(?::\d\d(?:\.\d{1,3})?)?(?:Z|[+-]\d\d:\d\d))?$/;

/** Adds `plantroom readings export`. */
export function addReadings(program: Command): void {
  const group = program.command('readings').description('what sensors showed');
  withTarget(withJson(group.command('export').description('write the readings of a time to a file or to stdout, device by device')))
    .requiredOption('--from <time>', 'readings at or after this time: 2026-01-31, 2026-01-31T12:00Z, or so long ago, for example 7d', time)
    .option('--to <time>', 'readings before this time (default: now)', time)
    .option('--device <ids>', 'only these devices, with commas between', commaList)
    .option('--sensor <ids>', 'only these sensors, with commas between', commaList)
    .addOption(new Option('--format <format>', 'csv, or jsonl: one JSON object a line').choices(['csv', 'jsonl']).default('csv'))
    .option('--output <file>', 'where to write; the file is there when all of it is (default: stdout)')
    .addHelpText('after', `
The key needs telemetry:read, devices:read and sensors:read. A range ends before --to, so that exports of neighbouring ranges fit together.
In CSV a text that begins with = + - @ gets a ' in front, so that no spreadsheet takes it for a formula; jsonl shows it as it is.

Example:
  plantroom readings export --from 2026-01-01 --to 2026-02-01 --output january.csv`)
    .action((flags: ExportFlags) => lazyExport().runExport(flags));
}

// No reading is older.
const FIRST_YEAR = 0;

function time(text: string): number {
  if (!ISO.test(text)) return Date.now() - ago(text);
  const at = Date.parse(text);
  if (Number.isNaN(at)) throw new InvalidArgumentError('there is no such day or time');
  return at;
}

function ago(text: string): number {
  const isSpan = /\d(?:ms|s|m|h|d)$/.test(text);
  if (isSpan && Date.now() - duration(text) < FIRST_YEAR) throw new InvalidArgumentError('is longer ago than 1970; give a shorter time, for example 365d, or a day such as 2026-01-31');
  if (!isSpan) throw new InvalidArgumentError('give a day such as 2026-01-31 (of UTC), a time with its zone such as 2026-01-31T12:00Z or 2026-01-31T13:00+01:00, or so long ago, for example 7d');
  return duration(text);
}

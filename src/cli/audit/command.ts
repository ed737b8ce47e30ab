import { type Command, InvalidArgumentError, Option } from 'commander';
import { parseIsoTime } from '../isoTime';
import { addDataCommand } from '../options';
import type * as exportModule from './exportAudit';
import type * as listModule from './listAudit';
import type * as verifyModule from './verifyAudit';

// Loaded only by the command that needs it.
const loadList = (): typeof listModule => require('./listAudit');
const loadVerify = (): typeof verifyModule => require('./verifyAudit');
const loadExport = (): typeof exportModule => require('./exportAudit');

const OUTCOMES = ['succeeded', 'refused', 'failed', 'unknown'];
const ORGANIZATION =
  'Organization id (default: PLANTROOM_ORGANIZATION_ID, or the only organization); "none" for events without an organization, for example attempts with unknown keys';

/** Adds `plantroom audit list|verify|export|head`. */
export function addAudit(program: Command): void {
  const group = program.command('audit').description('Inspect the audit trail: changes and rejected attempts');
  addList(group);
  addDataCommand(
    group,
    'verify',
    'Verify every chain completely. Exit code 1 if an event was changed, removed or inserted.',
  )
    .option('--organization <id>', 'Verify only this chain; "none" for the chain without an organization')
    .option(
      '--expect-head <seq:hash>',
      'Check that the chain contains a head that was recorded earlier (from audit head, or audit.checkpoint in the log); requires --organization',
      parseHead,
    )
    .option('--file <path>', 'Verify an export instead of the database')
    .action((flags: verifyModule.VerifyFlags) => loadVerify().runVerify(flags));
  addDataCommand(group, 'export', 'Export a chain as JSON Lines, oldest first. Verify it with "audit verify --file".')
    .option('--organization <id>', ORGANIZATION)
    .option(
      '--from-seq <number>',
      'Continue at this sequence number: the last one of the previous export, plus one',
      parsePositiveInteger,
    )
    .option('--output <file>', 'Output file; it appears when the export is complete (default: stdout)')
    .action((flags: exportModule.ExportFlags) => loadExport().runExport(flags));
  addDataCommand(group, 'head', 'Show the head of each chain. Store it elsewhere, to detect a replaced chain.').action(
    (flags: listModule.HeadFlags) => loadList().runHead(flags),
  );
}

function addList(group: Command): void {
  addDataCommand(group, 'list', 'List events, newest first')
    .option('--organization <id>', ORGANIZATION)
    .option(
      '--from <time>',
      'Only events that started at or after this time, for example 2026-01-31 or 2026-01-31T12:00Z',
      parseTime,
    )
    .option('--to <time>', 'Only events that started before this time', parseTime)
    .option('--key <id>', 'Only events of this key')
    .option('--user <id>', 'Only events of keys of this user')
    .option(
      '--method <name>',
      'Only events of this method: its path, its name, or the command of the command line (such as "secrets rotate")',
    )
    .option('--resource <path>', 'Only this resource and the resources below it, for example devices/<id>')
    .addOption(new Option('--outcome <outcome>', 'Only this outcome').choices(OUTCOMES))
    .option('--request <request-id>', 'Only this request')
    .option('--limit <number>', 'Maximum number of events', parsePositiveInteger, 50)
    .action((flags: listModule.ListFlags) => loadList().runList(flags));
}

function parsePositiveInteger(text: string): number {
  if (!/^[1-9]\d{0,14}$/.test(text)) throw new InvalidArgumentError('must be a whole number, at least 1');
  return Number(text);
}

/** Parses a day (UTC) or a time with its zone. Returns Unix milliseconds. */
function parseTime(text: string): number {
  // Date.parse alone accepts much more, for example times without a zone.
  const milliseconds = /^\d{4}-\d\d-\d\d(?:T\d\d:\d\d(?::\d\d(?:\.\d{1,3})?)?(?:Z|[+-]\d\d:\d\d))?$/.test(text)
    ? parseIsoTime(text)
    : NaN;
  if (Number.isNaN(milliseconds))
    throw new InvalidArgumentError(
      'must be a day such as 2026-01-31 (UTC), or a time with its zone such as 2026-01-31T12:00Z',
    );
  return milliseconds;
}

/** Parses the head of a chain: the sequence number and the hash of its last event. */
function parseHead(text: string): { seq: number; hash: string } {
  const [, seq, hash] = /^(\d{1,15}):([0-9a-f]{64})$/.exec(text) ?? [];
  if (seq === undefined || hash === undefined)
    throw new InvalidArgumentError('must be a head as "audit head" shows it: a number, a colon and 64 hex digits');
  return { seq: Number(seq), hash };
}

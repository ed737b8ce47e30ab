import { type Command, InvalidArgumentError, Option } from 'commander';
import { DATA_SETTINGS, withConfig, withJson } from '../options';
import type * as exportModule from './exportAudit';
import type * as listModule from './listAudit';
import type * as verifyModule from './verifyAudit';

// Loaded only by the command that needs it.
const lazyList = (): typeof listModule => require('./listAudit');
const lazyVerify = (): typeof verifyModule => require('./verifyAudit');
const lazyExport = (): typeof exportModule => require('./exportAudit');

const OUTCOMES = ['succeeded', 'refused', 'failed', 'unknown'];
const ORGANIZATION = 'the organization (PLANTROOM_ORGANIZATION_ID; default: the only one there is); "none" for what belongs to none, for example attempts with unknown keys';

/** Adds `plantroom audit list|verify|export|head`. */
export function addAudit(program: Command): void {
  const group = program.command('audit').description('the audit trail: what was changed and what was refused');
  addList(group);
  command(group, 'verify', 'follow every chain from its beginning to its end; exit code 1 where something was changed, removed or inserted')
    .option('--organization <id>', 'only this chain; "none" for the one that belongs to no organization')
    .option('--expect <seq:hash>', 'a head that was noted earlier (audit head, or audit.head in the log) is in the chain; needs --organization', place)
    .option('--file <path>', 'verify an export instead, without the database')
    .action((flags: verifyModule.VerifyFlags) => lazyVerify().runVerify(flags));
  command(group, 'export', 'write a chain as JSON lines, oldest first, which "audit verify --file" can verify anywhere')
    .option('--organization <id>', ORGANIZATION)
    .option('--from-seq <number>', 'go on from this sequence number: what an export before ended with, and one', wholeNumber)
    .option('--output <file>', 'where to write; the file is there when all of it is (default: stdout)')
    .action((flags: exportModule.ExportFlags) => lazyExport().runExport(flags));
  command(group, 'head', 'show where each chain ends; note it elsewhere, against whoever could write a whole new chain').action((flags: listModule.HeadFlags) => lazyList().runHead(flags));
}

function addList(group: Command): void {
  command(group, 'list', 'list events, newest first')
    .option('--organization <id>', ORGANIZATION)
    .option('--from <time>', 'events that began at or after this time, for example 2026-01-31 or 2026-01-31T12:00Z', time)
    .option('--to <time>', 'events that began before this time', time)
    .option('--key <id>', 'by this key')
    .option('--user <id>', 'by keys of this person')
    .option('--method <name>', 'this method: its path, its name, or the words of the command line')
    .option('--resource <path>', 'this resource and what lies below it, for example devices/<id>')
    .addOption(new Option('--outcome <outcome>', 'with this end').choices(OUTCOMES))
    .option('--request <id>', 'of this request')
    .option('--limit <number>', 'at most so many', wholeNumber, 50)
    .action((flags: listModule.ListFlags) => lazyList().runList(flags));
}

function command(group: Command, name: string, description: string): Command {
  return withConfig(withJson(group.command(name).description(description)), DATA_SETTINGS);
}

function wholeNumber(text: string): number {
  if (!/^[1-9]\d{0,14}$/.test(text)) throw new InvalidArgumentError('give a whole number from 1 on');
  return Number(text);
}

function time(text: string): number {
  const at = /^\d{4}-\d\d-\d\d(?:T\d\d:\d\d(?::\d\d(?:\.\d{1,3})?)?(?:Z|[+-]\d\d:\d\d))?$/.test(text) ? Date.parse(text) : NaN;
  if (Number.isNaN(at)) throw new InvalidArgumentError('give a day such as 2026-01-31 (of UTC), or a time with its zone such as 2026-01-31T12:00Z');
  return at;
}

function place(text: string): { seq: number; hash: string } {
  const [, seq, hash] = /^(\d{1,15}):([0-9a-f]{64})$/.exec(text) ?? [];
  if (seq === undefined || hash === undefined) throw new InvalidArgumentError('give a head as "audit head" shows it: a number, a colon and 64 hex digits');
  return { seq: Number(seq), hash };
}

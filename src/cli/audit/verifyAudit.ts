import { createReadStream } from 'node:fs';
import { createInterface } from 'node:readline';
import type * as accessModule from '../../access';
import type { ChainCheck, ChainFault, ChainPlace } from '../../access';
import type { Core } from '../../app';
import { withCore } from '../core';
import { Reported, UsageError } from '../exit';
import type { ConfigFlags } from '../options';
import { note, sayJson, showTable } from '../output';
import { Progress } from '../progress';
import { noChain } from './noChain';

const lazyAccess = (): typeof accessModule => require('../../access');

/** What `plantroom audit verify` is given. */
export interface VerifyFlags extends ConfigFlags {
  readonly organization?: string;
  readonly expect?: ChainPlace;
  readonly file?: string;
}

/** `plantroom audit verify`: exit code 1 if anything is wrong. */
export async function runVerify(flags: VerifyFlags): Promise<void> {
  const { organization, expect, file } = flags;
  if (expect && organization === undefined && file === undefined) throw new UsageError('--expect is the head of one chain; name it with --organization');
  const checks = file === undefined ? await withCore(flags, async (core) => await verifyDatabase(core, organization, expect)) : await verifyFile(file, expect);
  const faults = checks.flatMap((check) => check.faults);
  if (flags.json) sayJson({ chains: checks.map(shown), faults: faults.map(faultShown) });
  else {
    showTable(checks.map((check) => ({ ...shown(check), verdict: verdictOn(check) })), ['organizationId', 'events', 'verdict', 'head'], flags);
    for (const { chain, seq, what, detail } of faults) note(`plantroom: ${what} in the chain of ${chain === '' ? 'no organization' : `organization ${chain}`} at ${seq}: ${detail}`);
  }
  if (faults.length > 0) throw new Reported(1);
}

async function verifyDatabase(core: Core, organization: string | undefined, expect: ChainPlace | undefined): Promise<ChainCheck[]> {
  const checks: ChainCheck[] = [];
  const named = organization === 'none' ? '' : organization;
  // A head was noted: so there was a chain, and that nothing is there of it is a fault of the trail and no mistake in the name.
  if (named !== undefined && !expect && !(await core.archive.isKnown(named))) throw noChain(named);
  for await (const chain of named === undefined ? allChains(core) : [named]) {
    const ends = await core.archive.ends(chain);
    const progress = new Progress(ends ? ends.lastSeq - ends.firstSeq + 1 : 0, process.stderr);
    checks.push(await core.archive.check(chain, expect, (events) => progress.reached(events, chain)));
    progress.clear();
  }
  return checks;
}

async function* allChains(core: Core): AsyncGenerator<string> {
  yield* core.archive.chains();
  yield* core.archive.organizationsWithout();
}

/** An export holds one chain, in as many parts as it was written in. */
async function verifyFile(file: string, expect: ChainPlace | undefined): Promise<ChainCheck[]> {
  const { ChainCheck: Check, readLine } = lazyAccess();
  let check: ChainCheck | undefined;
  let before: ExportLine;
  let number = 0;
  for await (const line of createInterface({ input: createReadStream(file) })) {
    number += 1;
    const found = readLine(line);
    if (check) takeLine(check, found, before, number);
    else if (found && 'head' in found) check = new Check(found.head.chain, found.head.after, expect);
    else throw new Error(`--file ${file} does not begin with the first line of an export; give the whole of a file that "plantroom audit export" wrote`);
    before = found;
  }
  if (!check) throw new Error(`--file ${file} is empty; give a file that "plantroom audit export" wrote`);
  if (!isEnd(before)) check.checkCut();
  check.checkExpected();
  return [check];
}

type ExportLine = ReturnType<typeof accessModule.readLine>;

const isEnd = (line: ExportLine): boolean => line !== undefined && 'end' in line;

function takeLine(check: ChainCheck, line: ExportLine, before: ExportLine, number: number): void {
  if (!line) return check.spoilt(`line ${number} is no line of an export, or not as it was written`);
  if ('head' in line) return check.checkGoesOn(line.head.chain, line.head.after);
  if (isEnd(before)) check.spoilt(`line ${number} stands behind the end of a part, and no line says what it goes on from`);
  if ('row' in line) return check.take(line.row);
  check.checkEnd(line.end.chain === check.chain ? line.end.end : undefined, check.head.seq > line.end.end.seq);
}

function shown({ chain, from, events, head, faults }: ChainCheck) {
  return { organizationId: chain, from, events, head: headText(head), whole: faults.length === 0 };
}

/** A chain whose beginning is not there is whole only from where it begins. */
function verdictOn({ from, faults }: ChainCheck): string {
  if (faults.length > 0) return 'NOT WHOLE';
  return from === 1 ? 'whole' : `whole from ${from} on`;
}

const headText = ({ seq, hash }: ChainPlace): string => `${seq}:${hash}`;

function faultShown({ chain, seq, what, detail }: ChainFault) {
  return { organizationId: chain, sequence: seq, what, detail };
}

import { createReadStream } from 'node:fs';
import { createInterface } from 'node:readline';
import type * as accessModule from '../../access';
import type { ChainCheck, ChainFault, ChainPlace } from '../../access';
import type { Core } from '../../app';
import { withCore } from '../core';
import { Reported, UsageError } from '../exit';
import type { ConfigFlags } from '../options';
import { note, say, showTable } from '../output';
import { Progress } from '../progress';

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
  if (flags.json) say(JSON.stringify({ chains: checks.map(({ chain, events, head }) => ({ organizationId: chain, events, head: headText(head) })), faults: faults.map(faultShown) }));
  else {
    showTable(checks.map(({ chain, events, head, faults: { length } }) => ({ organizationId: chain, events, head: headText(head), verdict: length === 0 ? 'whole' : 'NOT WHOLE' })), ['organizationId', 'events', 'verdict', 'head'], flags);
    for (const { chain, seq, what, detail } of faults) note(`plantroom: ${what} in the chain of ${chain === '' ? 'no organization' : `organization ${chain}`} at ${seq}: ${detail}`);
  }
  if (faults.length > 0) throw new Reported(1);
}

async function verifyDatabase(core: Core, organization: string | undefined, expect: ChainPlace | undefined): Promise<ChainCheck[]> {
  const checks: ChainCheck[] = [];
  const chains = organization === undefined ? core.archive.chains() : [organization === 'none' ? '' : organization];
  for await (const chain of chains) {
    const ends = await core.archive.ends(chain);
    const progress = new Progress(ends ? ends.lastSeq - ends.firstSeq + 1 : 0, process.stderr);
    checks.push(await core.archive.check(chain, expect, (events) => progress.reached(events, chain)));
    progress.clear();
  }
  return checks;
}

/** An export holds one chain, in as many parts as it was written in. */
async function verifyFile(file: string, expect: ChainPlace | undefined): Promise<ChainCheck[]> {
  const { ChainCheck: Check, readLine } = lazyAccess();
  let check: ChainCheck | undefined;
  let end: ChainPlace | undefined;
  let number = 0;
  for await (const line of createInterface({ input: createReadStream(file) })) {
    number += 1;
    const found = readLine(line);
    if (!found) throw new UsageError(`--file ${file}: line ${number} is no line of an export; give a file that "plantroom audit export" wrote`);
    if ('head' in found) check ??= new Check(found.head.chain, found.head.after, expect);
    else if (!check) throw new UsageError(`--file ${file} does not begin with the first line of an export; give the whole file`);
    else if ('row' in found) check.take(found.row);
    else end = found.end.end;
  }
  if (!check) throw new UsageError(`--file ${file} is empty; give a file that "plantroom audit export" wrote`);
  if (end) check.checkEnd(end, check.head.seq > end.seq);
  else note(`plantroom: the export ends at ${check.head.seq} before its end; go on with --from-seq ${check.head.seq + 1}`);
  check.checkExpected();
  return [check];
}

const headText = ({ seq, hash }: ChainPlace): string => `${seq}:${hash}`;

function faultShown({ chain, seq, what, detail }: ChainFault) {
  return { organizationId: chain, sequence: seq, what, detail };
}

import type * as accessModule from '../../access';
import type { Core } from '../../app';
import { withCore } from '../core';
import { UsageError } from '../exit';
import type { ConfigFlags } from '../options';
import { showRecord } from '../output';
import { Progress } from '../progress';
import { fileTarget, requireWritable, stdoutTarget, type ExportTarget } from '../readings/exportTarget';
import { chainOf } from './listAudit';
import { noChain } from './noChain';

const lazyAccess = (): typeof accessModule => require('../../access');

/** What `plantroom audit export` is given. */
export interface ExportFlags extends ConfigFlags {
  readonly organization?: string;
  readonly fromSeq?: number;
  readonly output?: string;
}

/** `plantroom audit export`: some hundred events at a time, so that it takes no more memory for more of them. */
export async function runExport(flags: ExportFlags): Promise<void> {
  const { output } = flags;
  if (flags.json && output === undefined) throw new UsageError('--json tells how it went on stdout, where the events go too; give --output');
  if (output !== undefined) await requireWritable(output);
  const exported = await withCore(flags, async (core) => {
    const chain = await chainOf(core, flags.organization);
    const target = output === undefined ? stdoutTarget(new AbortController().signal) : await fileTarget(output, 'the events');
    try {
      const written = await writeChain(core, chain, flags.fromSeq, target);
      await target.finish();
      return written;
    } catch (error) {
      await target.discard();
      throw error;
    }
  });
  if (output !== undefined) showRecord({ output, ...exported }, flags);
}

async function writeChain(core: Core, chain: string, fromSeq: number | undefined, target: ExportTarget): Promise<{ organizationId: string; events: number; head: string }> {
  const { endLineOf, headLineOf, lineOf } = lazyAccess();
  const ends = await core.archive.ends(chain);
  if (!ends) throw noChain(chain);
  const first = Math.max(fromSeq ?? ends.firstSeq, ends.firstSeq);
  const after = first === ends.firstSeq ? { seq: first - 1, hash: ends.firstPrevious } : await core.archive.place(chain, first - 1);
  if (!after) throw new UsageError(`--from-seq ${first} is behind the end of the chain, ${ends.lastSeq}; there is nothing to go on with`);
  const progress = new Progress(ends.lastSeq - first + 1, process.stderr);
  let events = 0;
  let last = after;
  await target.write(`${headLineOf({ chain, after })}\n`);
  for await (const rows of core.archive.rows(chain, first)) {
    const wanted = rows.filter(({ seq }) => seq <= ends.lastSeq);
    await target.write(wanted.map((row) => `${lineOf(row)}\n`).join(''));
    events += wanted.length;
    last = wanted.at(-1) ?? last;
    progress.reached(events, chain);
    if (wanted.length < rows.length) break;
  }
  await target.write(`${endLineOf({ chain, end: last })}\n`);
  progress.clear();
  return { organizationId: chain, events, head: `${last.seq}:${last.hash}` };
}

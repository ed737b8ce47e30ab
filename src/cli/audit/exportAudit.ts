import type * as accessModule from '../../access';
import type { AdminContext } from '../../server';
import { withAdminContext } from '../core';
import { UsageError } from '../exit';
import type { ConfigFlags } from '../options';
import { showRecord } from '../output';
import { Progress } from '../progress';
import { openFileTarget, assertWritable, createStdoutTarget, type ExportTarget } from '../readings/exportTarget';
import { getChain } from './listAudit';
import { auditChainNotFound } from './auditChainNotFound';

const loadAccess = (): typeof accessModule => require('../../access');

/** Options of `plantroom audit export`. */
export interface ExportFlags extends ConfigFlags {
  readonly organization?: string;
  readonly fromSeq?: number;
  readonly output?: string;
}

/** Runs `plantroom audit export`. Reads in batches, so that memory use is constant. */
export async function runExport(flags: ExportFlags): Promise<void> {
  const { output } = flags;
  if (flags.json && output === undefined)
    throw new UsageError('--json prints a summary to stdout, where the events are also written. Add --output FILE.');
  if (output !== undefined) await assertWritable(output);
  const exported = await withAdminContext(flags, async (admin) => {
    const chain = await getChain(admin, flags.organization);
    const target =
      output === undefined
        ? createStdoutTarget(new AbortController().signal) // never aborts: a signal ends the process
        : await openFileTarget(output, 'the events');
    try {
      const written = await writeChain(admin, chain, flags.fromSeq, target);
      await target.finish();
      return written;
    } catch (error) {
      await target.discard();
      throw error;
    }
  });
  if (output !== undefined) showRecord({ output, ...exported }, flags);
}

/**
 * Writes the events of a chain (the events of one organization, each linked to the previous one by its hash) as of now,
 * between a head line and an end line. Returns the position of the last event as the new head.
 */
async function writeChain(
  admin: AdminContext,
  chain: string,
  fromSeq: number | undefined,
  target: ExportTarget,
): Promise<{ organizationId: string; events: number; head: string }> {
  const { formatEndLine, formatHeadLine, formatLine } = loadAccess();
  const ends = await admin.archive.readEnds(chain);
  if (!ends) throw auditChainNotFound(chain);
  const firstSeq = Math.max(fromSeq ?? ends.firstSeq, ends.firstSeq);
  // The position before the first exported event, which links the export to the previous part of the chain.
  const previousPosition =
    firstSeq === ends.firstSeq
      ? { seq: firstSeq - 1, hash: ends.firstPrevious }
      : await admin.archive.findPosition(chain, firstSeq - 1);
  if (!previousPosition)
    throw new UsageError(
      `--from-seq ${firstSeq} is after the end of the chain (${ends.lastSeq}): there are no events to export`,
    );
  const progress = new Progress(ends.lastSeq - firstSeq + 1, process.stderr);
  let events = 0;
  let lastPosition = previousPosition;
  await target.write(`${formatHeadLine({ chain, after: previousPosition })}\n`);
  for await (const rows of admin.archive.readRows(chain, firstSeq)) {
    const batch = rows.filter(({ seq }) => seq <= ends.lastSeq);
    await target.write(batch.map((row) => `${formatLine(row)}\n`).join(''));
    events += batch.length;
    lastPosition = batch.at(-1) ?? lastPosition;
    progress.reached(events, chain);
    if (batch.length < rows.length) break; // the other rows were added after the ends were read
  }
  await target.write(`${formatEndLine({ chain, end: lastPosition })}\n`);
  progress.clear();
  return { organizationId: chain, events, head: `${lastPosition.seq}:${lastPosition.hash}` };
}

import { createReadStream } from 'node:fs';
import { createInterface } from 'node:readline';
import type * as accessModule from '../../access';
import type { ChainVerifier, ChainPosition } from '../../access';
import type { AdminContext } from '../../server';
import { withAdminContext } from '../core';
import { AlreadyReportedError, UsageError } from '../exit';
import type { ConfigFlags } from '../options';
import { note, printJson, showTable } from '../output';
import { Progress } from '../progress';
import { auditChainNotFound } from './auditChainNotFound';

const loadAccess = (): typeof accessModule => require('../../access');

/** Options of `plantroom audit verify`. */
export interface VerifyFlags extends ConfigFlags {
  readonly organization?: string;
  readonly expectHead?: ChainPosition;
  readonly file?: string;
}

/** Runs `plantroom audit verify`. Exit code 1 if an error was found. */
export async function runVerify(flags: VerifyFlags): Promise<void> {
  const { organization, expectHead: expectedHead, file } = flags;
  if (expectedHead && organization === undefined && file === undefined)
    throw new UsageError('--expect-head is the head of one chain: add --organization');
  const verifiers =
    file === undefined
      ? await withAdminContext(flags, async (admin) => await verifyDatabase(admin, organization, expectedHead))
      : await verifyFile(file, expectedHead);
  const errors = verifiers.flatMap((verifier) => verifier.errors);
  if (flags.json)
    printJson({
      chains: verifiers.map(toSummary),
      faults: errors.map(({ chain, seq, what, detail }) => ({ organizationId: chain, sequence: seq, what, detail })),
    });
  else {
    showTable(
      verifiers.map((verifier) => ({ ...toSummary(verifier), verdict: formatVerdict(verifier) })),
      ['organizationId', 'events', 'verdict', 'head'],
      flags,
    );
    for (const { chain, seq, what, detail } of errors)
      note(
        `plantroom: ${what} in the chain of ${chain === '' ? 'no organization' : `organization ${chain}`} at ${seq}: ${detail}`,
      );
  }
  if (errors.length > 0) throw new AlreadyReportedError(1);
}

/** Verifies the chain of one organization, or all chains of the database. */
async function verifyDatabase(
  admin: AdminContext,
  organization: string | undefined,
  expectedHead: ChainPosition | undefined,
): Promise<ChainVerifier[]> {
  const verifiers: ChainVerifier[] = [];
  const onlyChain = organization === 'none' ? '' : organization;
  // A noted head proves that the chain existed: a missing chain is then an error of the trail, not a wrong name.
  if (onlyChain !== undefined && !expectedHead && !(await admin.archive.canExist(onlyChain)))
    throw auditChainNotFound(onlyChain);
  for await (const chain of onlyChain === undefined ? listChains(admin) : [onlyChain]) {
    const ends = await admin.archive.readEnds(chain);
    const progress = new Progress(ends ? ends.lastSeq - ends.firstSeq + 1 : 0, process.stderr);
    verifiers.push(await admin.archive.verify(chain, expectedHead, (events) => progress.reached(events, chain)));
    progress.clear();
  }
  return verifiers;
}

/** Yields all chains, and the organizations without one, so that a missing chain is noticed. */
async function* listChains(admin: AdminContext): AsyncGenerator<string> {
  yield* admin.archive.listChains();
  yield* admin.archive.listOrganizationsWithoutChain();
}

/** Verifies an export. It contains one chain, in one or more parts (the outputs of `audit export`, joined). */
async function verifyFile(file: string, expectedHead: ChainPosition | undefined): Promise<ChainVerifier[]> {
  const { ChainVerifier: Verifier, readLine } = loadAccess();
  let verifier: ChainVerifier | undefined;
  let previous: ExportLine;
  let number = 0;
  for await (const line of createInterface({ input: createReadStream(file) })) {
    number += 1;
    const parsed = readLine(line);
    if (verifier) verifyLine(verifier, parsed, previous, number);
    else if (parsed && 'head' in parsed) verifier = new Verifier(parsed.head.chain, parsed.head.after, expectedHead);
    else
      throw new Error(
        `--file ${file} does not start with the first line of an export: use a complete file written by "plantroom audit export"`,
      );
    previous = parsed;
  }
  if (!verifier) throw new Error(`--file ${file} is empty: use a file written by "plantroom audit export"`);
  if (!isEnd(previous)) verifier.reportMissingEnd();
  verifier.checkExpectedHead();
  return [verifier];
}

type ExportLine = ReturnType<typeof accessModule.readLine>;

const isEnd = (line: ExportLine): boolean => line !== undefined && 'end' in line;

/**
 * Verifies one line. An export is made of parts: each has a head line (where the previous part stopped), event lines
 * and an end line. Adds the errors of the line to the verifier.
 */
function verifyLine(verifier: ChainVerifier, line: ExportLine, previous: ExportLine, number: number): void {
  if (!line) return verifier.addInvalidLine(`line ${number} is not a valid line of an export`);
  if ('head' in line) return verifier.checkContinuation(line.head.chain, line.head.after);
  if (isEnd(previous))
    verifier.addInvalidLine(`line ${number} follows the end of a part, but no line links it to the previous part`);
  if ('row' in line) return verifier.addEvent(line.row);
  const { chain, end: storedEnd } = line.end;
  const hasEventsAfterEnd = verifier.head.seq > storedEnd.seq;
  verifier.checkEnd(chain === verifier.chain ? storedEnd : undefined, hasEventsAfterEnd);
}

function toSummary({ chain, from, eventCount: events, head, errors }: ChainVerifier) {
  return { organizationId: chain, from, events, head: formatHead(head), whole: errors.length === 0 };
}

/** Describes the result. A chain without its start is complete only from its first event. */
function formatVerdict({ from, errors }: ChainVerifier): string {
  if (errors.length > 0) return 'INVALID';
  return from === 1 ? 'valid' : `valid from ${from} on`;
}

const formatHead = ({ seq, hash }: ChainPosition): string => `${seq}:${hash}`;

import { AuditArchive, ChainVerifier } from '../../access';
import type { Config } from '../../config';
import { fail, formatCount, ok, type Finding } from './check';
import { hasDatabase, readDatabase } from './readDatabase';

const CHECK = 'audit trail';
const MAX_CHAINS = 20;
/** The number of events at the end of each chain that are verified. */
const MAX_CHECKED_EVENTS = 200;

/**
 * Verifies the hash chains of the newest events of the audit trail, for at most 20 chains. Only reads. Returns nothing
 * if the database cannot be read: the database check reports that.
 */
export async function checkAuditTrail(config: Config): Promise<Finding[]> {
  if (!hasDatabase(config)) return [];
  try {
    return await readDatabase(config, async (database) => {
      const { pending } = await database.describe();
      return pending.length > 0 ? [] : [await verifyChains(new AuditArchive(database))];
    });
  } catch {
    return [];
  }
}

/** Verifies the newest events of each chain, and returns the first error. */
async function verifyChains(archive: AuditArchive): Promise<Finding> {
  let chains = 0;
  let events = 0;
  for await (const chain of archive.listChains()) {
    const verifier = await verifyNewestEvents(archive, chain);
    // Retention may have removed old events during the check. A real error is also found by the second check.
    const error = verifier?.errors[0] && (await verifyNewestEvents(archive, chain))?.errors[0];
    if (error)
      return fail(
        CHECK,
        `${error.what} at event ${error.seq} of ${chain === '' ? 'the chain without an organization' : `chain ${chain}`}: ${error.detail}`,
        'run "plantroom audit verify", and do not change the database: it is evidence',
      );
    events += verifier?.eventCount ?? 0;
    chains += 1;
    if (chains === MAX_CHAINS) break;
  }
  return ok(
    CHECK,
    `the newest ${events} events of ${formatCount(chains, 'chain')} are valid; "plantroom audit verify" checks all events`,
  );
}

/**
 * Verifies the newest events of a chain (the events of one organization, each linked to the previous one by its hash).
 * The outcome is in `errors` of the returned verifier. Returns undefined if no ends are stored for the chain.
 */
async function verifyNewestEvents(archive: AuditArchive, chain: string): Promise<ChainVerifier | undefined> {
  const ends = await archive.readEnds(chain);
  if (!ends) return undefined;
  const from = Math.max(ends.firstSeq, ends.lastSeq - MAX_CHECKED_EVENTS + 1);
  const previousPosition =
    from === ends.firstSeq ? { seq: from - 1, hash: ends.firstPrevious } : await archive.findPosition(chain, from - 1);
  // Without a previous position, the previous event no longer exists, so the first event is reported as changed.
  const verifier = new ChainVerifier(chain, previousPosition ?? { seq: from - 1, hash: '' });
  for await (const rows of archive.readRows(chain, from)) for (const row of rows) verifier.addEvent(row);
  return verifier;
}

import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { AuditArchive, ChainCheck } from '../../access';
import type { Config } from '../../config';
import { openDatabase, SQLITE_FILE, type Database } from '../../database';
import { silentLogger } from '../../kernel/logger';
import { fail, ok, type Finding } from './check';

const CHECK = 'audit trail';
const CHAINS = 20;
/** So many events at the end of each chain are followed. */
const NEWEST = 200;

/** Whether the newest events of the audit trail fit each other. Only reads; where the database cannot be read, its own check says so. */
export async function newestEvents({ database: { url }, data }: Config): Promise<Finding[]> {
  if (url === '' && !existsSync(join(data.dir, SQLITE_FILE))) return [];
  let opened: Database | undefined;
  try {
    opened = await openDatabase({ url, dataDir: data.dir, log: silentLogger, readOnly: true, poolSize: 2 });
    if ((await opened.describe()).pending.length > 0) return [];
    return [await follow(new AuditArchive(opened))];
  } catch {
    return [];
  } finally {
    await opened?.close();
  }
}

async function follow(archive: AuditArchive): Promise<Finding> {
  let [chains, events] = [0, 0];
  for await (const chain of archive.chains()) {
    const check = await newestOf(archive, chain);
    // Old events may have been removed meanwhile: a fault is there when one looks again.
    const fault = check?.faults[0] && (await newestOf(archive, chain))?.faults[0];
    if (fault) return fail(CHECK, `${fault.what} at ${fault.seq} of the chain ${chain || 'of no organization'}: ${fault.detail}`, 'run "plantroom audit verify", and keep the database as it is');
    events += check?.events ?? 0;
    chains += 1;
    if (chains === CHAINS) break;
  }
  return ok(CHECK, `the newest ${events} events of ${chains} chains fit; "plantroom audit verify" follows all`);
}

async function newestOf(archive: AuditArchive, chain: string): Promise<ChainCheck | undefined> {
  const ends = await archive.ends(chain);
  if (!ends) return undefined;
  const from = Math.max(ends.firstSeq, ends.lastSeq - NEWEST + 1);
  const before = from === ends.firstSeq ? { seq: from - 1, hash: ends.firstPrevious } : await archive.place(chain, from - 1);
  const check = new ChainCheck(chain, before ?? { seq: from - 1, hash: '' });
  for await (const rows of archive.rows(chain, from)) for (const row of rows) check.take(row);
  return check;
}

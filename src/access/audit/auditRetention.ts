import type { Database } from '../../database';
import type { Clock } from '../../kernel/clock';
import type { Logger } from '../../kernel/logger';
import { AuditChainRepository } from './auditChainRepository';
import { AuditRepository } from './auditRepository';
import { removedText } from './removedEvents';
import { RETENTION, serverEvent } from './serverEvents';

const A_DAY = 24 * 60 * 60_000;
/** Events of one look or one transaction: a few milliseconds. */
const AT_ONCE = 250;

/** The last event that is over its time. */
interface LastOver {
  readonly seq: number;
  readonly hash: string;
  /** When the newest of those up to there began. */
  readonly newest: number;
}

/**
 * Removes the oldest events of each chain, from its beginning. First the chain is made to begin later, and an event of the server says up
 * to where and by which hash it goes on, both in one transaction; then what lies before is removed in small steps, after a crash by the
 * next run. `verify` accepts no other beginning.
 */
export class AuditRetention {
  constructor(private readonly deps: { readonly database: Database; readonly clock: Clock; readonly log: Logger; readonly retentionDays: number }) {}

  /** Shortens every chain whose oldest event is a day over its time. `signal`: stop between two steps. */
  async run(signal: AbortSignal): Promise<void> {
    const { database, clock } = this.deps;
    const chains = new AuditChainRepository(database.db);
    const cutoff = clock.now() - this.deps.retentionDays * A_DAY;
    for (let chain = await chains.next(undefined); chain !== undefined && !signal.aborted; chain = await chains.next(chain)) {
      await this.shorten(chain, cutoff, signal);
    }
  }

  private async shorten(chain: string, cutoff: number, signal: AbortSignal): Promise<void> {
    const { database, log } = this.deps;
    const chains = new AuditChainRepository(database.db);
    const ends = await chains.ends(chain);
    if (!ends) return; // something is wrong with it, and all of it is needed to say what
    const last = await this.lastOver(chain, ends.firstSeq, cutoff, signal);
    const isGivenUp = last !== undefined && (await this.giveUp(chain, last));
    for (let removed = AT_ONCE; removed === AT_ONCE && !signal.aborted; await turn()) removed = await chains.removeBefore(chain, isGivenUp ? last.seq + 1 : ends.firstSeq, AT_ONCE);
    if (isGivenUp) log.info({ organization_id: chain, first: ends.firstSeq, last: last.seq }, 'audit.retention');
  }

  /** The last of the events at the beginning that are over their time; undefined: not even the first is, by a day. */
  private async lastOver(chain: string, firstSeq: number, cutoff: number, signal: AbortSignal): Promise<LastOver | undefined> {
    const chains = new AuditChainRepository(this.deps.database.db);
    let last: LastOver = NOTHING;
    for (let at = firstSeq; ; at += AT_ONCE) {
      const rows = await chains.from(chain, at, AT_ONCE);
      if (at === firstSeq && (rows[0]?.at ?? Infinity) >= cutoff - A_DAY) return undefined;
      for (const row of rows) {
        if (row.at >= cutoff) return found(last);
        last = { seq: row.seq, hash: row.hash, newest: Math.max(row.at, last.newest) };
      }
      if (rows.length < AT_ONCE || signal.aborted) return found(last);
      await turn();
    }
  }

  /** False: another process has shortened the chain that far meanwhile. */
  private async giveUp(chain: string, last: LastOver): Promise<boolean> {
    const { database, clock, retentionDays } = this.deps;
    return await database.transaction(async (db) => {
      const repository = new AuditRepository(db);
      const ends = await repository.lock(chain);
      if (last.seq < ends.firstSeq) return false;
      await repository.append(chain, ends, [serverEvent(clock.now(), chain, RETENTION, removedText({ first: ends.firstSeq, ...last, days: retentionDays }))]);
      await new AuditChainRepository(db).beginAfter(chain, last);
      return true;
    });
  }
}

const NOTHING: LastOver = { seq: 0, hash: '', newest: 0 };
const found = (last: LastOver): LastOver | undefined => (last === NOTHING ? undefined : last);

/** Lets others have their turn. */
async function turn(): Promise<void> {
  await new Promise((resolve) => setImmediate(resolve));
}

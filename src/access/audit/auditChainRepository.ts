import type { Db } from '../../database';
import type { ChainEnds } from './auditEvent';
import type { AuditRow } from './auditRepository';

/**
 * Reads whole chains, to verify, export and shorten them. A chain is the audit trail of one organization or of the
 * installation. Its ends, the first and the last event, are stored in `audit_chains`.
 */
export class AuditChainRepository {
  constructor(private readonly db: Db) {}

  /**
   * Returns the name of the chain that follows `after` in alphabetical order; undefined if there is none. `after`
   * undefined: the first chain. A chain counts if its ends or only its events are stored, so that verification also
   * finds manipulated chains.
   */
  async findNextChain(after: string | undefined): Promise<string | undefined> {
    const nextNameOfEachTable = await Promise.all(
      ['audit_chains', 'audit_events'].map(async (table) => {
        const query = this.db.knex(table).orderBy('chain').limit(1);
        if (after !== undefined) query.where('chain', '>', after);
        return (await query.first<{ chain: string } | undefined>('chain'))?.chain;
      }),
    );
    return nextNameOfEachTable.filter((chain) => chain !== undefined).toSorted()[0];
  }

  /** Returns the ends of a chain; undefined if none are stored. */
  async readEnds(chain: string): Promise<ChainEnds | undefined> {
    const row = await this.db
      .knex('audit_chains')
      .where({ chain })
      .first<{ first_seq: number; first_previous: string; last_seq: number; last_hash: string } | undefined>();
    return (
      row && {
        firstSeq: row.first_seq,
        firstPrevious: row.first_previous,
        lastSeq: row.last_seq,
        lastHash: row.last_hash,
      }
    );
  }

  /** Returns at most `limit` events with sequence numbers from `seq`, in ascending order. */
  async listFrom(chain: string, seq: number, limit: number): Promise<AuditRow[]> {
    return await this.db
      .knex('audit_events')
      .where({ chain })
      .where('seq', '>=', seq)
      .orderBy('seq')
      .limit(limit)
      .select<AuditRow[]>('*');
  }

  /**
   * Returns at most `limit` events before a sequence number, in descending order. This includes events with numbers
   * below 1, which no valid chain contains.
   */
  async listBefore(chain: string, seq: number, limit: number): Promise<AuditRow[]> {
    return await this.db
      .knex('audit_events')
      .where({ chain })
      .where('seq', '<', seq)
      .orderBy('seq', 'desc')
      .limit(limit)
      .select<AuditRow[]>('*');
  }

  /**
   * Returns at most `limit` organization ids that follow `after` in order and have no chain, which is an error because
   * each organization is created with a chain. This includes organizations that are being deleted. `createdSince`: only
   * organizations created at that time or later, Unix milliseconds.
   */
  async listOrganizationsWithoutChain(after: string, limit: number, createdSince = 0): Promise<string[]> {
    const query = this.db
      .knex('organizations as o')
      .where('o.id', '>', after)
      .where('o.created_at', '>=', createdSince)
      .orderBy('o.id')
      .limit(limit);
    for (const table of ['audit_chains', 'audit_events'])
      query.whereNotExists(
        (subquery) => void subquery.from(`${table} as t`).whereRaw('t.chain = o.id').select('t.chain'),
      );
    return (await query.select<{ id: string }[]>('o.id')).map(({ id }) => id);
  }

  /** Returns the ids of all organizations, except those that are being deleted. */
  async listOrganizationIds(): Promise<string[]> {
    return (
      await this.db.knex('organizations').whereNull('deleted_at').orderBy('id').select<{ id: string }[]>('id')
    ).map(({ id }) => id);
  }

  /** Whether any organization exists, including one that is being deleted. */
  async hasAnyOrganization(): Promise<boolean> {
    return (await this.db.knex('organizations').first('id')) !== undefined;
  }

  /** Returns the time of the oldest pending change of a chain, Unix milliseconds; undefined if there is none. */
  async findOldestPendingTime(chain: string): Promise<number | undefined> {
    return (await this.db.knex('audit_pending').where({ chain }).orderBy('at').first<{ at: number } | undefined>('at'))
      ?.at;
  }

  /** Whether an organization with this id exists; this includes organizations that are being deleted. */
  async isOrganization(id: string): Promise<boolean> {
    return (await this.db.knex('organizations').where({ id }).first('id')) !== undefined;
  }

  /**
   * Returns the sequence number of the last event, even if it is after the stored end of the chain; undefined if there
   * is no event.
   */
  async findLastSeq(chain: string): Promise<number | undefined> {
    const row = await this.db
      .knex('audit_events')
      .where({ chain })
      .orderBy('seq', 'desc')
      .first<{ seq: number } | undefined>('seq');
    return row?.seq;
  }

  /** Stores that a chain begins after the event with this sequence number and hash. The caller has locked the chain. */
  async moveBeginning(chain: string, { seq, hash }: { readonly seq: number; readonly hash: string }): Promise<void> {
    await this.db
      .knex('audit_chains')
      .where({ chain })
      .update({ first_seq: seq + 1, first_previous: hash });
  }

  /** Deletes at most `limit` events before the beginning of a chain, oldest first; returns how many were deleted. */
  async removeBefore(chain: string, seq: number, limit: number): Promise<number> {
    const oldestSeqs = this.db
      .knex('audit_events')
      .where({ chain })
      .where('seq', '<', seq)
      .orderBy('seq')
      .limit(limit)
      .select('seq');
    return await this.db.knex('audit_events').where({ chain }).whereIn('seq', oldestSeqs).delete();
  }
}

import type { Db } from '../../database';
import type { ChainEnds } from './auditEvent';
import type { AuditRow } from './auditRepository';

/** Walks whole chains, for those who verify, export and shorten them. */
export class AuditChainRepository {
  constructor(private readonly db: Db) {}

  /** The next chain after a name, whether its ends are known or only events of it; undefined: there is none. */
  async next(after: string | undefined): Promise<string | undefined> {
    const found = await Promise.all(
      ['audit_chains', 'audit_events'].map(async (table) => {
        const query = this.db.knex(table).orderBy('chain').limit(1);
        if (after !== undefined) query.where('chain', '>', after);
        return (await query.first<{ chain: string } | undefined>('chain'))?.chain;
      }),
    );
    return found.filter((chain) => chain !== undefined).toSorted()[0];
  }

  /** The ends of a chain; undefined: nothing says where they are. */
  async ends(chain: string): Promise<ChainEnds | undefined> {
    const row = await this.db.knex('audit_chains').where({ chain }).first<{ first_seq: number; first_previous: string; last_seq: number; last_hash: string } | undefined>();
    return row && { firstSeq: row.first_seq, firstPrevious: row.first_previous, lastSeq: row.last_seq, lastHash: row.last_hash };
  }

  /** At most `limit` events from a place in the chain on, in its order. */
  async from(chain: string, seq: number, limit: number): Promise<AuditRow[]> {
    return await this.db.knex('audit_events').where({ chain }).where('seq', '>=', seq).orderBy('seq').limit(limit).select<AuditRow[]>('*');
  }

  /** At most `limit` events before a place in the chain, the last first; also those that no chain could hold. */
  async before(chain: string, seq: number, limit: number): Promise<AuditRow[]> {
    return await this.db.knex('audit_events').where({ chain }).where('seq', '<', seq).orderBy('seq', 'desc').limit(limit).select<AuditRow[]>('*');
  }

  /** At most `limit` organizations after an id that have no chain, though each was made with one; also those that are being deleted. `since`: made at that time or later. */
  async organizationsWithout(after: string, limit: number, since = 0): Promise<string[]> {
    const query = this.db.knex('organizations as o').where('o.id', '>', after).where('o.created_at', '>=', since).orderBy('o.id').limit(limit);
    for (const table of ['audit_chains', 'audit_events']) query.whereNotExists((of) => void of.from(`${table} as t`).whereRaw('t.chain = o.id').select('t.chain'));
    return (await query.select<{ id: string }[]>('o.id')).map(({ id }) => id);
  }

  /** The ids of the organizations that there are, without those that are being deleted. */
  async organizations(): Promise<string[]> {
    return (await this.db.knex('organizations').whereNull('deleted_at').orderBy('id').select<{ id: string }[]>('id')).map(({ id }) => id);
  }

  /** Whether there is any organization. */
  async isAnyOrganization(): Promise<boolean> {
    return (await this.db.knex('organizations').first('id')) !== undefined;
  }

  /** When the oldest change of a chain began whose end is not there yet; undefined: there is none. */
  async oldestPending(chain: string): Promise<number | undefined> {
    return (await this.db.knex('audit_pending').where({ chain }).orderBy('at').first<{ at: number } | undefined>('at'))?.at;
  }

  /** Whether there is an organization of an id, also one that is being deleted. */
  async isOrganization(id: string): Promise<boolean> {
    return (await this.db.knex('organizations').where({ id }).first('id')) !== undefined;
  }

  /** The place of the last event that there is, wherever the chain is said to end; undefined: there is none. */
  async largest(chain: string): Promise<number | undefined> {
    const row = await this.db.knex('audit_events').where({ chain }).orderBy('seq', 'desc').first<{ seq: number } | undefined>('seq');
    return row?.seq;
  }

  /** Lets a locked chain begin after an event. */
  async beginAfter(chain: string, { seq, hash }: { readonly seq: number; readonly hash: string }): Promise<void> {
    await this.db.knex('audit_chains').where({ chain }).update({ first_seq: seq + 1, first_previous: hash });
  }

  /** Removes at most `limit` of the events before the beginning of a chain; tells how many. */
  async removeBefore(chain: string, seq: number, limit: number): Promise<number> {
    const oldest = this.db.knex('audit_events').where({ chain }).where('seq', '<', seq).orderBy('seq').limit(limit).select('seq');
    return await this.db.knex('audit_events').where({ chain }).whereIn('seq', oldest).delete();
  }
}

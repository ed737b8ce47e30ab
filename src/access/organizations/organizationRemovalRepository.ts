import type { Knex } from 'knex';
import type { Db } from '../../database';

/** What this room keeps of an organization that goes. Of the audit trail nothing: it outlives the organization. */
export class OrganizationRemovalRepository {
  constructor(private readonly db: Db) {}

  /** How many people belong to it. */
  async countMembers(organizationId: string): Promise<number> {
    return await counted(this.of('members', organizationId));
  }

  /** How many of its keys still work. */
  async countKeys(organizationId: string, now: number): Promise<number> {
    const live = this.of('api_keys', organizationId).whereNull('revoked_at');
    return await counted(live.where((q) => void q.whereNull('expires_at').orWhere('expires_at', '>', now)));
  }

  /** Ends all of its keys at `at`. */
  async revokeKeys(organizationId: string, at: number): Promise<void> {
    await this.of('api_keys', organizationId).whereNull('revoked_at').update({ revoked_at: at, updated_at: at });
  }

  /** Removes at most `most` rows of members, keys, roles and counters; how many it were. */
  async removeSome(organizationId: string, most: number): Promise<number> {
    let removed = 0;
    for (const [table, column] of TABLES) {
      if (removed >= most) break;
      const some = this.of(table, organizationId).orderBy(column).limit(most - removed).select(column);
      removed += await this.of(table, organizationId).whereIn(column, some).delete();
    }
    return removed;
  }

  private of(table: string, organizationId: string): Knex.QueryBuilder {
    return this.db.knex(table).where('organization_id', organizationId);
  }
}

/** Each with what tells its rows apart. */
const TABLES = [['members', 'user_id'], ['api_keys', 'id'], ['roles', 'id'], ['organization_counters', 'name']] as const;

async function counted(query: Knex.QueryBuilder): Promise<number> {
  const [row] = (await query.count('* as n')) as { n: number | string }[];
  return Number(row?.n ?? 0);
}

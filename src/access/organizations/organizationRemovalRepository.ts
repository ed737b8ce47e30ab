import type { Knex } from 'knex';
import type { Db } from '../../database';

/** Deletes the records of this module for a deleted organization. The audit trail is kept. */
export class OrganizationRemovalRepository {
  constructor(private readonly db: Db) {}

  /** Counts the members of an organization. */
  async countMembers(organizationId: string): Promise<number> {
    return await countRows(this.inOrganization('members', organizationId));
  }

  /** Counts the keys of an organization that are neither revoked nor expired. `now`: Unix milliseconds. */
  async countKeys(organizationId: string, now: number): Promise<number> {
    const activeKeys = this.inOrganization('api_keys', organizationId).whereNull('revoked_at');
    return await countRows(
      activeKeys.where((condition) => void condition.whereNull('expires_at').orWhere('expires_at', '>', now)),
    );
  }

  /**
   * Deletes at most `max` rows of the organization, table after table; returns how many rows were deleted. Fewer than
   * `max` means that no rows are left.
   */
  async deleteBatch(organizationId: string, max: number): Promise<number> {
    let removedCount = 0;
    for (const [table, column] of TABLES) {
      if (removedCount >= max) break;
      const nextRowIds = this.inOrganization(table, organizationId)
        .orderBy(column)
        .limit(max - removedCount)
        .select(column);
      removedCount += await this.inOrganization(table, organizationId).whereIn(column, nextRowIds).delete();
    }
    return removedCount;
  }

  private inOrganization(table: string, organizationId: string): Knex.QueryBuilder {
    return this.db.knex(table).where('organization_id', organizationId);
  }
}

/** The tables of this module, each with a column that identifies a row within an organization. */
const TABLES = [
  ['idempotency_keys', 'key_hash'],
  ['members', 'user_id'],
  ['api_keys', 'id'],
  ['roles', 'id'],
  ['organization_counters', 'name'],
] as const;

async function countRows(query: Knex.QueryBuilder): Promise<number> {
  const [row] = (await query.count('* as n')) as { n: number | string }[];
  return Number(row?.n ?? 0);
}

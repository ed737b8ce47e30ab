import type { Db, HotStatement } from '../database';

const REMEMBER: HotStatement = {
  name: 'uplinksSeen.remember',
  sql: () => `
    insert into uplinks_seen (connection_id, uplink_id, seen_at)
    select c.id, cast(? as text), cast(? as bigint) from connections c where c.organization_id = ? and c.id = ?
    on conflict (connection_id, uplink_id) do nothing returning uplink_id`,
};

/** The ids of uplinks that were stored, so that a repeated one changes nothing. Those of a deleted connection grow old like all others. */
export class SeenUplinkRepository {
  constructor(private readonly db: Db) {}

  /** Whether the uplink is new; it is remembered from now on. Only inside a transaction. */
  async remember(organizationId: string, connectionId: string, uplinkId: string, seenAt: number): Promise<boolean> {
    const rows = await this.db.all(REMEMBER, [uplinkId, seenAt, organizationId, connectionId]);
    return rows.length > 0;
  }

  /** Forgets at most `limit` ids, of all organizations, that were seen before; returns how many they were. */
  async forget(before: number, limit: number): Promise<number> {
    const { knex } = this.db;
    const old = knex('uplinks_seen').where('seen_at', '<', before).orderBy('seen_at').limit(limit).select('connection_id', 'uplink_id');
    return await knex('uplinks_seen').whereIn(['connection_id', 'uplink_id'], old).delete();
  }
}

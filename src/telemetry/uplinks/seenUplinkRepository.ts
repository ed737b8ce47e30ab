import type { UplinkIdentity } from '../../connections';
import type { Db, HotStatement } from '../../database';

const REMEMBER_DELIVERY: HotStatement = {
  name: 'uplinksSeen.rememberDelivery',
  // What is no repetition takes the slot over; a repetition does so only if something else came last in it, or what came surely was acknowledged.
  sql: () => `
    insert into uplinks_seen (connection_id, uplink_id, digest, seen_at)
    select c.id, cast(? as text), cast(? as text), cast(? as bigint) from connections c where c.organization_id = ? and c.id = ?
    on conflict (connection_id, uplink_id) do update set digest = excluded.digest, seen_at = excluded.seen_at
    where cast(? as smallint) = 0 or uplinks_seen.digest <> excluded.digest or uplinks_seen.seen_at < cast(? as bigint) returning uplink_id`,
};

const REMEMBER: HotStatement = {
  name: 'uplinksSeen.remember',
  sql: () => `
    insert into uplinks_seen (connection_id, uplink_id, seen_at)
    select c.id, cast(? as text), cast(? as bigint) from connections c where c.organization_id = ? and c.id = ?
    on conflict (connection_id, uplink_id) do nothing returning uplink_id`,
};

const IS_STORED: HotStatement = {
  name: 'uplinksSeen.isStored',
  sql: () => 'select 1 as there from uplinks_seen where connection_id = ? and uplink_id = ?',
};

const IS_DELIVERY_STORED: HotStatement = {
  name: 'uplinksSeen.isDeliveryStored',
  sql: () => 'select 1 as there from uplinks_seen where connection_id = ? and uplink_id = ? and digest = ? and seen_at >= ?',
};

const IS_CONNECTION: HotStatement = {
  name: 'uplinksSeen.isConnection',
  sql: () => 'select 1 as there from connections c where c.organization_id = ? and c.id = ?',
};

/** The ids of uplinks that were stored, so that a repeated one changes nothing. Those of a deleted connection grow old like all others. */
export class SeenUplinkRepository {
  constructor(private readonly db: Db) {}

  /** Whether the uplink is new; it is remembered from now on. Only inside a transaction. */
  async remember(organizationId: string, connectionId: string, identity: UplinkIdentity, seenAt: number): Promise<boolean> {
    if (identity.kind === 'none') return true;
    if (identity.kind === 'id') return (await this.db.all(REMEMBER, [identity.uplinkId, seenAt, organizationId, connectionId])).length > 0;
    const { slot, digest, isRepetition, acknowledgedBefore = 0 } = identity;
    const rows = await this.db.all(REMEMBER_DELIVERY, [`delivery:${slot}`, digest, seenAt, organizationId, connectionId, isRepetition ? 1 : 0, Math.floor(acknowledgedBefore)]);
    return rows.length > 0;
  }

  /** Whether an uplink was stored, as far as that is known: of what is handed in twice at once `remember` decides. */
  async isStored(connectionId: string, identity: UplinkIdentity): Promise<boolean> {
    if (identity.kind === 'id') return (await this.db.all(IS_STORED, [connectionId, identity.uplinkId])).length > 0;
    if (identity.kind === 'none' || !identity.isRepetition) return false;
    const { slot, digest, acknowledgedBefore = 0 } = identity;
    return (await this.db.all(IS_DELIVERY_STORED, [connectionId, `delivery:${slot}`, digest, Math.floor(acknowledgedBefore)])).length > 0;
  }

  /** Whether the organization has this connection: what is not remembered does not tell. */
  async isConnection(organizationId: string, connectionId: string): Promise<boolean> {
    return (await this.db.all(IS_CONNECTION, [organizationId, connectionId])).length > 0;
  }

  /** Forgets at most `limit` ids, of all organizations, that were seen before; returns how many they were. */
  async forget(before: number, limit: number): Promise<number> {
    const { knex } = this.db;
    const old = knex('uplinks_seen').where('seen_at', '<', before).orderBy('seen_at').limit(limit).select('connection_id', 'uplink_id');
    return await knex('uplinks_seen').whereIn(['connection_id', 'uplink_id'], old).delete();
  }
}

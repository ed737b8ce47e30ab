import type { UplinkIdentity } from '../../connections';
import type { Db, PreparedStatement } from '../../database';

const ADD_DELIVERY: PreparedStatement = {
  name: 'uplinksSeen.addDelivery',
  // A new delivery always replaces the stored delivery of its slot. A repeated delivery replaces the stored one only if
  // the stored one had another digest, or was stored before `acknowledgedBefore` and therefore must have been
  // acknowledged.
  sql: () => `
    insert into uplinks_seen (connection_id, uplink_id, digest, seen_at)
    select c.id, cast(? as text), cast(? as text), cast(? as bigint) from connections c where c.organization_id = ? and c.id = ?
    on conflict (connection_id, uplink_id) do update set digest = excluded.digest, seen_at = excluded.seen_at
    where cast(? as smallint) = 0 or uplinks_seen.digest <> excluded.digest or uplinks_seen.seen_at < cast(? as bigint) returning uplink_id`,
};

const ADD: PreparedStatement = {
  name: 'uplinksSeen.add',
  sql: () => `
    insert into uplinks_seen (connection_id, uplink_id, seen_at)
    select c.id, cast(? as text), cast(? as bigint) from connections c where c.organization_id = ? and c.id = ?
    on conflict (connection_id, uplink_id) do nothing returning uplink_id`,
};

const IS_STORED: PreparedStatement = {
  name: 'uplinksSeen.isStored',
  sql: () => 'select 1 as there from uplinks_seen where connection_id = ? and uplink_id = ?',
};

const IS_DELIVERY_STORED: PreparedStatement = {
  name: 'uplinksSeen.isDeliveryStored',
  sql: () =>
    'select 1 as there from uplinks_seen where connection_id = ? and uplink_id = ? and digest = ? and seen_at >= ?',
};

const IS_CONNECTION: PreparedStatement = {
  name: 'uplinksSeen.isConnection',
  sql: () => 'select 1 as there from connections c where c.organization_id = ? and c.id = ?',
};

/**
 * Stores the ids of stored uplinks, so that a repeated uplink has no effect. An uplink without an id (MQTT QoS 1) is
 * known by the slot of its delivery (the packet identifier, which is reused) and the digest of its content. The ids of
 * a deleted connection expire like all others.
 */
export class SeenUplinkRepository {
  constructor(private readonly db: Db) {}

  /**
   * Stores the id of an uplink at `seenAt`, Unix milliseconds. Returns whether the uplink is new; always true for an
   * identity of the kind `none`, and false if the connection does not exist. Must run inside a transaction.
   */
  async add(organizationId: string, connectionId: string, identity: UplinkIdentity, seenAt: number): Promise<boolean> {
    if (identity.kind === 'none') return true;
    if (identity.kind === 'id')
      return (await this.db.all(ADD, [identity.uplinkId, seenAt, organizationId, connectionId])).length > 0;
    const { slot, digest, isRepetition, acknowledgedBefore = 0 } = identity;
    const rows = await this.db.all(ADD_DELIVERY, [
      `delivery:${slot}`,
      digest,
      seenAt,
      organizationId,
      connectionId,
      isRepetition ? 1 : 0,
      Math.floor(acknowledgedBefore),
    ]);
    return rows.length > 0;
  }

  /**
   * Whether an uplink is already stored. Two concurrent deliveries may both get false; `add` detects the duplicate. A
   * delivery without an id counts as stored only if the transport marks it as a repetition, and the stored one of its
   * slot has the same digest and arrived at or after `acknowledgedBefore`: earlier ones are acknowledged.
   */
  async isStored(connectionId: string, identity: UplinkIdentity): Promise<boolean> {
    if (identity.kind === 'id') return (await this.db.all(IS_STORED, [connectionId, identity.uplinkId])).length > 0;
    if (identity.kind === 'none' || !identity.isRepetition) return false;
    const { slot, digest, acknowledgedBefore = 0 } = identity;
    const rows = await this.db.all(IS_DELIVERY_STORED, [
      connectionId,
      `delivery:${slot}`,
      digest,
      Math.floor(acknowledgedBefore),
    ]);
    return rows.length > 0;
  }

  /**
   * Whether the organization has this connection. Needed for an identity of the kind `none`, for which `add` does not
   * check it.
   */
  async isConnection(organizationId: string, connectionId: string): Promise<boolean> {
    return (await this.db.all(IS_CONNECTION, [organizationId, connectionId])).length > 0;
  }

  /**
   * Deletes at most `limit` ids of all organizations that were stored before a time, oldest first. Returns how many.
   */
  async deleteBefore(before: number, limit: number): Promise<number> {
    const { knex } = this.db;
    const selected = knex('uplinks_seen')
      .where('seen_at', '<', before)
      .orderBy('seen_at')
      .limit(limit)
      .select('connection_id', 'uplink_id');
    return await knex('uplinks_seen').whereIn(['connection_id', 'uplink_id'], selected).delete();
  }
}

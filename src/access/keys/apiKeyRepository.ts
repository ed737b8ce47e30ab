import type { Knex } from 'knex';
import type { Db, PreparedStatement } from '../../database';
import { notFound } from '../../kernel/errors';
import type { CreatedPosition } from '../../kernel/pages';
import type { ApiKey, KeyRestrictions } from './apiKey';

interface ApiKeyRow {
  id: string;
  organization_id: string;
  owner_user_id: string;
  name: string;
  prefix: string;
  scopes: string;
  connection_ids: string;
  all_connections: number;
  is_admin: number;
  can_act_as_owner: number;
  created_at: number;
  updated_at: number;
  expires_at: number | null;
  revoked_at: number | null;
  last_used_at: number | null;
  last_used_address: string | null;
  note: string;
  restrictions: string;
  allowed_addresses: string;
  rotated_from: string | null;
  revision: number;
}

/** When and from where a key was last used. */
export interface KeyUse {
  /** Unix milliseconds. */
  readonly at: number;
  /** The IP address without the port. */
  readonly address: string;
}

const BY_ID: PreparedStatement = {
  name: 'api_keys.by_id',
  sql: () => 'select * from api_keys where organization_id = ? and id = ?',
};

/** Reads and writes API keys. Expects validated grants and a caller that may act in `organizationId`. */
export class ApiKeyRepository {
  constructor(private readonly db: Db) {}

  /** Stores a new key. `hash`: the SHA-256 of the whole key in hex. */
  async create(organizationId: string, key: ApiKey, hash: string): Promise<void> {
    await this.db.knex('api_keys').insert({
      id: key.id,
      organization_id: organizationId,
      owner_user_id: key.ownerUserId,
      name: key.name,
      prefix: key.prefix,
      hash,
      scopes: JSON.stringify(key.scopes),
      connection_ids: JSON.stringify(key.connectionIds),
      all_connections: Number(key.allConnections),
      is_admin: Number(key.isAdmin),
      can_act_as_owner: Number(key.canActAsOwner),
      created_at: key.createdAt,
      updated_at: key.updatedAt,
      expires_at: key.expiresAt ?? null,
      revoked_at: key.revokedAt ?? null,
      last_used_at: key.lastUsedAt ?? null,
      last_used_address: key.lastUsedAddress || null,
      note: key.note,
      restrictions: serializeRestrictions(key.restrictions),
      allowed_addresses: JSON.stringify(key.allowedAddresses),
      rotated_from: key.rotatedFrom || null,
      revision: key.revision,
    });
  }

  /** Returns a key; undefined if there is none. */
  async find(organizationId: string, id: string): Promise<ApiKey | undefined> {
    const [row] = await this.db.all<ApiKeyRow>(BY_ID, [organizationId, id]);
    return row && apiKeyFromRow(row);
  }

  /**
   * Returns the organization of a key; undefined if the key does not exist. Only for the command line, which may search
   * all organizations.
   */
  async findOrganizationId(id: string): Promise<string | undefined> {
    const row = await this.db
      .knex('api_keys')
      .where({ id })
      .first<{ organization_id: string } | undefined>('organization_id');
    return row?.organization_id;
  }

  /** Returns a key. Throws `api_key_not_found`. */
  async get(organizationId: string, id: string): Promise<ApiKey> {
    const key = await this.find(organizationId, id);
    if (!key) throw notFound('api_key', id);
    return key;
  }

  /**
   * Returns at most `limit` keys (undefined: all) after a position, newest first; includes revoked and expired keys.
   */
  async list(organizationId: string, after?: CreatedPosition, limit?: number): Promise<ApiKey[]> {
    const query = this.inOrganization(organizationId).orderBy('created_at', 'desc').orderBy('id', 'desc');
    if (after) query.whereRaw('(created_at, id) < (?, ?)', [after.createdAt, after.id]);
    if (limit !== undefined) query.limit(limit);
    const rows = await query.select<ApiKeyRow[]>('*');
    return rows.map(apiKeyFromRow);
  }

  /** Like get; locks the key until the transaction ends. */
  async lock(organizationId: string, id: string): Promise<ApiKey> {
    const row = await this.db.dialect
      .lockForUpdate(this.inOrganization(organizationId).where({ id }))
      .first<ApiKeyRow | undefined>('*');
    if (!row) throw notFound('api_key', id);
    return apiKeyFromRow(row);
  }

  /** Stores the changeable fields of a locked key. */
  async update(organizationId: string, key: ApiKey): Promise<void> {
    await this.inOrganization(organizationId)
      .where('id', key.id)
      .update({
        name: key.name,
        note: key.note,
        expires_at: key.expiresAt ?? null,
        restrictions: serializeRestrictions(key.restrictions),
        allowed_addresses: JSON.stringify(key.allowedAddresses),
        updated_at: key.updatedAt,
        revision: key.revision,
      });
  }

  /**
   * Revokes a key at `revokedAt` (Unix milliseconds). Returns whether this call revoked it: false for a key that is
   * revoked already or does not exist.
   */
  async revoke(organizationId: string, id: string, revokedAt: number): Promise<boolean> {
    return (await this.revokeMatching(this.inOrganization(organizationId).where({ id }), revokedAt)).length > 0;
  }

  /** Revokes all keys of an organization at `revokedAt` (Unix milliseconds). */
  async revokeOfOrganization(organizationId: string, revokedAt: number): Promise<void> {
    await this.revokeMatching(this.inOrganization(organizationId), revokedAt);
  }

  /** Revokes all keys of a user in an organization. Returns the ids of those that were not revoked before. */
  async revokeKeysOfUser(organizationId: string, ownerUserId: string, revokedAt: number): Promise<string[]> {
    return await this.revokeMatching(
      this.inOrganization(organizationId).where('owner_user_id', ownerUserId),
      revokedAt,
    );
  }

  /**
   * Makes a key expire at `expiresAt`, unless it expires earlier. `now`: the current time. Both in Unix milliseconds.
   */
  async expireBy(organizationId: string, id: string, expiresAt: number, now: number): Promise<void> {
    await this.inOrganization(organizationId)
      .where({ id })
      .where((condition) => void condition.whereNull('expires_at').orWhere('expires_at', '>', expiresAt))
      .update({ expires_at: expiresAt, updated_at: now, revision: this.db.knex.raw('revision + 1') });
  }

  /**
   * Stores when and from where a key was used, unless a later use is stored. This does not change the revision of the
   * key. The caller rounds the time down to the minute.
   */
  async storeUse(organizationId: string, id: string, use: KeyUse): Promise<void> {
    await this.inOrganization(organizationId)
      .where({ id })
      .where((condition) => void condition.whereNull('last_used_at').orWhere('last_used_at', '<=', use.at))
      .update({ last_used_at: use.at, last_used_address: use.address });
  }

  /**
   * Revokes the selected keys that are not revoked yet; returns their ids. `revokedAt`: Unix milliseconds.
   */
  private async revokeMatching(keys: Knex.QueryBuilder, revokedAt: number): Promise<string[]> {
    const rows = await keys
      .whereNull('revoked_at')
      .update({ revoked_at: revokedAt, updated_at: revokedAt, revision: this.db.knex.raw('revision + 1') }, ['id']);
    return (rows as { id: string }[]).map(({ id }) => id);
  }

  private inOrganization(organizationId: string): Knex.QueryBuilder {
    return this.db.knex('api_keys').where('organization_id', organizationId);
  }
}

function apiKeyFromRow(row: ApiKeyRow): ApiKey {
  return {
    id: row.id,
    organizationId: row.organization_id,
    ownerUserId: row.owner_user_id,
    name: row.name,
    prefix: row.prefix,
    scopes: JSON.parse(row.scopes) as string[],
    connectionIds: JSON.parse(row.connection_ids) as string[],
    allConnections: row.all_connections === 1,
    isAdmin: row.is_admin === 1,
    canActAsOwner: row.can_act_as_owner === 1,
    createdAt: row.created_at,
    updatedAt: row.updated_at,
    expiresAt: row.expires_at ?? undefined,
    revokedAt: row.revoked_at ?? undefined,
    lastUsedAt: row.last_used_at ?? undefined,
    lastUsedAddress: row.last_used_address ?? '',
    note: row.note,
    restrictions: row.restrictions === '' ? undefined : (JSON.parse(row.restrictions) as KeyRestrictions),
    allowedAddresses: JSON.parse(row.allowed_addresses) as string[],
    rotatedFrom: row.rotated_from ?? '',
    revision: row.revision,
  };
}

/** Returns the restrictions as JSON; an empty string for a key without restrictions. */
function serializeRestrictions(restrictions: KeyRestrictions | undefined): string {
  if (!restrictions) return '';
  const { deviceIds, connectionIds, commandIds } = restrictions;
  return JSON.stringify({ deviceIds, connectionIds, commandIds });
}

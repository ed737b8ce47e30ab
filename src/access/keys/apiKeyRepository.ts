import type { Knex } from 'knex';
import type { Db, HotStatement } from '../../database';
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
  /** Without the port. */
  readonly address: string;
}

const BY_ID: HotStatement = { name: 'api_keys.by_id', sql: () => 'select * from api_keys where organization_id = ? and id = ?' };

/** API keys. Assumes validated grants and a caller allowed to act in `organizationId`. */
export class ApiKeyRepository {
  constructor(private readonly db: Db) {}

  /** `hash` is the SHA-256 of the whole key in hex. */
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
      created_at: key.createdAt,
      updated_at: key.updatedAt,
      expires_at: key.expiresAt ?? null,
      revoked_at: key.revokedAt ?? null,
      last_used_at: key.lastUsedAt ?? null,
      last_used_address: key.lastUsedAddress || null,
      note: key.note,
      restrictions: restrictionsText(key.restrictions),
      allowed_addresses: JSON.stringify(key.allowedAddresses),
      rotated_from: key.rotatedFrom || null,
      revision: key.revision,
    });
  }

  /** Undefined if there is none. */
  async find(organizationId: string, id: string): Promise<ApiKey | undefined> {
    const [row] = await this.db.all<ApiKeyRow>(BY_ID, [organizationId, id]);
    return row && apiKeyFromRow(row);
  }

  /** In which organization a key is; undefined: nowhere. For the command line, which may look into all of them. */
  async organizationOf(id: string): Promise<string | undefined> {
    const row = await this.db.knex('api_keys').where({ id }).first<{ organization_id: string } | undefined>('organization_id');
    return row?.organization_id;
  }

  /** Throws `api_key_not_found`. */
  async get(organizationId: string, id: string): Promise<ApiKey> {
    const key = await this.find(organizationId, id);
    if (!key) throw notFound('api_key', id);
    return key;
  }

  /** At most `limit` keys (undefined: all) after a position, newest first, the revoked and expired ones too. */
  async list(organizationId: string, after?: CreatedPosition, limit?: number): Promise<ApiKey[]> {
    const query = this.inOrganization(organizationId);
    if (after) query.whereRaw('(created_at, id) < (?, ?)', [after.createdAt, after.id]);
    if (limit !== undefined) query.limit(limit);
    const rows = await query.orderBy('created_at', 'desc').orderBy('id', 'desc').select<ApiKeyRow[]>('*');
    return rows.map(apiKeyFromRow);
  }

  /** As get, and nobody else changes it until the transaction ends. */
  async lock(organizationId: string, id: string): Promise<ApiKey> {
    const row = await this.db.dialect.lockForUpdate(this.inOrganization(organizationId).where({ id })).first<ApiKeyRow | undefined>('*');
    if (!row) throw notFound('api_key', id);
    return apiKeyFromRow(row);
  }

  /** Writes what can be changed of a key that is locked. */
  async update(organizationId: string, key: ApiKey): Promise<void> {
    await this.inOrganization(organizationId)
      .where('id', key.id)
      .update({
        name: key.name,
        note: key.note,
        expires_at: key.expiresAt ?? null,
        restrictions: restrictionsText(key.restrictions),
        allowed_addresses: JSON.stringify(key.allowedAddresses),
        updated_at: key.updatedAt,
        revision: key.revision,
      });
  }

  /** Ends a key at `at` unless it was revoked before. Whether it did. */
  async revoke(organizationId: string, id: string, at: number): Promise<boolean> {
    return (await this.revokeThose(this.inOrganization(organizationId).where({ id }), at)).length > 0;
  }

  /** Ends all keys of a person in an organization. The ids of those that had not been revoked before. */
  async revokeOf(organizationId: string, ownerUserId: string, at: number): Promise<string[]> {
    return await this.revokeThose(this.inOrganization(organizationId).where('owner_user_id', ownerUserId), at);
  }

  /** Lets a key end at `expiresAt`, unless it ends sooner anyway. `at` is now. */
  async endBy(organizationId: string, id: string, expiresAt: number, at: number): Promise<void> {
    await this.inOrganization(organizationId)
      .where({ id })
      .where((q) => void q.whereNull('expires_at').orWhere('expires_at', '>', expiresAt))
      .update({ expires_at: expiresAt, updated_at: at, revision: this.db.knex.raw('revision + 1') });
  }

  /** Remembers a use, never an older one over a newer. Does not count as a change of the key. */
  async noteUse(organizationId: string, id: string, use: KeyUse): Promise<void> {
    await this.inOrganization(organizationId)
      .where({ id })
      .where((q) => void q.whereNull('last_used_at').orWhere('last_used_at', '<=', use.at))
      .update({ last_used_at: use.at, last_used_address: use.address });
  }

  private async revokeThose(keys: Knex.QueryBuilder, at: number): Promise<string[]> {
    const rows = await keys.whereNull('revoked_at').update({ revoked_at: at, updated_at: at, revision: this.db.knex.raw('revision + 1') }, ['id']);
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

function restrictionsText(restrictions: KeyRestrictions | undefined): string {
  if (!restrictions) return '';
  const { deviceIds, connectionIds, commandIds } = restrictions;
  return JSON.stringify({ deviceIds, connectionIds, commandIds });
}

import type { Db, PreparedStatement } from '../../database';
import type { Principal } from '../../kernel/principal';
import { expandScopes } from '../../kernel/scopes';
import { OWNER } from '../people/member';
import { findSystemRole } from '../people/role';
import { toResourceScope, type KeyRestrictions } from './apiKey';

/** A key with the data that authentication needs: its permissions, and whether it is still valid. */
export interface AuthenticatedKey {
  readonly principal: Principal;
  /** Unix milliseconds; undefined if it is not revoked. */
  readonly revokedAt: number | undefined;
  /** Its owner is no longer a member, or its organization is being deleted. */
  readonly isOrphaned: boolean;
}

interface KnownKeyRow {
  hash: string;
  id: string;
  organization_id: string;
  owner_user_id: string;
  prefix: string;
  scopes: string;
  connection_ids: string;
  all_connections: number;
  is_admin: number;
  expires_at: number | null;
  revoked_at: number | null;
  restrictions: string;
  allowed_addresses: string;
  can_act_as_owner: number;
  role_id: string | null;
  role_scopes: string | null;
  deleted_at: number | null;
}

/** The maximum number of keys per query. */
export const MAX_BATCH_SIZE = 32;

const SELECT_KEYS = `select k.hash, k.id, k.organization_id, k.owner_user_id, k.prefix, k.scopes, k.connection_ids, k.all_connections, k.is_admin, k.expires_at, k.revoked_at,
    k.restrictions, k.allowed_addresses, k.can_act_as_owner, m.role_id, r.scopes as role_scopes, o.deleted_at
    from api_keys k
    join organizations o on o.id = k.organization_id
    left join members m on m.organization_id = k.organization_id and m.user_id = k.owner_user_id
    left join roles r on r.organization_id = m.organization_id and r.id = m.role_id`;
const BY_ID: PreparedStatement = {
  name: 'api_keys.known_by_id',
  sql: () => `${SELECT_KEYS} where k.organization_id = ? and k.id = ?`,
};
const BY_ONE_HASH = prepareByHashes('api_keys.known_by_hash', 1);
const BY_MANY_HASHES = prepareByHashes('api_keys.known_by_hashes', MAX_BATCH_SIZE);

/**
 * Reads keys with the membership and the role of their owners. The search by hash is the only one without an
 * organization id, because the key determines the organization.
 */
export class KnownKeyRepository {
  constructor(private readonly db: Db) {}

  /** Returns the existing keys by their hashes (SHA-256 of the whole key in hex, at most MAX_BATCH_SIZE). */
  async findByHashes(hashes: readonly string[]): Promise<ReadonlyMap<string, AuthenticatedKey>> {
    // Two prepared statements, for one hash and for the maximum, serve any number of hashes.
    const rows = await (hashes.length === 1
      ? this.db.all<KnownKeyRow>(BY_ONE_HASH, hashes)
      : this.db.all<KnownKeyRow>(BY_MANY_HASHES, padHashes(hashes)));
    return new Map(rows.map((row) => [row.hash, authenticatedKeyFromRow(row)]));
  }

  /**
   * Returns one key; undefined if it does not exist. In a transaction that has locked the organization, the key and the
   * role of its owner cannot change any more.
   */
  async find(organizationId: string, id: string): Promise<AuthenticatedKey | undefined> {
    const [row] = await this.db.all<KnownKeyRow>(BY_ID, [organizationId, id]);
    return row && authenticatedKeyFromRow(row);
  }
}

/** Returns MAX_BATCH_SIZE hashes: unused parameters repeat the first hash, which does not change the result. */
function padHashes(hashes: readonly string[]): string[] {
  return Array.from({ length: MAX_BATCH_SIZE }, (_, index) => hashes[index] ?? hashes[0] ?? '');
}

/** Prepares the query for `count` hashes. */
function prepareByHashes(name: string, count: number): PreparedStatement {
  const placeholders = Array.from({ length: count }, () => '?').join(', ');
  const sql = `${SELECT_KEYS} where k.hash ${count === 1 ? '= ?' : `in (${placeholders})`}`;
  return { name, sql: () => sql };
}

/** Converts a row to a key with its effective permissions. */
function authenticatedKeyFromRow(row: KnownKeyRow): AuthenticatedKey {
  const restrictions = row.restrictions === '' ? undefined : (JSON.parse(row.restrictions) as KeyRestrictions);
  const principal: Principal = {
    keyId: row.id,
    keyPrefix: row.prefix,
    organizationId: row.organization_id,
    ownerUserId: row.owner_user_id,
    scopes: getEffectiveScopes(row),
    resourceScope: toResourceScope(restrictions),
    allowedAddresses: JSON.parse(row.allowed_addresses) as string[],
    canActAsOwner: row.can_act_as_owner === 1,
    isOwner: row.can_act_as_owner === 1 && row.role_id === OWNER,
    connections: row.all_connections === 1 ? 'all' : new Set(JSON.parse(row.connection_ids) as string[]),
    isAdmin: row.is_admin === 1,
    expiresAt: row.expires_at ?? undefined,
  };
  return {
    principal,
    revokedAt: row.revoked_at ?? undefined,
    isOrphaned: row.role_id === null || row.deleted_at !== null,
  };
}

/**
 * Returns the scopes that both the key and the role of its owner have, including implied scopes; none if the owner is
 * no longer a member (`role_id` is null).
 */
function getEffectiveScopes({ scopes, role_id: roleId, role_scopes: roleScopes }: KnownKeyRow): ReadonlySet<string> {
  const scopesOfRole = expandScopes(
    findSystemRole(roleId ?? '')?.scopes ?? (JSON.parse(roleScopes ?? '[]') as string[]),
  );
  return new Set([...expandScopes(JSON.parse(scopes) as string[])].filter((scope) => scopesOfRole.has(scope)));
}

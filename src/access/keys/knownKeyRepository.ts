import type { Db, HotStatement } from '../../database';
import type { Principal } from '../../kernel/principal';
import { systemRoleOf } from '../people/role';
import { reachOf, type KeyRestrictions } from './apiKey';

/** A key as the check of a call needs it: what it may do, and whether it still may. */
export interface KnownKey {
  readonly principal: Principal;
  /** Unix milliseconds; undefined: it was not. */
  readonly revokedAt: number | undefined;
  /** Its owner is no member any more, or its organization is being deleted. */
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
  role_id: string | null;
  role_scopes: string | null;
  deleted_at: number | null;
}

/** How many keys are read at once at most. */
export const MOST_AT_ONCE = 32;

const KNOWN = `select k.hash, k.id, k.organization_id, k.owner_user_id, k.prefix, k.scopes, k.connection_ids, k.all_connections, k.is_admin, k.expires_at, k.revoked_at,
    k.restrictions, k.allowed_addresses, m.role_id, r.scopes as role_scopes, o.deleted_at
    from api_keys k
    join organizations o on o.id = k.organization_id
    left join members m on m.organization_id = k.organization_id and m.user_id = k.owner_user_id
    left join roles r on r.organization_id = m.organization_id and r.id = m.role_id`;
const BY_ID: HotStatement = { name: 'api_keys.known_by_id', sql: () => `${KNOWN} where k.organization_id = ? and k.id = ?` };
const ONE = byHashes('api_keys.known_by_hash', 1);
const MANY = byHashes('api_keys.known_by_hashes', MOST_AT_ONCE);

/** Keys with the membership and the role of their owners: found by hash it is the one look-up that no organization stands before, since the key says which it is. */
export class KnownKeyRepository {
  constructor(private readonly db: Db) {}

  /** The keys of these hashes (SHA-256 of the whole key in hex, at most MOST_AT_ONCE) that there are, by their hashes. */
  async findByHashes(hashes: readonly string[]): Promise<ReadonlyMap<string, KnownKey>> {
    // Two statements that stay prepared serve any number: the places that are left repeat the first hash.
    const rows = await (hashes.length === 1 ? this.db.all<KnownKeyRow>(ONE, hashes) : this.db.all<KnownKeyRow>(MANY, Array.from({ length: MOST_AT_ONCE }, (_, at) => hashes[at] ?? hashes[0] ?? '')));
    return new Map(rows.map((row) => [row.hash, knownKeyFromRow(row)]));
  }

  /** One key; undefined if there is none. In a transaction that holds the organization (MemberRepository.hold) nothing of it changes any more. */
  async find(organizationId: string, id: string): Promise<KnownKey | undefined> {
    const [row] = await this.db.all<KnownKeyRow>(BY_ID, [organizationId, id]);
    return row && knownKeyFromRow(row);
  }
}

function byHashes(name: string, count: number): HotStatement {
  const sql = `${KNOWN} where k.hash ${count === 1 ? '= ?' : `in (${Array.from({ length: count }, () => '?').join(', ')})`}`;
  return { name, sql: () => sql };
}

function knownKeyFromRow(row: KnownKeyRow): KnownKey {
  const restrictions = row.restrictions === '' ? undefined : (JSON.parse(row.restrictions) as KeyRestrictions);
  const principal: Principal = {
    keyId: row.id,
    keyPrefix: row.prefix,
    organizationId: row.organization_id,
    ownerUserId: row.owner_user_id,
    scopes: heldScopes(row),
    reach: reachOf(restrictions),
    allowedAddresses: JSON.parse(row.allowed_addresses) as string[],
    roleId: row.role_id ?? '',
    connections: row.all_connections === 1 ? 'all' : new Set(JSON.parse(row.connection_ids) as string[]),
    isAdmin: row.is_admin === 1,
    expiresAt: row.expires_at ?? undefined,
  };
  return { principal, revokedAt: row.revoked_at ?? undefined, isOrphaned: row.role_id === null || row.deleted_at !== null };
}

/** What the key and the role of its owner both hold. */
function heldScopes({ scopes, role_id: roleId, role_scopes: own }: KnownKeyRow): ReadonlySet<string> {
  const ofKey = JSON.parse(scopes) as string[];
  const ofRole = new Set(systemRoleOf(roleId ?? '')?.scopes ?? (JSON.parse(own ?? '[]') as string[]));
  return new Set(ofKey.filter((scope) => ofRole.has(scope)));
}

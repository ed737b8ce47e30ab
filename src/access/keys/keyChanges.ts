import type { UnitOfWork } from '../../database';
import type { Clock } from '../../kernel/clock';
import { DomainError, throwIfAny, type Violation } from '../../kernel/errors';
import { checkEtag } from '../../kernel/etags';
import type { AccessRepositories } from '../accessRepositories';
import { readAddresses } from './addresses';
import type { ApiKey, KeyRestrictions } from './apiKey';
import { cleanRestrictions, findExpiryViolations, findRestrictionViolations, findTextViolations } from './grantRules';
import { issueKey, type IssuedKey } from './issueKey';

/** Dependencies of KeyChanges. */
export interface KeyChangesOptions {
  readonly uow: UnitOfWork<AccessRepositories>;
  readonly clock: Clock;
  /** Called after a change of a key is stored; ApiKeyAuthenticator then invalidates the key. */
  readonly keyChanged: (keyId: string) => void;
}

/** The fields to change; undefined fields stay unchanged. */
export interface KeyChange {
  /** Validated: 1 to 255 characters. */
  readonly name?: string | undefined;
  readonly note?: string | undefined;
  /** Unix milliseconds; null: the key no longer expires. */
  readonly expiresAt?: number | null | undefined;
  /** Replaces the restrictions; without ids: no restrictions. */
  readonly restrictions?: KeyRestrictions | undefined;
  /** Replaces the allowed addresses; empty: all addresses. */
  readonly allowedAddresses?: readonly string[] | undefined;
}

/** A new key, and the key that it replaces. */
export interface RotatedKey extends IssuedKey {
  readonly oldApiKey: ApiKey;
}

/** The permissions of the caller that changes a key. */
export interface KeyChangeCaller {
  /** Throws unless the caller may change the key. `changed`: the key after the change. */
  authorize(key: ApiKey, changed?: ApiKey): void | Promise<void>;
  /** Whether a key that the caller creates for this user may have the rights of an owner. */
  canGrantOwnerRights(ownerUserId: string): boolean;
}

/**
 * Loads the permissions of the caller in the transaction of the change, while the keys and members of the organization
 * are locked.
 */
export type LoadKeyChangeCaller = (repos: AccessRepositories) => Promise<KeyChangeCaller>;

/** Loads the permissions of the command line, which may change every key. */
export const loadCommandLineCaller: LoadKeyChangeCaller = async () => ({
  authorize: () => {},
  canGrantOwnerRights: () => true,
});

/**
 * Returns the violations of a change. `now`: Unix milliseconds; `addressesField`: the field name of the address list in
 * the violations.
 */
export function findChangeViolations(change: KeyChange, now: number, addressesField = 'allowedAddresses'): Violation[] {
  return [
    ...findTextViolations(change),
    ...findExpiryViolations(change.expiresAt ?? undefined, now),
    ...readAddresses(change.allowedAddresses ?? [], addressesField).violations,
  ];
}

/** Changes existing keys, for any caller. Each change first locks the organization, as changes of members do. */
export class KeyChanges {
  constructor(private readonly options: KeyChangesOptions) {}

  /**
   * Changes the set fields. `violations`: invalid references of the change, thrown once the caller is authorized.
   * Throws the errors of `loadCaller`, `api_key_not_found`, `version_conflict`, `api_key_inactive`,
   * `validation_failed`.
   */
  async update(
    organizationId: string,
    id: string,
    change: KeyChange,
    etag: string | undefined,
    loadCaller: LoadKeyChangeCaller,
    violations: readonly Violation[],
  ): Promise<ApiKey> {
    const { uow, clock, keyChanged } = this.options;
    return await uow.transaction(async (repos, db) => {
      const { apiKeys } = repos;
      const { old, caller } = await lockAndAuthorize(repos, organizationId, id, loadCaller);
      checkEtag('api_key', old.revision, etag);
      const now = clock.now();
      assertNotRevokedOrExpired(old, now);
      throwIfAny([
        ...findChangeViolations(change, now),
        ...findRestrictionViolations({ scopes: old.scopes, restrictions: change.restrictions }),
      ]);
      const changed = applyChange(old, change, now);
      if (!changed) return old;
      await caller.authorize(old, changed); // lockAndAuthorize has only checked the old permissions
      throwIfAny(violations);
      await apiKeys.update(organizationId, changed);
      db.afterCommit(() => keyChanged(id));
      return changed;
    });
  }

  /** Revokes a key. A revoked key stays unchanged. Throws `api_key_not_found` and the errors of `loadCaller`. */
  async revoke(organizationId: string, id: string, loadCaller: LoadKeyChangeCaller): Promise<ApiKey> {
    const { uow, clock, keyChanged } = this.options;
    return await uow.transaction(async (repos, db) => {
      const { apiKeys } = repos;
      await lockAndAuthorize(repos, organizationId, id, loadCaller);
      if (await apiKeys.revoke(organizationId, id, clock.now())) db.afterCommit(() => keyChanged(id));
      return await apiKeys.get(organizationId, id);
    });
  }

  /**
   * Creates a key with a new id and secret and all other properties of the old one, its expiry included, and makes the
   * old one expire after `graceMs` milliseconds unless it expires earlier. The new key has the rights of an owner only
   * if the caller may create such a key. Throws `api_key_not_found`, `api_key_inactive` and the errors of `loadCaller`.
   */
  async rotate(
    organizationId: string,
    id: string,
    graceMs: number,
    loadCaller: LoadKeyChangeCaller,
  ): Promise<RotatedKey> {
    const { uow, clock, keyChanged } = this.options;
    return await uow.transaction(async (repos, db) => {
      const { old, caller } = await lockAndAuthorize(repos, organizationId, id, loadCaller);
      const now = clock.now();
      assertNotRevokedOrExpired(old, now);
      await repos.apiKeys.expireBy(organizationId, id, now + graceMs, now);
      db.afterCommit(() => keyChanged(id));
      const issued = await issueKey(
        repos,
        {
          ...old,
          rotatedFrom: old.id,
          canActAsOwner: old.canActAsOwner && caller.canGrantOwnerRights(old.ownerUserId),
        },
        clock,
      );
      return { ...issued, oldApiKey: await repos.apiKeys.get(organizationId, id) };
    });
  }
}

/**
 * Locks the organization and the key, and checks that the caller may change the key; returns both. The organization is
 * locked first, as for every change of members and roles, so that the caller's permissions cannot change and two
 * transactions do not deadlock.
 */
async function lockAndAuthorize(
  repos: AccessRepositories,
  organizationId: string,
  id: string,
  loadCaller: LoadKeyChangeCaller,
): Promise<{ old: ApiKey; caller: KeyChangeCaller }> {
  await repos.members.lockOrganization(organizationId);
  const caller = await loadCaller(repos);
  const old = await repos.apiKeys.lock(organizationId, id);
  await caller.authorize(old);
  return { old, caller };
}

/** Returns the key with a valid change; undefined if no field is set. */
function applyChange(
  old: ApiKey,
  { name, note, expiresAt, restrictions, allowedAddresses }: KeyChange,
  now: number,
): ApiKey | undefined {
  if ([name, note, expiresAt, restrictions, allowedAddresses].every((value) => value === undefined)) return undefined;
  return {
    ...old,
    name: name ?? old.name,
    note: note ?? old.note,
    expiresAt: expiresAt === undefined ? old.expiresAt : (expiresAt ?? undefined), // null removes the expiry time
    restrictions: restrictions === undefined ? old.restrictions : cleanRestrictions(restrictions),
    allowedAddresses:
      allowedAddresses === undefined ? old.allowedAddresses : readAddresses(allowedAddresses, '').addresses,
    updatedAt: now,
    revision: old.revision + 1,
  };
}

/** Throws `api_key_inactive` if the key is revoked or expired. */
function assertNotRevokedOrExpired(key: ApiKey, now: number): void {
  if (key.revokedAt === undefined && (key.expiresAt ?? Infinity) > now) return;
  throw new DomainError(
    'conflict',
    'api_key_inactive',
    `the API key ${key.prefix} was revoked or has expired: create a new key`,
  );
}

import type { Clock } from '../../kernel/clock';
import { throwIfAny, type Violation } from '../../kernel/errors';
import { newId } from '../../kernel/ids';
import type { AccessRepositories } from '../accessRepositories';
import { hashKey, newKeyText, getPrefix, type ApiKey, type KeyGrant } from './apiKey';
import { findOwnerViolations } from './keyReferences';

/** The data of a new key. */
export interface NewKey extends KeyGrant {
  readonly organizationId: string;
  readonly ownerUserId: string;
  /** Validated: 1 to 255 characters. */
  readonly name: string;
  readonly note: string;
  /** The id of the key that this one replaces; empty if none. */
  readonly rotatedFrom: string;
  readonly isAdmin: boolean;
  /** See ApiKey.canActAsOwner. */
  readonly canActAsOwner: boolean;
}

/** A new key. `key` is shown only once and not stored. */
export interface IssuedKey {
  readonly key: string;
  readonly apiKey: ApiKey;
}

/**
 * Creates a key from a validated grant for a member whose role has its scopes. Throws `validation_failed` with the
 * violations of the owner and those in `violations`. Must run in a transaction.
 */
export async function issueKeyForMember(
  repos: AccessRepositories,
  newKey: NewKey,
  clock: Clock,
  violations: readonly Violation[],
): Promise<IssuedKey> {
  const owner = await repos.members.lock(newKey.organizationId, newKey.ownerUserId);
  throwIfAny([...violations, ...findOwnerViolations(newKey.ownerUserId, owner, newKey.scopes)]);
  return await issueKey(repos, newKey, clock);
}

/** Creates a key from a validated grant. */
export async function issueKey(
  repos: Pick<AccessRepositories, 'apiKeys'>,
  newKey: NewKey,
  clock: Clock,
): Promise<IssuedKey> {
  const key = newKeyText();
  const now = clock.now();
  const apiKey: ApiKey = {
    id: newId(),
    organizationId: newKey.organizationId,
    ownerUserId: newKey.ownerUserId,
    name: newKey.name,
    prefix: getPrefix(key),
    scopes: newKey.scopes,
    connectionIds: newKey.connectionIds,
    allConnections: newKey.allConnections,
    note: newKey.note,
    restrictions: newKey.restrictions,
    allowedAddresses: newKey.allowedAddresses,
    rotatedFrom: newKey.rotatedFrom,
    isAdmin: newKey.isAdmin,
    canActAsOwner: newKey.canActAsOwner,
    revision: 1,
    createdAt: now,
    updatedAt: now,
    expiresAt: newKey.expiresAt,
    revokedAt: undefined,
    lastUsedAt: undefined,
    lastUsedAddress: '',
  };
  await repos.apiKeys.create(newKey.organizationId, apiKey, hashKey(key));
  return { key, apiKey };
}

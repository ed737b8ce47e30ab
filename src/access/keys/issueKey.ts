import type { Clock } from '../../kernel/clock';
import { throwIfAny, type Violation } from '../../kernel/errors';
import { newId } from '../../kernel/ids';
import type { AccessRepositories } from '../accessRepositories';
import { hashKey, newKeyText, prefixOf, type ApiKey, type KeyGrant } from './apiKey';
import { ownerViolations } from './keyReferences';

/** A key to make. */
export interface NewKey extends KeyGrant {
  readonly organizationId: string;
  readonly ownerUserId: string;
  /** Clean: 1 to 255 characters. */
  readonly name: string;
  readonly note: string;
  /** The key that it takes the place of; empty: none. */
  readonly rotatedFrom: string;
  readonly isAdmin: boolean;
}

/** A new key: `key` is shown this once and kept nowhere. */
export interface IssuedKey {
  readonly key: string;
  readonly apiKey: ApiKey;
}

/** Makes a key of a checked grant for a member whose role holds its scopes. Throws `validation_failed` with that and with what was found before. To be called in a transaction. */
export async function issueKeyForMember(repos: AccessRepositories, wanted: NewKey, clock: Clock, found: readonly Violation[]): Promise<IssuedKey> {
  const owner = await repos.members.lock(wanted.organizationId, wanted.ownerUserId);
  throwIfAny([...found, ...ownerViolations(wanted.ownerUserId, owner, wanted.scopes)]);
  return await issueKey(repos, wanted, clock);
}

/** Makes a key of a checked grant. */
export async function issueKey(repos: Pick<AccessRepositories, 'apiKeys'>, wanted: NewKey, clock: Clock): Promise<IssuedKey> {
  const key = newKeyText();
  const now = clock.now();
  const apiKey: ApiKey = {
    id: newId(),
    organizationId: wanted.organizationId,
    ownerUserId: wanted.ownerUserId,
    name: wanted.name,
    prefix: prefixOf(key),
    scopes: wanted.scopes,
    connectionIds: wanted.connectionIds,
    allConnections: wanted.allConnections,
    note: wanted.note,
    restrictions: wanted.restrictions,
    allowedAddresses: wanted.allowedAddresses,
    rotatedFrom: wanted.rotatedFrom,
    isAdmin: wanted.isAdmin,
    revision: 1,
    createdAt: now,
    updatedAt: now,
    expiresAt: wanted.expiresAt,
    revokedAt: undefined,
    lastUsedAt: undefined,
    lastUsedAddress: '',
  };
  await repos.apiKeys.create(wanted.organizationId, apiKey, hashKey(key));
  return { key, apiKey };
}

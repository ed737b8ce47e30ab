import type { Clock } from '../../kernel/clock';
import { throwIfAny, type Violation } from '../../kernel/errors';
import { isId, newId } from '../../kernel/ids';
import { grantViolations, hashKey, newKeyText, prefixOf, type ApiKey, type KeyGrant } from './apiKey';
import type { AccessRepositories } from '../accessRepositories';

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

/** Tells which of these ids are not gateway connections of the organization. The connections stand above this room, so app.ts hands it down. */
export type MissingConnections = (organizationId: string, ids: readonly string[]) => Promise<readonly string[]>;

/** Throws `validation_failed` with all that is wrong with a grant, by itself and against the connections that exist. */
export async function checkGrant(organizationId: string, grant: KeyGrant, missingConnections: MissingConnections, clock: Clock): Promise<void> {
  throwIfAny([...grantViolations(grant, clock.now()), ...(await unknownConnections(organizationId, grant.connectionIds, missingConnections))]);
}

/** Names those of the connections of a grant that do not exist. */
export async function unknownConnections(organizationId: string, ids: readonly string[], missingConnections: MissingConnections): Promise<Violation[]> {
  const asked = ids.filter(isId);
  const missing = new Set(asked.length > 0 ? await missingConnections(organizationId, asked) : []);
  return ids.flatMap((id, at) =>
    missing.has(id) || !isId(id) ? [{ field: `connectionIds[${at}]`, description: `${JSON.stringify(id)} is not a gateway connection of this organization; list the connections to see those that are` }] : [],
  );
}

/** Makes a key of a checked grant. */
export async function issueKey(repos: AccessRepositories, wanted: NewKey, clock: Clock): Promise<IssuedKey> {
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

import type { UnitOfWork } from '../../database';
import type { Clock } from '../../kernel/clock';
import { DomainError, throwIfAny, type Violation } from '../../kernel/errors';
import { checkEtag } from '../../kernel/etags';
import type { AccessRepositories } from '../accessRepositories';
import { readAddresses } from './addresses';
import type { ApiKey, KeyRestrictions } from './apiKey';
import { cleanRestrictions, expiryViolations, restrictionViolations, textViolations } from './grantRules';
import { issueKey, type IssuedKey } from './issueKey';

/** What every change of a key stands on. */
export interface KeyChangesOptions {
  readonly uow: UnitOfWork<AccessRepositories>;
  readonly clock: Clock;
  /** Called once a change of a key is on disk; Authentication forgets the key then. */
  readonly keyChanged: (keyId: string) => void;
}

/** What to change; absent: unchanged. */
export interface KeyChange {
  /** Clean: 1 to 255 characters. */
  readonly name?: string | undefined;
  readonly note?: string | undefined;
  /** Unix milliseconds; null: it does not end any more. */
  readonly expiresAt?: number | null | undefined;
  /** In place of those that it has; without ids: none. */
  readonly restrictions?: KeyRestrictions | undefined;
  /** In place of those that it has; empty: all. */
  readonly allowedAddresses?: readonly string[] | undefined;
}

/** A new key, and what became of the old one. */
export interface RotatedKey extends IssuedKey {
  readonly oldApiKey: ApiKey;
}

/** Throws unless the caller may do this to a key: as it is, and as it would be (of a change). */
export type MayChange = (key: ApiKey, changed?: ApiKey) => void | Promise<void>;

/** Finds out who is asking in the transaction of the change itself, while nobody else changes keys or members of the organization. */
export type Asking = (repos: AccessRepositories) => Promise<MayChange>;

/** What is wrong with a change by itself; `addresses` is what the list of addresses is called. `now` in Unix milliseconds. */
export function changeViolations(change: KeyChange, now: number, addresses = 'allowedAddresses'): Violation[] {
  return [...textViolations(change), ...expiryViolations(change.expiresAt ?? undefined, now), ...readAddresses(change.allowedAddresses ?? [], addresses).violations];
}

/** What happens to keys that are there, whoever asks for it. Each change holds the organization first, as the changes of members do. */
export class KeyChanges {
  constructor(private readonly options: KeyChangesOptions) {}

  /**
   * Changes the given fields. `found`: what is wrong with what the change refers to. Throws what `asking` throws, `api_key_not_found`,
   * `changed_meanwhile`, `api_key_ended`, `validation_failed`.
   */
  async update(organizationId: string, id: string, change: KeyChange, etag: string | undefined, asking: Asking, found: readonly Violation[]): Promise<ApiKey> {
    const { uow, clock, keyChanged } = this.options;
    return await uow.transaction(async (repos, db) => {
      const { apiKeys } = repos;
      const { old, may } = await locked(repos, organizationId, id, asking);
      checkEtag('api_key', old.revision, etag);
      const now = clock.now();
      refuseEnded(old, now);
      throwIfAny([...changeViolations(change, now), ...restrictionViolations({ scopes: old.scopes, restrictions: change.restrictions })]);
      const changed = changedKey(old, change, now);
      if (!changed) return old;
      await may(old, changed);
      throwIfAny(found);
      await apiKeys.update(organizationId, changed);
      db.afterCommit(() => keyChanged(id));
      return changed;
    });
  }

  /** Ends a key. A revoked one stays as it is. Throws `api_key_not_found`, what `asking` throws. */
  async revoke(organizationId: string, id: string, asking: Asking): Promise<ApiKey> {
    const { uow, clock, keyChanged } = this.options;
    return await uow.transaction(async (repos, db) => {
      const { apiKeys } = repos;
      await locked(repos, organizationId, id, asking);
      if (await apiKeys.revoke(organizationId, id, clock.now())) db.afterCommit(() => keyChanged(id));
      return await apiKeys.get(organizationId, id);
    });
  }

  /**
   * Makes a new key that does what the old one does, and lets the old one end after `grace` milliseconds unless it ends sooner anyway.
   * Throws `api_key_not_found`, what `asking` throws, `api_key_ended`.
   */
  async rotate(organizationId: string, id: string, grace: number, asking: Asking): Promise<RotatedKey> {
    const { uow, clock, keyChanged } = this.options;
    return await uow.transaction(async (repos, db) => {
      const { old } = await locked(repos, organizationId, id, asking);
      const now = clock.now();
      refuseEnded(old, now);
      await repos.apiKeys.endBy(organizationId, id, now + grace, now);
      db.afterCommit(() => keyChanged(id));
      const issued = await issueKey(repos, { ...old, rotatedFrom: old.id }, clock);
      return { ...issued, oldApiKey: await repos.apiKeys.get(organizationId, id) };
    });
  }
}

/** A key that nobody else changes any more, once it is sure that the caller may change it. */
async function locked(repos: AccessRepositories, organizationId: string, id: string, asking: Asking): Promise<{ old: ApiKey; may: MayChange }> {
  await repos.members.hold(organizationId);
  const may = await asking(repos);
  const old = await repos.apiKeys.lock(organizationId, id);
  await may(old);
  return { old, may };
}

/** The key with the change in it; undefined where nothing was to be changed. */
function changedKey(old: ApiKey, { name, note, expiresAt, restrictions, allowedAddresses }: KeyChange, now: number): ApiKey | undefined {
  if ([name, note, expiresAt, restrictions, allowedAddresses].every((given) => given === undefined)) return undefined;
  return {
    ...old,
    name: name ?? old.name,
    note: note ?? old.note,
    expiresAt: expiresAt === undefined ? old.expiresAt : (expiresAt ?? undefined),
    restrictions: restrictions === undefined ? old.restrictions : cleanRestrictions(restrictions),
    allowedAddresses: allowedAddresses === undefined ? old.allowedAddresses : readAddresses(allowedAddresses, '').addresses,
    updatedAt: now,
    revision: old.revision + 1,
  };
}

function refuseEnded(key: ApiKey, now: number): void {
  if (key.revokedAt === undefined && (key.expiresAt ?? Infinity) > now) return;
  throw new DomainError('conflict', 'api_key_ended', `the API key ${key.prefix} was revoked or has expired; create a new one instead`);
}

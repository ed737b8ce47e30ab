import { setImmediate } from 'node:timers/promises';
import { DomainError, notFound, throwIfAny, type Violation } from '../../kernel/errors';
import { getPage, getPageSize, type CreatedPosition, type Cursors } from '../../kernel/pages';
import type { Principal } from '../../kernel/principal';
import type { AccessRepositories } from '../accessRepositories';
import type { Organization } from '../organizations/organization';
import { assertCanChangeKeyOfOwner } from '../people/grantor';
import { getPersonalUser, type PersonalUser } from '../people/personalUser';
import type { ApiKey, KeyGrant } from './apiKey';
import {
  findExcessPermissions,
  findExcessGrants,
  assertNoPrivilegeEscalation,
  canSee,
  inheritOpenLimits,
} from './excessGrants';
import { reloadPrincipal, KEY_CHANGE_ACCESS } from './reloadPrincipal';
import { cleanGrant, findGrantViolations, findTextViolations } from './grantRules';
import { issueKeyForMember, type IssuedKey } from './issueKey';
import {
  findChangeViolations,
  KeyChanges,
  type KeyChangeCaller,
  type LoadKeyChangeCaller,
  type KeyChange,
  type KeyChangesOptions,
  type RotatedKey,
} from './keyChanges';
import {
  findOwnerViolations,
  findUnknownReferences,
  type ReferenceCheckers,
  type KeyReferences,
} from './keyReferences';

/**
 * The number of keys per query if the result is filtered. It is small because each key can be limited to two thousand
 * ids, and SQLite reads the ids on this thread.
 */
const FILTERED_BATCH_SIZE = 25;

/** Dependencies of KeyService. */
export interface KeyServiceOptions extends KeyChangesOptions {
  readonly cursors: Cursors;
  readonly referenceCheckers: ReferenceCheckers;
}

/** The input for a new key. */
export interface CreateKeyInput extends KeyGrant {
  readonly name: string;
  readonly note: string;
  /** Empty: the owner of the calling key. */
  readonly ownerUserId: string;
}

/** One page of keys; `nextPageToken` is empty on the last. */
export interface ApiKeyPage {
  readonly items: readonly ApiKey[];
  readonly nextPageToken: string;
}

/**
 * Manages API keys for the keys of their organization: a key cannot grant more permissions than it has, and a limited
 * key only sees keys that have no more permissions than itself.
 */
export class KeyService {
  private readonly changes: KeyChanges;

  constructor(private readonly options: KeyServiceOptions) {
    this.changes = new KeyChanges(options);
  }

  /** Returns the calling key, its owner and its organization. */
  async whoAmI(principal: Principal): Promise<{ apiKey: ApiKey; user: PersonalUser; organization: Organization }> {
    const { apiKeys, users, members, organizations } = this.options.uow.repos;
    const apiKey = await apiKeys.get(principal.organizationId, principal.keyId);
    return {
      apiKey,
      user: await getPersonalUser({ users, members }, principal),
      organization: await organizations.get(apiKey.organizationId),
    };
  }

  /** Returns the violations of the input that can be found without the database. */
  checkInput(input: CreateKeyInput): Violation[] {
    return [...findTextViolations(input), ...findGrantViolations(input, this.options.clock.now())];
  }

  /** Returns the violations of a change over the API that can be found without the database. */
  checkChange(change: KeyChange): Violation[] {
    return findChangeViolations(change, this.options.clock.now(), 'allowedAddresses.addresses');
  }

  /** Returns a violation for each reference that does not exist, as far as the caller may know it. */
  async checkReferences(caller: Principal, references: KeyReferences): Promise<Violation[]> {
    return await findUnknownReferences(caller.organizationId, references, this.options.referenceCheckers, caller);
  }

  /**
   * Returns the violations of the owner of a new key. An empty `ownerUserId` means the owner of the calling key, who
   * needs no check.
   */
  async checkOwner(
    caller: Principal,
    { ownerUserId, scopes }: Pick<CreateKeyInput, 'ownerUserId' | 'scopes'>,
  ): Promise<Violation[]> {
    if (ownerUserId === '') return [];
    return findOwnerViolations(
      ownerUserId,
      await this.options.uow.repos.members.find(caller.organizationId, ownerUserId),
      scopes,
    );
  }

  /**
   * Creates a key that has no more permissions than the caller; open limits are filled in from the limits of the
   * caller. Throws `validation_failed`, `scope_escalation`, `owner_required`.
   */
  async createApiKey(caller: Principal, input: CreateKeyInput): Promise<IssuedKey> {
    throwIfAny(this.checkInput(input));
    const { organizationId } = caller;
    const { uow, clock } = this.options;
    const violations = await this.checkReferences(caller, inheritOpenLimits(cleanGrant(input), caller));
    return await uow.transaction(async (repos) => {
      const current = await reloadPrincipal(repos, caller, clock, KEY_CHANGE_ACCESS);
      const grant = inheritOpenLimits(cleanGrant(input), current);
      assertNoPrivilegeEscalation(findExcessGrants(grant, current));
      const ownerUserId = input.ownerUserId || caller.ownerUserId;
      const key = {
        ...grant,
        name: input.name,
        note: input.note,
        ownerUserId,
        organizationId,
        rotatedFrom: '',
        isAdmin: false,
        canActAsOwner: canGrantOwnerRights(current, ownerUserId),
      };
      await assertCanChangeOwnersKey(repos, current, key);
      return await issueKeyForMember(repos, key, clock, violations);
    });
  }

  /** Returns a key. Throws `api_key_not_found`, also for a key with more permissions than a limited caller. */
  async getApiKey(caller: Principal, id: string): Promise<ApiKey> {
    const key = await this.options.uow.repos.apiKeys.get(caller.organizationId, id);
    assertVisible(caller, key);
    return key;
  }

  /**
   * Returns one page of the keys that the caller may see, newest first. Throws `validation_failed` for an invalid page
   * token.
   */
  async listApiKeys(caller: Principal, size: number | undefined, token: string): Promise<ApiKeyPage> {
    const { cursors, uow } = this.options;
    const listKey = [caller.organizationId, 'api_keys'];
    const limit = getPageSize(size);
    let after = cursors.decode<CreatedPosition>(listKey, token, 'pageToken');
    const visibleKeys: ApiKey[] = [];
    let isLast = false;
    // Invisible keys are filtered after the query, so a page may need several batches. One key more than the page shows
    // that there is a next page.
    while (!isLast && visibleKeys.length <= limit) {
      const batchSize = caller.resourceScope ? FILTERED_BATCH_SIZE : limit + 1;
      const keys = await uow.repos.apiKeys.list(caller.organizationId, after, batchSize);
      visibleKeys.push(...keys.filter((key) => canSee(caller, key)));
      const lastOfBatch = keys.at(-1);
      isLast = keys.length < batchSize || !lastOfBatch;
      after = lastOfBatch && getPosition(lastOfBatch);
      if (!isLast && visibleKeys.length <= limit) await setImmediate(); // lets other work run
    }
    const { items, next } = getPage(visibleKeys, limit, getPosition);
    return { items, nextPageToken: next ? cursors.encode(listKey, next) : '' };
  }

  /**
   * Changes the set fields. Throws `api_key_not_found`, `validation_failed`, `scope_escalation`, `owner_required`,
   * `version_conflict`, `api_key_inactive`.
   */
  async updateApiKey(caller: Principal, id: string, change: KeyChange, etag: string | undefined): Promise<ApiKey> {
    throwIfAny(this.checkChange(change));
    // The gateway connections of an existing key cannot be changed, so there are none to check.
    const violations = await this.checkReferences(caller, { connectionIds: [], restrictions: change.restrictions });
    return await this.changes.update(
      caller.organizationId,
      id,
      change,
      etag,
      this.createCallerLoader(caller),
      violations,
    );
  }

  /**
   * Revokes a key immediately. A revoked key stays unchanged. The caller needs no more than to see the key. Throws
   * `api_key_not_found`.
   */
  async revokeApiKey(caller: Principal, id: string): Promise<ApiKey> {
    return await this.changes.revoke(caller.organizationId, id, async (repos) => {
      const current = await reloadPrincipal(repos, caller, this.options.clock, KEY_CHANGE_ACCESS);
      return createKeyChangeCaller(current, (key) => assertVisible(current, key));
    });
  }

  /**
   * Replaces a key with a new one; the old one expires after `graceMs` milliseconds. Throws `api_key_not_found`,
   * `scope_escalation`, `owner_required`, `api_key_inactive`.
   */
  async rotateApiKey(caller: Principal, id: string, graceMs: number): Promise<RotatedKey> {
    return await this.changes.rotate(caller.organizationId, id, graceMs, async (repos) => {
      const keyCaller = await this.createCallerLoader(caller)(repos);
      const authorize = async (key: ApiKey): Promise<void> => {
        await keyCaller.authorize(key);
        if (key.isAdmin)
          throw new DomainError(
            'permission_denied',
            'scope_escalation',
            'an admin key can only be rotated on the command line: use `plantroom keys rotate`',
          );
      };
      return { ...keyCaller, authorize };
    });
  }

  /**
   * Returns a function that loads the caller again in the transaction of a key change, with a check of each key that is
   * changed: the caller must see the key, have all permissions of the changed key, and be an owner to change the key of
   * an owner.
   */
  private createCallerLoader(caller: Principal): LoadKeyChangeCaller {
    return async (repos) => {
      const current = await reloadPrincipal(repos, caller, this.options.clock, KEY_CHANGE_ACCESS);
      return createKeyChangeCaller(current, async (key, changed) => {
        assertVisible(current, key);
        assertNoPrivilegeEscalation(findExcessPermissions(changed ?? key, current));
        await assertCanChangeOwnersKey(repos, current, key);
      });
    };
  }
}

/** Creates the caller of a key change from a check of the key and the rule for keys with the rights of an owner. */
function createKeyChangeCaller(caller: Principal, authorize: KeyChangeCaller['authorize']): KeyChangeCaller {
  return { authorize, canGrantOwnerRights: (ownerUserId) => canGrantOwnerRights(caller, ownerUserId) };
}

/**
 * Whether a new key has the rights of an owner of the organization. An owner can create such keys for any user. Other
 * callers pass their own right on to keys of the same user.
 */
function canGrantOwnerRights(
  { isOwner, canActAsOwner, ownerUserId: callerUserId }: Principal,
  ownerUserId: string,
): boolean {
  return isOwner || (canActAsOwner && ownerUserId === callerUserId);
}

/**
 * Throws `owner_required` for a key whose user is an owner of the organization, if the caller is not an owner. The
 * organization must be locked, so that roles cannot change.
 */
async function assertCanChangeOwnersKey(
  { members }: AccessRepositories,
  caller: Principal,
  { organizationId, ownerUserId }: Pick<ApiKey, 'organizationId' | 'ownerUserId'>,
): Promise<void> {
  assertCanChangeKeyOfOwner(caller, (await members.find(organizationId, ownerUserId))?.roleId);
}

/**
 * Throws `api_key_not_found` if the caller may not see the key, so that the caller cannot find out whether it exists.
 */
function assertVisible(caller: Principal, key: ApiKey): void {
  if (!canSee(caller, key)) throw notFound('api_key', key.id);
}

function getPosition({ createdAt, id }: ApiKey): CreatedPosition {
  return { createdAt, id };
}

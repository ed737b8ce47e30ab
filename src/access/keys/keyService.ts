import { setImmediate } from 'node:timers/promises';
import { DomainError, notFound, throwIfAny, type Violation } from '../../kernel/errors';
import { pageOf, pageSize, type CreatedPosition, type Cursors } from '../../kernel/pages';
import type { Principal } from '../../kernel/principal';
import type { AccessRepositories } from '../accessRepositories';
import type { Organization } from '../organizations/organization';
import { refuseKeyOfOwner } from '../people/giver';
import { personalUser, type PersonalUser } from '../people/personalUser';
import type { ApiKey, KeyGrant } from './apiKey';
import { beyondOf, beyondOwn, refuseBeyond, sees, withinOwn } from './beyondOwn';
import { freshCaller, TO_CHANGE_KEYS } from './freshCaller';
import { cleanGrant, grantViolations, textViolations } from './grantRules';
import { issueKeyForMember, type IssuedKey } from './issueKey';
import { changeViolations, KeyChanges, type Asking, type KeyChange, type KeyChangesOptions, type RotatedKey } from './keyChanges';
import { ownerViolations, unknownReferences, type MissingThings, type Named } from './keyReferences';

// A key can be limited to two thousand things, and SQLite reads them on this thread.
const SOME = 25;

/** What this service stands on. */
export interface KeyServiceOptions extends KeyChangesOptions {
  readonly cursors: Cursors;
  readonly missing: MissingThings;
}

/** A key as it is asked for. */
export interface WantedKey extends KeyGrant {
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

/** API keys as their organization's own keys manage them: nobody gives more than it holds, and a limited key sees only those that do no more than itself. */
export class KeyService {
  private readonly changes: KeyChanges;

  constructor(private readonly options: KeyServiceOptions) {
    this.changes = new KeyChanges(options);
  }

  /** The calling key, its owner and its organization. */
  async whoAmI(principal: Principal): Promise<{ apiKey: ApiKey; user: PersonalUser; organization: Organization }> {
    const { apiKeys, users, members, organizations } = this.options.uow.repos;
    const apiKey = await apiKeys.get(principal.organizationId, principal.keyId);
    return { apiKey, user: await personalUser({ users, members }, principal), organization: await organizations.get(apiKey.organizationId) };
  }

  /** What is wrong with a wanted key by itself, as far as can be told without the database. */
  checkWanted(wanted: WantedKey): Violation[] {
    return [...textViolations(wanted), ...grantViolations(wanted, this.options.clock.now())];
  }

  /** The same of a change over the API. */
  checkChange(change: KeyChange): Violation[] {
    return changeViolations(change, this.options.clock.now(), 'allowedAddresses.addresses');
  }

  /** Names what a wanted key or a change refers to that is not there, as far as the caller may know. */
  async checkReferences(caller: Principal, named: Named): Promise<Violation[]> {
    return await unknownReferences(caller.organizationId, named, this.options.missing, caller);
  }

  /** What is wrong with the owner of a wanted key; the owner of the calling key holds what that one does. */
  async checkOwner(caller: Principal, { ownerUserId, scopes }: Pick<WantedKey, 'ownerUserId' | 'scopes'>): Promise<Violation[]> {
    if (ownerUserId === '') return [];
    return ownerViolations(ownerUserId, await this.options.uow.repos.members.find(caller.organizationId, ownerUserId), scopes);
  }

  /** Makes a key that does no more than the caller's; what it leaves open is taken from that one, where that is limited. Throws `validation_failed`, `scope_exceeds_own`, `owner_required`. */
  async createApiKey(caller: Principal, wanted: WantedKey): Promise<IssuedKey> {
    throwIfAny(this.checkWanted(wanted));
    const { organizationId } = caller;
    const { uow, clock } = this.options;
    const found = await this.checkReferences(caller, withinOwn(cleanGrant(wanted), caller));
    return await uow.transaction(async (repos) => {
      const now = await freshCaller(repos, caller, clock, TO_CHANGE_KEYS);
      const grant = withinOwn(cleanGrant(wanted), now);
      refuseBeyond(beyondOwn(grant, now));
      const key = { ...grant, name: wanted.name, note: wanted.note, ownerUserId: wanted.ownerUserId || caller.ownerUserId, organizationId, rotatedFrom: '', isAdmin: false };
      await refuseOwnersKey(repos, now, key);
      return await issueKeyForMember(repos, key, clock, found);
    });
  }

  /** Throws `api_key_not_found`, also for a key that does more than a limited caller. */
  async getApiKey(caller: Principal, id: string): Promise<ApiKey> {
    const key = await this.options.uow.repos.apiKeys.get(caller.organizationId, id);
    refuseUnseen(caller, key);
    return key;
  }

  /** One page of the keys that the caller sees, newest first. Throws `validation_failed` for a token that is not of this list. */
  async listApiKeys(caller: Principal, size: number | undefined, token: string): Promise<ApiKeyPage> {
    const { cursors, uow } = this.options;
    const list = [caller.organizationId, 'api_keys'];
    const limit = pageSize(size);
    let after = cursors.decode<CreatedPosition>(list, token, 'pageToken');
    const seen: ApiKey[] = [];
    let isLast = false;
    while (!isLast && seen.length <= limit) {
      const most = caller.reach ? SOME : limit + 1;
      const keys = await uow.repos.apiKeys.list(caller.organizationId, after, most);
      seen.push(...keys.filter((key) => sees(caller, key)));
      const last = keys.at(-1);
      isLast = keys.length < most || !last;
      after = last && positionOf(last);
      if (!isLast && seen.length <= limit) await setImmediate();
    }
    const { items, next } = pageOf(seen, limit, positionOf);
    return { items, nextPageToken: next ? cursors.encode(list, next) : '' };
  }

  /** Changes the given fields. Throws `api_key_not_found`, `validation_failed`, `scope_exceeds_own`, `owner_required`, `changed_meanwhile`, `api_key_ended`. */
  async updateApiKey(caller: Principal, id: string, change: KeyChange, etag: string | undefined): Promise<ApiKey> {
    throwIfAny(this.checkChange(change));
    const found = await this.checkReferences(caller, { connectionIds: [], restrictions: change.restrictions });
    return await this.changes.update(caller.organizationId, id, change, etag, this.changing(caller), found);
  }

  /** Ends a key at once. A revoked one stays as it is. Throws `api_key_not_found`. */
  async revokeApiKey(caller: Principal, id: string): Promise<ApiKey> {
    return await this.changes.revoke(caller.organizationId, id, async (repos) => {
      const now = await freshCaller(repos, caller, this.options.clock, TO_CHANGE_KEYS);
      return (key) => refuseUnseen(now, key);
    });
  }

  /** Makes a new key in place of one, which ends after `grace` milliseconds. Throws `api_key_not_found`, `scope_exceeds_own`, `owner_required`, `api_key_ended`. */
  async rotateApiKey(caller: Principal, id: string, grace: number): Promise<RotatedKey> {
    return await this.changes.rotate(caller.organizationId, id, grace, async (repos) => {
      const may = await this.changing(caller)(repos);
      return async (key) => {
        await may(key);
        if (key.isAdmin) throw new DomainError('permission_denied', 'scope_exceeds_own', 'an admin key is made on the command line alone; rotate it with `plantroom keys rotate`');
      };
    });
  }

  private changing(caller: Principal): Asking {
    return async (repos) => {
      const now = await freshCaller(repos, caller, this.options.clock, TO_CHANGE_KEYS);
      return async (key, changed) => {
        refuseUnseen(now, key);
        refuseBeyond(beyondOf(changed ?? key, now));
        await refuseOwnersKey(repos, now, key);
      };
    };
  }
}

/** To be called while the organization is held: nobody becomes an owner meanwhile. */
async function refuseOwnersKey({ members }: AccessRepositories, caller: Principal, { organizationId, ownerUserId }: Pick<ApiKey, 'organizationId' | 'ownerUserId'>): Promise<void> {
  refuseKeyOfOwner(caller, (await members.find(organizationId, ownerUserId))?.roleId);
}

function refuseUnseen(caller: Principal, key: ApiKey): void {
  if (!sees(caller, key)) throw notFound('api_key', key.id);
}

function positionOf({ createdAt, id }: ApiKey): CreatedPosition {
  return { createdAt, id };
}

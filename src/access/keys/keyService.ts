import type { UnitOfWork } from '../../database';
import type { Clock } from '../../kernel/clock';
import { DomainError, type Violation } from '../../kernel/errors';
import { pageOf, pageSize, type CreatedPosition, type Cursors } from '../../kernel/pages';
import type { Principal } from '../../kernel/principal';
import type { AccessRepositories } from '../accessRepositories';
import { beyondOwn, grantViolations, type ApiKey, type KeyGrant } from './apiKey';
import { checkGrant, issueKey, unknownConnections, type IssuedKey, type MissingConnections } from './issueKey';
import type { Organization } from '../organizations/organization';
import { revokeKey } from './revokeKey';
import type { User } from '../people/user';

/** What this service stands on. */
export interface KeyServiceOptions {
  readonly uow: UnitOfWork<AccessRepositories>;
  readonly clock: Clock;
  readonly cursors: Cursors;
  readonly missingConnections: MissingConnections;
  /** Called once a change of a key is on disk; Authentication forgets the key then. */
  readonly keyChanged: (keyId: string) => void;
}

/** API keys as their organization's own keys manage them. */
export class KeyService {
  constructor(private readonly options: KeyServiceOptions) {}

  /** The calling key, its owner and its organization. */
  async whoAmI(principal: Principal): Promise<{ apiKey: ApiKey; user: User; organization: Organization }> {
    const { apiKeys, users, organizations } = this.options.uow.repos;
    const apiKey = await apiKeys.get(principal.organizationId, principal.keyId);
    return { apiKey, user: await users.get(apiKey.ownerUserId), organization: await organizations.get(apiKey.organizationId) };
  }

  /** What is wrong with a grant by itself, as far as can be told without the database. */
  checkGrant(grant: KeyGrant): Violation[] {
    return grantViolations(grant, this.options.clock.now());
  }

  /** Names those of the connections of a grant that do not exist. */
  async checkConnections(organizationId: string, ids: readonly string[]): Promise<Violation[]> {
    return await unknownConnections(organizationId, ids, this.options.missingConnections);
  }

  /**
   * Makes a key that belongs to its creator's owner and does no more than its creator's key. Without an end it ends when that one does.
   * Throws `validation_failed`, `scope_exceeds_own`.
   */
  async createApiKey(caller: Principal, name: string, wanted: KeyGrant): Promise<IssuedKey> {
    const { clock, uow, missingConnections } = this.options;
    const grant = { ...wanted, expiresAt: wanted.expiresAt ?? caller.expiresAt };
    await checkGrant(caller.organizationId, grant, missingConnections, clock);
    const beyond = beyondOwn(grant, caller);
    if (beyond.length > 0) throw scopeExceedsOwn(beyond);
    return await issueKey(uow.repos, { ...grant, name, note: '', rotatedFrom: '', organizationId: caller.organizationId, ownerUserId: caller.ownerUserId, isAdmin: false }, clock);
  }

  /** One page of the organization's keys, newest first. Throws `validation_failed` for a token that is not of this list. */
  async listApiKeys(organizationId: string, size: number | undefined, token: string): Promise<{ items: readonly ApiKey[]; nextPageToken: string }> {
    const { cursors, uow } = this.options;
    const list = [organizationId, 'api_keys'];
    const limit = pageSize(size);
    const after = cursors.decode<CreatedPosition>(list, token, 'pageToken');
    const keys = await uow.repos.apiKeys.list(organizationId, after, limit + 1);
    const { items, next } = pageOf(keys, limit, ({ createdAt, id }) => ({ createdAt, id }));
    return { items, nextPageToken: next ? cursors.encode(list, next) : '' };
  }

  /** Ends a key at once. A revoked one stays as it is. Throws `api_key_not_found`. */
  async revokeApiKey(organizationId: string, id: string): Promise<ApiKey> {
    const { uow, clock, keyChanged } = this.options;
    return await revokeKey(uow, clock, keyChanged, organizationId, id);
  }
}

function scopeExceedsOwn(beyond: readonly string[]): DomainError {
  return new DomainError('permission_denied', 'scope_exceeds_own', `a key cannot give more than it holds: ${beyond.join(', ')}; leave that out, or create the key with one that holds it`);
}

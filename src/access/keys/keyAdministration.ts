import type { UnitOfWork } from '../../database';
import type { Clock } from '../../kernel/clock';
import { DomainError, validationFailed } from '../../kernel/errors';
import type { AccessRepositories } from '../accessRepositories';
import type { ApiKey, KeyGrant } from './apiKey';
import { checkGrant, issueKey, type IssuedKey, type MissingConnections } from './issueKey';
import { cleanName } from '../name';
import { revokeKey } from './revokeKey';
import type { UserService } from '../people/userService';

/** How long the old key still works after a rotation unless something else is asked for, in milliseconds. */
const A_DAY = 24 * 60 * 60_000;

/** A key from the command line. */
export interface KeyFromCommandLine extends Omit<KeyGrant, 'restrictions' | 'allowedAddresses'>, Partial<Pick<KeyGrant, 'restrictions' | 'allowedAddresses'>> {
  readonly name: string;
  readonly note?: string;
  /** May act on the whole installation. */
  readonly isAdmin: boolean;
  /** Undefined: the only user there is. */
  readonly ownerUserId: string | undefined;
}

/** API keys as the one who runs the installation manages them: any scope, and admin keys. */
export class KeyAdministration {
  constructor(
    private readonly deps: {
      readonly uow: UnitOfWork<AccessRepositories>;
      readonly clock: Clock;
      readonly users: UserService;
      readonly missingConnections: MissingConnections;
      readonly keyChanged: (keyId: string) => void;
    },
  ) {}

  /** Throws `organization_not_found`, `user_not_found`, `user_ambiguous`, `validation_failed`. */
  async create(organizationId: string, wanted: KeyFromCommandLine): Promise<IssuedKey> {
    const { uow, clock, users, missingConnections } = this.deps;
    const organization = await uow.repos.organizations.get(organizationId);
    const owner = await users.pick(wanted.ownerUserId);
    const name = cleanName(wanted.name, 'name');
    const scopes = [...new Set(wanted.scopes)];
    if (scopes.length === 0) throw validationFailed([{ field: 'scopes', description: 'is empty; name at least one scope' }]);
    const grant = { scopes, connectionIds: wanted.connectionIds, allConnections: wanted.allConnections, restrictions: wanted.restrictions, allowedAddresses: wanted.allowedAddresses ?? [], expiresAt: wanted.expiresAt };
    await checkGrant(organization.id, grant, missingConnections, clock);
    return await issueKey(uow.repos, { ...grant, name, note: wanted.note ?? '', rotatedFrom: '', organizationId: organization.id, ownerUserId: owner.id, isAdmin: wanted.isAdmin }, clock);
  }

  /** All keys of an organization, newest first, the revoked and expired ones too. */
  async list(organizationId: string): Promise<ApiKey[]> {
    return await this.deps.uow.repos.apiKeys.list(organizationId);
  }

  /** Ends a key at once in this process, within a second in others. A revoked one stays as it is. Throws `api_key_not_found`. */
  async revoke(organizationId: string, id: string): Promise<ApiKey> {
    const { uow, clock, keyChanged } = this.deps;
    return await revokeKey(uow, clock, keyChanged, organizationId, id);
  }

  /**
   * Makes a new key that does what the old one does and lets the old one end after `grace` milliseconds (0: now; a day unless said).
   * Throws `api_key_not_found`, `validation_failed` (grace), `api_key_ended` (a revoked or expired key is not rotated).
   */
  async rotate(organizationId: string, id: string, grace = A_DAY): Promise<IssuedKey> {
    if (!Number.isInteger(grace) || grace < 0) throw validationFailed([{ field: 'grace', description: 'is not a time; give 0 or more milliseconds' }]);
    const { uow, clock, keyChanged } = this.deps;
    return await uow.transaction(async (repos, db) => {
      const old = await repos.apiKeys.get(organizationId, id);
      const now = clock.now();
      if (old.revokedAt !== undefined || (old.expiresAt ?? Infinity) <= now) {
        throw new DomainError('conflict', 'api_key_ended', `the API key ${old.prefix} was revoked or has expired; create a new one instead`);
      }
      await repos.apiKeys.endBy(organizationId, id, now + grace, now);
      db.afterCommit(() => keyChanged(id));
      return await issueKey(repos, { ...old, rotatedFrom: old.id }, clock);
    });
  }
}

import type { Database } from '../../database';
import { UnitOfWork } from '../../database';
import type { Clock } from '../../kernel/clock';
import { createAccessRepositories } from '../accessRepositories';
import { CommandLineAudit } from '../audit/commandLineAudit';
import type { Logger } from '../../kernel/logger';
import type { ApiKey } from './apiKey';
import { loadCommandLineCaller, KeyChanges } from './keyChanges';

/** An active key, with the names of its organization and its owner. */
export interface LiveKey extends ApiKey {
  readonly organizationName: string;
  readonly ownerName: string;
}

/** Lists and revokes the active keys of all organizations, for a restore. */
export class ActiveKeys {
  private readonly uow;

  constructor(private readonly deps: { readonly database: Database; readonly clock: Clock; readonly log: Logger }) {
    this.uow = new UnitOfWork(deps.database, createAccessRepositories);
  }

  /**
   * Lists the keys that are neither revoked nor expired and whose owner is a member; ordered by organization, then
   * newest first.
   */
  async list(): Promise<LiveKey[]> {
    const { organizations, users, apiKeys, knownKeys } = this.uow.repos;
    const activeKeys: LiveKey[] = [];
    for (const { id: organizationId, name: organizationName } of await organizations.list()) {
      for (const key of await apiKeys.list(organizationId)) {
        if (key.revokedAt !== undefined || (key.expiresAt ?? Infinity) <= this.deps.clock.now()) continue;
        const knownKey = await knownKeys.find(organizationId, key.id);
        // The key, its owner's membership or its organization no longer exists.
        if (!knownKey || knownKey.isOrphaned) continue;
        activeKeys.push({
          ...key,
          organizationName,
          ownerName: (await users.getIncludingRemoved(key.ownerUserId)).name,
        });
      }
    }
    return activeKeys;
  }

  /** Revokes the keys and records each revocation in the audit trail. */
  async revoke(keys: readonly LiveKey[]): Promise<void> {
    const changes = new KeyChanges({ uow: this.uow, clock: this.deps.clock, keyChanged: () => {} });
    const audit = new CommandLineAudit(this.deps);
    for (const { organizationId, id } of keys) {
      await audit.recordChange(
        'keys revoke',
        { organizationId, resource: `api-keys/${id}` },
        async () => await changes.revoke(organizationId, id, loadCommandLineCaller),
      );
    }
  }
}

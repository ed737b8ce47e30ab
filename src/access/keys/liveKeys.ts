import type { Database } from '../../database';
import { UnitOfWork } from '../../database';
import type { Clock } from '../../kernel/clock';
import { accessRepositories } from '../accessRepositories';
import { CommandLineAudit } from '../audit/changes';
import type { Logger } from '../../kernel/logger';
import type { ApiKey } from './apiKey';
import { KeyChanges } from './keyChanges';

/** A key that opens something, with the names of what it belongs to. */
export interface LiveKey extends ApiKey {
  readonly organizationName: string;
  readonly ownerName: string;
}

/** The keys that work, in all organizations: for whoever restores the installation. */
export class LiveKeys {
  private readonly uow;

  constructor(private readonly deps: { readonly database: Database; readonly clock: Clock; readonly log: Logger }) {
    this.uow = new UnitOfWork(deps.database, accessRepositories);
  }

  /** Those that are neither revoked nor expired nor without a member who owns them; by organization, newest first. */
  async list(): Promise<LiveKey[]> {
    const { organizations, users, apiKeys, knownKeys } = this.uow.repos;
    const live: LiveKey[] = [];
    for (const { id: organizationId, name: organizationName } of await organizations.list()) {
      for (const key of await apiKeys.list(organizationId)) {
        if (key.revokedAt !== undefined || (key.expiresAt ?? Infinity) <= this.deps.clock.now()) continue;
        if ((await knownKeys.find(organizationId, key.id))?.isOrphaned !== false) continue;
        live.push({ ...key, organizationName, ownerName: (await users.getEver(key.ownerUserId)).name });
      }
    }
    return live;
  }

  /** Revokes these keys, each with its event in the audit trail. */
  async revoke(keys: readonly LiveKey[]): Promise<void> {
    const changes = new KeyChanges({ uow: this.uow, clock: this.deps.clock, keyChanged: () => {} });
    const audit = new CommandLineAudit(this.deps);
    for (const { organizationId, id } of keys) {
      await audit.change('keys revoke', { organizationId, resource: `api-keys/${id}` }, async () => await changes.revoke(organizationId, id, async () => () => {}));
    }
  }
}

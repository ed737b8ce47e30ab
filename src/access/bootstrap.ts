import type { UnitOfWork } from '../database';
import type { Clock } from '../kernel/clock';
import { newId } from '../kernel/ids';
import { SCOPES } from '../kernel/scopes';
import type { AccessRepositories } from './accessRepositories';
import { issueKey, type IssuedKey } from './keys/issueKey';
import { NEW_RETENTION, type Organization } from './organizations/organization';
import { OWNER } from './people/member';
import type { User } from './people/user';

/** What the first start made. The key is shown this once. */
export interface Bootstrapped extends IssuedKey {
  readonly organization: Organization;
  readonly user: User;
}

/**
 * On an empty database: an organization, a user who owns it, and a key with every scope and all gateway connections (no admin key), all or nothing.
 * Undefined on any other. Of several servers that start at once on one database, one does it.
 */
export async function bootstrap(uow: UnitOfWork<AccessRepositories>, clock: Clock): Promise<Bootstrapped | undefined> {
  if ((await uow.repos.organizations.list()).length > 0) return undefined;
  return await uow.transaction(async (repos) => {
    const now = clock.now();
    // Others wait here until this transaction is done, and then find it taken.
    if (!(await repos.settings.claim('bootstrapped_at', String(now)))) return undefined;
    const organization = { id: newId(), name: 'Plantroom', createdAt: now, updatedAt: now, revision: 1, ...NEW_RETENTION };
    const user = { id: newId(), name: 'Administrator', email: '', createdAt: now, updatedAt: now, removedAt: undefined };
    await repos.organizations.create(organization);
    await repos.users.create(user);
    await repos.members.create(organization.id, { userId: user.id, roleId: OWNER, at: now });
    const wanted = { organizationId: organization.id, ownerUserId: user.id, name: 'First key', note: '', scopes: SCOPES, connectionIds: [], allConnections: true, restrictions: undefined, allowedAddresses: [], rotatedFrom: '', isAdmin: false, expiresAt: undefined };
    const issued = await issueKey(repos, wanted, clock);
    return { organization, user, ...issued };
  });
}

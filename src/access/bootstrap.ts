import type { UnitOfWork } from '../database';
import type { Clock } from '../kernel/clock';
import { newId } from '../kernel/ids';
import { SCOPES } from '../kernel/scopes';
import type { AccessRepositories } from './accessRepositories';
import { issueKey, type IssuedKey } from './keys/issueKey';
import { NEW_RETENTION, type Organization } from './organizations/organization';
import { OWNER } from './people/member';
import type { User } from './people/user';

/** The records that the first start created. The key is shown only once. */
export interface Bootstrapped extends IssuedKey {
  readonly organization: Organization;
  readonly user: User;
}

/**
 * Creates the first records in one transaction, if the database has no organization; otherwise returns undefined. The
 * records are an organization, a user who owns the organization, and a key with every scope and all gateway
 * connections, which is not an admin key. If several servers start on one database at the same time, only one of them
 * creates the records. `onCreated` is called before the commit; if it throws, everything is rolled back.
 */
export async function bootstrap(
  uow: UnitOfWork<AccessRepositories>,
  clock: Clock,
  onCreated?: (created: Bootstrapped) => void,
): Promise<Bootstrapped | undefined> {
  if ((await uow.repos.organizations.list()).length > 0) return undefined;
  return await uow.transaction(async (repos) => {
    const now = clock.now();
    // Other servers wait here until this transaction ends; then the setting exists.
    if (!(await repos.settings.claim('bootstrapped_at', String(now)))) return undefined;
    const organization = {
      id: newId(),
      name: 'Plantroom',
      createdAt: now,
      updatedAt: now,
      revision: 1,
      ...NEW_RETENTION,
    };
    const user = {
      id: newId(),
      name: 'Administrator',
      email: '',
      createdAt: now,
      updatedAt: now,
      removedAt: undefined,
    };
    await repos.organizations.create(organization);
    await repos.users.create(user);
    await repos.members.create(organization.id, { userId: user.id, roleId: OWNER, at: now });
    const newKey = {
      organizationId: organization.id,
      ownerUserId: user.id,
      name: 'First key',
      note: '',
      scopes: SCOPES,
      connectionIds: [],
      allConnections: true,
      restrictions: undefined,
      allowedAddresses: [],
      rotatedFrom: '',
      isAdmin: false,
      canActAsOwner: true,
      expiresAt: undefined,
    };
    const issued = await issueKey(repos, newKey, clock);
    const created = { organization, user, ...issued };
    onCreated?.(created);
    return created;
  });
}

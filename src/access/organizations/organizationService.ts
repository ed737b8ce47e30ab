import type { UnitOfWork } from '../../database';
import type { Clock } from '../../kernel/clock';
import { DomainError, throwIfAny } from '../../kernel/errors';
import { checkEtag } from '../../kernel/etags';
import { newId } from '../../kernel/ids';
import { pageOf, pageSize, type CreatedPosition, type Cursors } from '../../kernel/pages';
import type { Principal } from '../../kernel/principal';
import type { AccessRepositories } from '../accessRepositories';
import { freshCaller, TO_CHANGE_PEOPLE } from '../keys/freshCaller';
import { cleanName } from '../name';
import { OWNER } from '../people/member';
import { UserService } from '../people/userService';
import { changedOrganization, NEW_RETENTION, retentionViolations, type Organization, type OrganizationChange } from './organization';

/** One page of organizations; `nextPageToken` is empty on the last. */
export interface OrganizationPage {
  readonly organizations: readonly Organization[];
  readonly nextPageToken: string;
}

/** The organizations of the installation: all of them for the command line and for admin keys, its own for any other key. */
export class OrganizationService {
  private readonly users: UserService;

  constructor(private readonly deps: { readonly uow: UnitOfWork<AccessRepositories>; readonly clock: Clock }) {
    this.users = new UserService(deps);
  }

  /** With the named person as its owner, or the only one there is; for `caller` as it is then, unless it is the command line. Throws `validation_failed`, `user_not_found`, `user_ambiguous`. */
  async create(name: string, ownerUserId?: string, caller?: Principal): Promise<Organization> {
    const { uow, clock } = this.deps;
    const now = clock.now();
    const organization = { id: newId(), name: cleanName(name, 'name'), createdAt: now, updatedAt: now, revision: 1, ...NEW_RETENTION };
    const owner = await this.users.pick(ownerUserId);
    await uow.transaction(async (repos) => {
      const { organizations, users, members } = repos;
      if (caller) await freshCaller(repos, caller, clock, TO_CHANGE_PEOPLE);
      await users.lock(owner.id);
      await organizations.create(organization);
      await members.create(organization.id, { userId: owner.id, roleId: OWNER, at: now });
    });
    return organization;
  }

  /** The organization of the caller. Throws `organization_not_found` for any other. */
  async getOwn(ownId: string, id: string): Promise<Organization> {
    if (id !== ownId) throw notTheOwn(id);
    return await this.deps.uow.repos.organizations.get(id);
  }

  /** Changes the organization of the caller. Throws `organization_not_found` for any other, and what update throws. */
  async updateOwn(ownId: string, id: string, change: OrganizationChange, etag: string | undefined): Promise<Organization> {
    if (id !== ownId) throw notTheOwn(id);
    return await this.update(id, change, etag);
  }

  /** Changes the given fields of any organization. Throws `organization_not_found`, `changed_meanwhile`, `validation_failed`. */
  async update(id: string, change: OrganizationChange, etag?: string): Promise<Organization> {
    const name = change.name === undefined ? undefined : cleanName(change.name, 'name');
    return await this.deps.uow.transaction(async ({ organizations }) => {
      const before = await organizations.lock(id);
      checkEtag('organization', before.revision, etag);
      const organization = changedOrganization(before, { ...change, name }, this.deps.clock.now());
      throwIfAny(retentionViolations(organization));
      await organizations.update(organization);
      return organization;
    });
  }

  /** All of them, oldest first. */
  async list(): Promise<Organization[]> {
    return await this.deps.uow.repos.organizations.list();
  }

  /** One page, newest first: of all for an admin key, else its own alone. Throws `validation_failed` for a token that this list did not give out. */
  async page({ organizationId, isAdmin }: Principal, cursors: Cursors, requestedSize: number | undefined, pageToken: string): Promise<OrganizationPage> {
    const { organizations } = this.deps.uow.repos;
    const name = [organizationId, 'organizations', String(isAdmin)];
    const after = cursors.decode<CreatedPosition>(name, pageToken, 'pageToken');
    if (!isAdmin) return { organizations: [await organizations.get(organizationId)], nextPageToken: '' };
    const size = pageSize(requestedSize);
    const page = pageOf(await organizations.listNewest(after, size + 1), size, ({ createdAt, id }) => ({ createdAt, id }));
    return { organizations: page.items, nextPageToken: page.next ? cursors.encode(name, page.next) : '' };
  }

  /** The named one, or the only one if none is named. Throws `organization_not_found`, `organization_ambiguous`. */
  async pick(id: string | undefined): Promise<Organization> {
    if (id !== undefined) return await this.deps.uow.repos.organizations.get(id);
    const organizations = await this.list();
    if (organizations.length === 1 && organizations[0]) return organizations[0];
    throw new DomainError('conflict', 'organization_ambiguous', `there are ${organizations.length} organizations; name the one that is meant by its id`);
  }
}

function notTheOwn(id: string): DomainError {
  return new DomainError('not_found', 'organization_not_found', `organization ${JSON.stringify(id)} is not the one that the key belongs to; give that one (WhoAmI tells its id)`, { metadata: { organization_id: id } });
}

import type { UnitOfWork } from '../../database';
import type { Clock } from '../../kernel/clock';
import { DomainError, throwIfAny } from '../../kernel/errors';
import { checkEtag } from '../../kernel/etags';
import { newId } from '../../kernel/ids';
import { getPage, getPageSize, type CreatedPosition, type Cursors } from '../../kernel/pages';
import type { Principal } from '../../kernel/principal';
import type { AccessRepositories } from '../accessRepositories';
import { reloadPrincipal, ORGANIZATION_CHANGE_ACCESS } from '../keys/reloadPrincipal';
import { cleanName } from '../name';
import { OWNER } from '../people/member';
import { UserService } from '../people/userService';
import {
  applyChange,
  NEW_RETENTION,
  findRetentionViolations,
  type Organization,
  type OrganizationChange,
} from './organization';

/** One page of organizations; `nextPageToken` is empty on the last page. */
export interface OrganizationPage {
  readonly organizations: readonly Organization[];
  readonly nextPageToken: string;
}

/** The maximum number of organizations that the error lists. */
const MAX_NAMED_ORGANIZATIONS = 20;

/** Manages organizations: all of them for the command line and for admin keys, only its own for any other key. */
export class OrganizationService {
  private readonly users: UserService;

  constructor(private readonly deps: { readonly uow: UnitOfWork<AccessRepositories>; readonly clock: Clock }) {
    this.users = new UserService(deps);
  }

  /**
   * Creates an organization. Its owner is the given user, or the only user of the installation. `caller`: reloaded in
   * the transaction; undefined for the command line. Throws `validation_failed`, `user_not_found`, `user_ambiguous`.
   */
  async create(name: string, ownerUserId?: string, caller?: Principal): Promise<Organization> {
    const { uow, clock } = this.deps;
    const now = clock.now();
    const organization = {
      id: newId(),
      name: cleanName(name, 'name'),
      createdAt: now,
      updatedAt: now,
      revision: 1,
      ...NEW_RETENTION,
    };
    const owner = await this.users.getByIdOrOnly(ownerUserId);
    await uow.transaction(async (repos) => {
      const { organizations, users, members } = repos;
      if (caller) await reloadPrincipal(repos, caller, clock, ORGANIZATION_CHANGE_ACCESS);
      await users.lock(owner.id);
      await organizations.create(organization);
      await members.create(organization.id, { userId: owner.id, roleId: OWNER, at: now });
    });
    return organization;
  }

  /** Returns the organization of the caller. Throws `organization_not_found` for any other id. */
  async getCallersOrganization(callerOrganizationId: string, id: string): Promise<Organization> {
    if (id !== callerOrganizationId) throw notOwnOrganization(id);
    return await this.deps.uow.repos.organizations.get(id);
  }

  /**
   * Changes the organization of the caller. Throws `organization_not_found` for any other id, and the errors of update.
   */
  async updateCallersOrganization(
    callerOrganizationId: string,
    id: string,
    change: OrganizationChange,
    etag: string | undefined,
  ): Promise<Organization> {
    if (id !== callerOrganizationId) throw notOwnOrganization(id);
    return await this.update(id, change, etag);
  }

  /**
   * Changes the set fields of any organization. Throws `organization_not_found`, `version_conflict`,
   * `validation_failed`.
   */
  async update(id: string, change: OrganizationChange, etag?: string): Promise<Organization> {
    const name = change.name === undefined ? undefined : cleanName(change.name, 'name');
    return await this.deps.uow.transaction(async ({ organizations }) => {
      const before = await organizations.lock(id);
      checkEtag('organization', before.revision, etag);
      const organization = applyChange(before, { ...change, name }, this.deps.clock.now());
      throwIfAny(findRetentionViolations(organization));
      await organizations.update(organization);
      return organization;
    });
  }

  /** Lists all organizations, oldest first. */
  async list(): Promise<Organization[]> {
    return await this.deps.uow.repos.organizations.list();
  }

  /**
   * Returns one page, newest first: of all organizations for an admin key, otherwise only the caller's own. Throws
   * `validation_failed` for an invalid page token.
   */
  async listPage(
    { organizationId, isAdmin }: Principal,
    cursors: Cursors,
    requestedSize: number | undefined,
    pageToken: string,
  ): Promise<OrganizationPage> {
    const { organizations } = this.deps.uow.repos;
    const listKey = [organizationId, 'organizations', String(isAdmin)];
    const after = cursors.decode<CreatedPosition>(listKey, pageToken, 'pageToken');
    // The list of a key that is no admin key has one item, but an invalid token is rejected too.
    if (!isAdmin) return { organizations: [await organizations.get(organizationId)], nextPageToken: '' };
    const size = getPageSize(requestedSize);
    const rows = await organizations.listNewest(after, size + 1); // one extra row shows whether there is a next page
    const page = getPage(rows, size, ({ createdAt, id }) => ({ createdAt, id }));
    return { organizations: page.items, nextPageToken: page.next ? cursors.encode(listKey, page.next) : '' };
  }

  /**
   * Returns the organization with the id; without an id the only organization. Throws `organization_not_found`,
   * `organization_ambiguous`.
   */
  async getByIdOrOnly(id: string | undefined): Promise<Organization> {
    if (id !== undefined) return await this.deps.uow.repos.organizations.get(id);
    const organizations = await this.list();
    if (organizations.length === 1 && organizations[0]) return organizations[0];
    const listed = organizations
      .slice(0, MAX_NAMED_ORGANIZATIONS)
      .map((organization) => `${organization.id} (${organization.name})`)
      .join(', ');
    const advice =
      organizations.length === 0
        ? 'create one first (plantroom organizations create)'
        : `select one by its id: ${listed}`;
    throw new DomainError(
      'conflict',
      'organization_ambiguous',
      `there are ${organizations.length} organizations: ${advice}`,
    );
  }
}

/**
 * Creates the error for an id that is not the organization of the calling key; it does not reveal whether that
 * organization exists.
 */
function notOwnOrganization(id: string): DomainError {
  return new DomainError(
    'not_found',
    'organization_not_found',
    `organization ${JSON.stringify(id)} is not the organization of the API key: use the organization id that WhoAmI returns`,
    { metadata: { organization_id: id } },
  );
}

import type { UnitOfWork } from '../../database';
import type { Clock } from '../../kernel/clock';
import { DomainError, throwIfAny } from '../../kernel/errors';
import { checkEtag } from '../../kernel/etags';
import { newId } from '../../kernel/ids';
import type { AccessRepositories } from '../accessRepositories';
import { cleanName } from '../name';
import { changedOrganization, NEW_RETENTION, retentionViolations, type Organization, type OrganizationChange } from './organization';

/** The organizations of the installation: all of them for the command line, its own for a key. */
export class OrganizationService {
  constructor(private readonly deps: { readonly uow: UnitOfWork<AccessRepositories>; readonly clock: Clock }) {}

  /** Throws `validation_failed`, `name_taken`. */
  async create(name: string): Promise<Organization> {
    const now = this.deps.clock.now();
    const organization = { id: newId(), name: cleanName(name, 'name'), createdAt: now, updatedAt: now, revision: 1, ...NEW_RETENTION };
    await this.deps.uow.repos.organizations.create(organization);
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

  /** Changes the given fields of any organization. Throws `organization_not_found`, `changed_meanwhile`, `validation_failed`, `name_taken`. */
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

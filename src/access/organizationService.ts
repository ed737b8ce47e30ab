import type { UnitOfWork } from '../database';
import type { Clock } from '../kernel/clock';
import { DomainError } from '../kernel/errors';
import { newId } from '../kernel/ids';
import type { AccessRepositories } from './accessRepositories';
import { cleanName } from './name';
import type { Organization } from './organization';

/** The organizations of the installation, for the command line. */
export class OrganizationService {
  constructor(private readonly deps: { readonly uow: UnitOfWork<AccessRepositories>; readonly clock: Clock }) {}

  /** Throws `validation_failed`, `name_taken`. */
  async create(name: string): Promise<Organization> {
    const now = this.deps.clock.now();
    const organization = { id: newId(), name: cleanName(name, 'name'), createdAt: now, updatedAt: now };
    await this.deps.uow.repos.organizations.create(organization);
    return organization;
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

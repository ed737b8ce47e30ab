import { foldName, uniqueOr, type Db } from '../database';
import { DomainError } from '../kernel/errors';
import type { Organization } from './organization';

interface OrganizationRow {
  id: string;
  name: string;
  created_at: number;
  updated_at: number;
}

/** The organizations themselves; the one repository that no organization stands before. Assumes clean names. */
export class OrganizationRepository {
  constructor(private readonly db: Db) {}

  /** Throws `name_taken`. */
  async create(organization: Organization): Promise<void> {
    const { id, name, createdAt, updatedAt } = organization;
    const row = { id, name, name_folded: foldName(name), created_at: createdAt, updated_at: updatedAt };
    await uniqueOr(this.db.dialect, () => organizationNameTaken(name), () => this.db.knex('organizations').insert(row));
  }

  /** Undefined if there is none. */
  async find(id: string): Promise<Organization | undefined> {
    const row = await this.db.knex('organizations').where({ id }).first<OrganizationRow | undefined>();
    return row && organizationFromRow(row);
  }

  /** Throws `organization_not_found`. */
  async get(id: string): Promise<Organization> {
    const organization = await this.find(id);
    if (!organization) throw organizationNotFound(id);
    return organization;
  }

  /** All of them, oldest first. */
  async list(): Promise<Organization[]> {
    const rows = await this.db.knex('organizations').orderBy(['created_at', 'id']).select<OrganizationRow[]>();
    return rows.map(organizationFromRow);
  }
}

function organizationFromRow(row: OrganizationRow): Organization {
  return { id: row.id, name: row.name, createdAt: row.created_at, updatedAt: row.updated_at };
}

function organizationNotFound(id: string): DomainError {
  return new DomainError('not_found', 'organization_not_found', `organization ${JSON.stringify(id)} does not exist; list the organizations to see those that do`, { metadata: { organization_id: id } });
}

function organizationNameTaken(name: string): DomainError {
  return new DomainError('already_exists', 'name_taken', `another organization is called ${JSON.stringify(name)}; choose another name`);
}

import { foldName, uniqueOr, type Db } from '../../database';
import { DomainError } from '../../kernel/errors';
import type { Organization } from './organization';

interface OrganizationRow {
  id: string;
  name: string;
  created_at: number;
  updated_at: number;
  revision: number;
  reading_retention_days: number;
  thin_readings_after_days: number | null;
}

/** The organizations themselves; the one repository that no organization stands before. Assumes clean names. */
export class OrganizationRepository {
  constructor(private readonly db: Db) {}

  /** Throws `name_taken`. */
  async create(organization: Organization): Promise<void> {
    const { id, createdAt } = organization;
    const row = { id, created_at: createdAt, ...changeableOf(organization) };
    await uniqueOr(this.db.dialect, () => organizationNameTaken(organization.name), () => this.db.knex('organizations').insert(row));
  }

  /** Writes all that can change. Throws `name_taken`. */
  async update(organization: Organization): Promise<void> {
    const { id, name } = organization;
    await uniqueOr(this.db.dialect, () => organizationNameTaken(name), () => this.db.knex('organizations').where({ id }).update(changeableOf(organization)));
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

  /** As get; nobody else changes it until the end of the transaction. */
  async lock(id: string): Promise<Organization> {
    await this.db.dialect.lockForUpdate(this.db.knex('organizations').where({ id }).select('id'));
    return await this.get(id);
  }

  /** All of them, oldest first. */
  async list(): Promise<Organization[]> {
    const rows = await this.db.knex('organizations').orderBy(['created_at', 'id']).select<OrganizationRow[]>();
    return rows.map(organizationFromRow);
  }
}

function changeableOf({ name, updatedAt, revision, readingRetentionDays, thinReadingsAfterDays }: Organization) {
  return { name, name_folded: foldName(name), updated_at: updatedAt, revision, reading_retention_days: readingRetentionDays, thin_readings_after_days: thinReadingsAfterDays ?? null };
}

function organizationFromRow(row: OrganizationRow): Organization {
  return {
    id: row.id,
    name: row.name,
    createdAt: row.created_at,
    updatedAt: row.updated_at,
    revision: row.revision,
    readingRetentionDays: row.reading_retention_days,
    thinReadingsAfterDays: row.thin_readings_after_days ?? undefined,
  };
}

function organizationNotFound(id: string): DomainError {
  return new DomainError('not_found', 'organization_not_found', `organization ${JSON.stringify(id)} does not exist; list the organizations to see those that do`, { metadata: { organization_id: id } });
}

function organizationNameTaken(name: string): DomainError {
  return new DomainError('already_exists', 'name_taken', `another organization is called ${JSON.stringify(name)}; choose another name`);
}

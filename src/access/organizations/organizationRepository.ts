import { foldName, type Db } from '../../database';
import { DomainError } from '../../kernel/errors';
import type { CreatedPosition } from '../../kernel/pages';
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

/** An organization of which only the data is left. */
export interface DeletedOrganization {
  readonly id: string;
  /** Unix milliseconds. */
  readonly deletedAt: number;
}

/** The organizations themselves; the one repository that no organization stands before. One that is deleted is not there. Assumes clean names. */
export class OrganizationRepository {
  constructor(private readonly db: Db) {}

  async create(organization: Organization): Promise<void> {
    const { id, createdAt } = organization;
    await this.db.knex('organizations').insert({ id, created_at: createdAt, ...changeableOf(organization) });
  }

  /** Writes all that can change. */
  async update(organization: Organization): Promise<void> {
    await this.db.knex('organizations').where('id', organization.id).update(changeableOf(organization));
  }

  /** Undefined if there is none. */
  async find(id: string): Promise<Organization | undefined> {
    const row = await this.existing().where({ id }).first<OrganizationRow | undefined>();
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
    const rows = await this.existing().orderBy(['created_at', 'id']).select<OrganizationRow[]>();
    return rows.map(organizationFromRow);
  }

  /** At most `limit` of them after a position, newest first. */
  async listNewest(after: CreatedPosition | undefined, limit: number): Promise<Organization[]> {
    const query = this.existing();
    if (after) query.whereRaw('(created_at, id) < (?, ?)', [after.createdAt, after.id]);
    const rows = await query.orderBy('created_at', 'desc').orderBy('id', 'desc').limit(limit).select<OrganizationRow[]>('*');
    return rows.map(organizationFromRow);
  }

  /** Deletes one that is locked; from now on only its data is there. */
  async markDeleted(id: string, at: number): Promise<void> {
    await this.db.knex('organizations').where({ id }).update({ deleted_at: at });
  }

  /** Those of which data may be left, the one that was deleted first at the head. */
  async listDeleted(): Promise<DeletedOrganization[]> {
    const rows: { id: string; deleted_at: number }[] = await this.db.knex('organizations').whereNotNull('deleted_at').whereNull('emptied_at').orderBy('deleted_at').select('id', 'deleted_at');
    return rows.map((row) => ({ id: row.id, deletedAt: row.deleted_at }));
  }

  /** Nothing is left of a deleted one but its row, which says nothing any more. */
  async markEmptied(id: string, at: number): Promise<void> {
    await this.db.knex('organizations').where({ id }).whereNotNull('deleted_at').update({ name: '', name_folded: id, emptied_at: at });
  }

  /** Removes the rows of those that are empty, which looks through all that may belong to an organization: only before anybody is served. */
  async removeEmptied(): Promise<void> {
    await this.db.knex('organizations').whereNotNull('emptied_at').delete();
  }

  private existing() {
    return this.db.knex('organizations').whereNull('deleted_at');
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

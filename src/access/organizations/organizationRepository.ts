import { normalizeForSearch, type Db } from '../../database';
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

/** A deleted organization whose data is not completely deleted yet. */
export interface DeletedOrganization {
  readonly id: string;
  /** Unix milliseconds. */
  readonly deletedAt: number;
}

/** Reads and writes organizations. Deleted organizations are not found. Expects validated names. */
export class OrganizationRepository {
  constructor(private readonly db: Db) {}

  /** Stores a new organization. */
  async create(organization: Organization): Promise<void> {
    const { id, createdAt } = organization;
    await this.db.knex('organizations').insert({ id, created_at: createdAt, ...getChangeableColumns(organization) });
  }

  /** Stores all changeable fields. */
  async update(organization: Organization): Promise<void> {
    await this.db.knex('organizations').where('id', organization.id).update(getChangeableColumns(organization));
  }

  /** Returns an organization; undefined if there is none. */
  async find(id: string): Promise<Organization | undefined> {
    const row = await this.selectExisting().where({ id }).first<OrganizationRow | undefined>();
    return row && organizationFromRow(row);
  }

  /** Returns an organization. Throws `organization_not_found`. */
  async get(id: string): Promise<Organization> {
    const organization = await this.find(id);
    if (!organization) throw organizationNotFound(id);
    return organization;
  }

  /**
   * Like get; locks the organization until the end of the transaction. The row is read only after it is locked, so that
   * a concurrent deletion is noticed.
   */
  async lock(id: string): Promise<Organization> {
    await this.db.dialect.lockForUpdate(this.db.knex('organizations').where({ id }).select('id'));
    return await this.get(id);
  }

  /** Lists all organizations, oldest first. */
  async list(): Promise<Organization[]> {
    const rows = await this.selectExisting().orderBy(['created_at', 'id']).select<OrganizationRow[]>();
    return rows.map(organizationFromRow);
  }

  /** Lists at most `limit` organizations after a position, newest first. */
  async listNewest(after: CreatedPosition | undefined, limit: number): Promise<Organization[]> {
    const query = this.selectExisting();
    if (after) query.whereRaw('(created_at, id) < (?, ?)', [after.createdAt, after.id]);
    const rows = await query
      .orderBy('created_at', 'desc')
      .orderBy('id', 'desc')
      .limit(limit)
      .select<OrganizationRow[]>('*');
    return rows.map(organizationFromRow);
  }

  /** Marks a locked organization as deleted; its data is deleted later. `deletedAt`: Unix milliseconds. */
  async markDeleted(id: string, deletedAt: number): Promise<void> {
    await this.db.knex('organizations').where({ id }).update({ deleted_at: deletedAt });
  }

  /** Lists deleted organizations that may still have data, in the order of their deletion. */
  async listDeleted(): Promise<DeletedOrganization[]> {
    const rows: { id: string; deleted_at: number }[] = await this.db
      .knex('organizations')
      .whereNotNull('deleted_at')
      .whereNull('emptied_at')
      .orderBy('deleted_at')
      .select('id', 'deleted_at');
    return rows.map((row) => ({ id: row.id, deletedAt: row.deleted_at }));
  }

  /** Marks a deleted organization as empty and clears its name; only the row remains. */
  async markEmptied(id: string, emptiedAt: number): Promise<void> {
    await this.db
      .knex('organizations')
      .where({ id })
      .whereNotNull('deleted_at')
      .update({ name: '', name_folded: id, emptied_at: emptiedAt });
  }

  /**
   * Deletes the rows of organizations that are marked as emptied. This scans all tables that may refer to an
   * organization, so it must run before the server accepts calls.
   */
  async deleteEmptied(): Promise<void> {
    await this.db.knex('organizations').whereNotNull('emptied_at').delete();
  }

  /** Selects the organizations that are not deleted. */
  private selectExisting() {
    return this.db.knex('organizations').whereNull('deleted_at');
  }
}

/** Returns the columns of the fields that a change can set. */
function getChangeableColumns({ name, updatedAt, revision, readingRetentionDays, downsampleAfterDays }: Organization) {
  return {
    name,
    name_folded: normalizeForSearch(name),
    updated_at: updatedAt,
    revision,
    reading_retention_days: readingRetentionDays,
    thin_readings_after_days: downsampleAfterDays ?? null,
  };
}

function organizationFromRow(row: OrganizationRow): Organization {
  return {
    id: row.id,
    name: row.name,
    createdAt: row.created_at,
    updatedAt: row.updated_at,
    revision: row.revision,
    readingRetentionDays: row.reading_retention_days,
    downsampleAfterDays: row.thin_readings_after_days ?? undefined,
  };
}

function organizationNotFound(id: string): DomainError {
  return new DomainError(
    'not_found',
    'organization_not_found',
    `organization ${JSON.stringify(id)} does not exist: use an id from the list of organizations`,
    { metadata: { organization_id: id } },
  );
}

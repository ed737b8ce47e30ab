import type { Knex } from 'knex';
import { normalizeForSearch, onUniqueViolation, type Db } from '../../database';
import { DomainError } from '../../kernel/errors';
import { findSystemRole, type Role } from './role';

interface RoleRow {
  id: string;
  organization_id: string;
  name: string;
  name_folded: string;
  description: string;
  scopes: string;
  revision: number;
  created_at: number;
  updated_at: number;
}

/**
 * Reads and writes the custom roles of organizations; system roles are part of the program. Expects validated names and
 * known scopes, and an organization that the caller has locked (OrganizationRepository.lock).
 */
export class RoleRepository {
  constructor(private readonly db: Db) {}

  /** Stores a new role. Throws `name_taken`. */
  async create(organizationId: string, role: Role): Promise<void> {
    const { id, createdAt } = role;
    await this.runUnique(
      role,
      async () =>
        await this.db
          .knex('roles')
          .insert({ id, organization_id: organizationId, created_at: createdAt, ...getChangeableColumns(role) }),
    );
  }

  /** Returns a system role or a custom role of the organization; undefined if there is none. */
  async find(organizationId: string, id: string): Promise<Role | undefined> {
    const systemRole = findSystemRole(id);
    if (systemRole) return systemRole;
    const row = await this.inOrganization(organizationId).where({ id }).first<RoleRow | undefined>();
    return row && roleFromRow(row);
  }

  /** Returns those of these ids that are system roles or custom roles of the organization. */
  async findExistingIds(organizationId: string, ids: readonly string[]): Promise<Set<string>> {
    const customIds = await this.inOrganization(organizationId)
      .whereIn('id', [...ids])
      .pluck<string[]>('id');
    return new Set([...ids.filter(findSystemRole), ...customIds]);
  }

  /**
   * Lists at most `limit` custom roles (undefined: all), ordered by normalized name. `after`: the normalized name after
   * which the list starts.
   */
  async listCustom(organizationId: string, after?: string, limit?: number): Promise<Role[]> {
    const query = this.inOrganization(organizationId).orderBy('name_folded');
    if (after !== undefined) query.where('name_folded', '>', after);
    if (limit !== undefined) query.limit(limit);
    const rows = await query.select<RoleRow[]>('*');
    return rows.map(roleFromRow);
  }

  /** Stores all changeable fields. Throws `name_taken`. */
  async update(organizationId: string, role: Role): Promise<void> {
    await this.runUnique(
      role,
      async () => await this.inOrganization(organizationId).where({ id: role.id }).update(getChangeableColumns(role)),
    );
  }

  /** Deletes a custom role that no member has. */
  async delete(organizationId: string, id: string): Promise<void> {
    await this.inOrganization(organizationId).where({ id }).delete();
  }

  /** Runs a write; throws `name_taken` if another role of the organization has the same name. */
  private async runUnique(role: Role, write: () => Promise<unknown>): Promise<void> {
    await onUniqueViolation(this.db.dialect, () => roleNameTaken(role.name), write);
  }

  private inOrganization(organizationId: string): Knex.QueryBuilder {
    return this.db.knex('roles').where('organization_id', organizationId);
  }
}

/** Creates the error for a name that a system role or another custom role of the organization already has. */
export function roleNameTaken(name: string): DomainError {
  return new DomainError(
    'already_exists',
    'name_taken',
    `a role named ${JSON.stringify(name)} already exists (names are case-insensitive): choose another name`,
  );
}

/** Returns the columns of the fields that a change can set. */
function getChangeableColumns({ name, description, scopes, revision, updatedAt }: Role) {
  return {
    name,
    name_folded: normalizeForSearch(name),
    description,
    scopes: JSON.stringify(scopes),
    revision,
    updated_at: updatedAt,
  };
}

function roleFromRow(row: RoleRow): Role {
  return {
    id: row.id,
    organizationId: row.organization_id,
    name: row.name,
    description: row.description,
    scopes: JSON.parse(row.scopes) as string[],
    isSystem: false,
    createdAt: row.created_at,
    updatedAt: row.updated_at,
    revision: row.revision,
  };
}

import type { Knex } from 'knex';
import { foldName, uniqueOr, type Db } from '../../database';
import { DomainError } from '../../kernel/errors';
import { systemRoleOf, type Role } from './role';

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
 * Roles of organizations' own; the four that every one has are in the program. Assumes clean names and known scopes, and that whoever
 * changes one has locked the organization (OrganizationRepository.lock).
 */
export class RoleRepository {
  constructor(private readonly db: Db) {}

  /** Throws `name_taken`. */
  async create(organizationId: string, role: Role): Promise<void> {
    const { id, createdAt } = role;
    await this.unique(role, async () => await this.db.knex('roles').insert({ id, organization_id: organizationId, created_at: createdAt, ...changeableOf(role) }));
  }

  /** One of the four, or of the organization's own; undefined if there is none. */
  async find(organizationId: string, id: string): Promise<Role | undefined> {
    const system = systemRoleOf(id);
    if (system) return system;
    const row = await this.inOrganization(organizationId).where({ id }).first<RoleRow | undefined>();
    return row && roleFromRow(row);
  }

  /** At most `limit` (undefined: all) of the organization's own, by name, after a folded name. */
  async listOwn(organizationId: string, after?: string, limit?: number): Promise<Role[]> {
    const query = this.inOrganization(organizationId).orderBy('name_folded');
    if (after !== undefined) query.where('name_folded', '>', after);
    if (limit !== undefined) query.limit(limit);
    const rows = await query.select<RoleRow[]>('*');
    return rows.map(roleFromRow);
  }

  /** Writes all that can change. Throws `name_taken`. */
  async update(organizationId: string, role: Role): Promise<void> {
    await this.unique(role, async () => await this.inOrganization(organizationId).where({ id: role.id }).update(changeableOf(role)));
  }

  /** Deletes one of the organization's own that nobody has. */
  async delete(organizationId: string, id: string): Promise<void> {
    await this.inOrganization(organizationId).where({ id }).delete();
  }

  private async unique(role: Role, write: () => Promise<unknown>): Promise<void> {
    await uniqueOr(this.db.dialect, () => roleNameTaken(role.name), write);
  }

  private inOrganization(organizationId: string): Knex.QueryBuilder {
    return this.db.knex('roles').where('organization_id', organizationId);
  }
}

/** Another role of the organization, or one of the four, has this name. */
export function roleNameTaken(name: string): DomainError {
  return new DomainError('already_exists', 'name_taken', `a role called ${JSON.stringify(name)} exists already, whatever the case; choose another name`);
}

function changeableOf({ name, description, scopes, revision, updatedAt }: Role) {
  return { name, name_folded: foldName(name), description, scopes: JSON.stringify(scopes), revision, updated_at: updatedAt };
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

import type { Knex } from 'knex';
import { uniqueOr, type Db } from '../../database';
import { DomainError } from '../../kernel/errors';
import { OWNER, type Member, type Membership, type NewMember } from './member';
import { systemRoleOf } from './role';

interface RoleOfMemberRow {
  organization_id: string;
  role_id: string;
  /** Null for the four that every organization has. */
  role_name: string | null;
  role_scopes: string | null;
  created_at: number;
}

interface MemberRow extends RoleOfMemberRow {
  user_id: string;
  user_name: string;
  email: string;
  revision: number;
  updated_at: number;
}

/** Position in a list of members, newest first. */
export interface MemberPosition {
  readonly createdAt: number;
  readonly userId: string;
}

/**
 * The people of organizations. Whoever changes who is a member, or what a member is, locks the organization first
 * (OrganizationRepository.lock), so that two at once cannot both be the last but one owner.
 */
export class MemberRepository {
  constructor(private readonly db: Db) {}

  /** Throws `already_member`. */
  async create(organizationId: string, { userId, roleId, at }: NewMember): Promise<void> {
    const row = { organization_id: organizationId, user_id: userId, role_id: roleId, revision: 1, created_at: at, updated_at: at };
    await uniqueOr(this.db.dialect, () => alreadyMember(userId), () => this.db.knex('members').insert(row));
  }

  /** Undefined if the person is no member. */
  async find(organizationId: string, userId: string): Promise<Member | undefined> {
    const [row] = await this.members(organizationId).where('m.user_id', userId);
    return row && memberFromRow(row);
  }

  /** Throws `member_not_found`. */
  async get(organizationId: string, userId: string): Promise<Member> {
    const member = await this.find(organizationId, userId);
    if (!member) throw memberNotFound(userId);
    return member;
  }

  /**
   * Until the end of the transaction nobody else changes who is a member of the organization, or what, nor its keys. Locks the organization,
   * also one that was deleted: do it before anything else, before keys and then people, and of several organizations in the order of their ids.
   */
  async hold(organizationId: string): Promise<void> {
    await this.db.dialect.lockForUpdate(this.db.knex('organizations').where('id', organizationId).select('id'));
  }

  /** As find, and holds the organization. For whoever writes down what only a member may have. */
  async lock(organizationId: string, userId: string): Promise<Member | undefined> {
    await this.hold(organizationId);
    return await this.find(organizationId, userId);
  }

  /** Whether the person is a member or had a key here once. */
  async knows(organizationId: string, userId: string): Promise<boolean> {
    const hasKey = this.db.knex('api_keys').where({ organization_id: organizationId, owner_user_id: userId }).select('owner_user_id as user_id');
    const known = await this.inOrganization(organizationId).where('user_id', userId).select('user_id').union([hasKey]);
    return known.length > 0;
  }

  /** At most `limit` (undefined: all) after a position, newest first. */
  async list(organizationId: string, after?: MemberPosition, limit?: number): Promise<Member[]> {
    const query = this.members(organizationId).orderBy('m.created_at', 'desc').orderBy('m.user_id', 'desc');
    if (after) query.whereRaw('(m.created_at, m.user_id) < (?, ?)', [after.createdAt, after.userId]);
    if (limit !== undefined) query.limit(limit);
    return (await query).map(memberFromRow);
  }

  /** How many have a role. */
  async countByRole(organizationId: string, roleId: string): Promise<number> {
    const [row] = await this.inOrganization(organizationId).where('role_id', roleId).count<{ n: number | string }[]>('* as n');
    return Number(row?.n ?? 0);
  }

  /** How many owners there are. */
  async countOwners(organizationId: string): Promise<number> {
    return await this.countByRole(organizationId, OWNER);
  }

  /** Gives a member another role: the next revision. */
  async setRole(organizationId: string, userId: string, roleId: string, at: number): Promise<void> {
    await this.inOrganization(organizationId).where('user_id', userId).update({ role_id: roleId, updated_at: at }).increment('revision', 1);
  }

  /** Whether the person was a member. Revoke the keys of the person in the same transaction, after this. */
  async remove(organizationId: string, userId: string): Promise<boolean> {
    return (await this.inOrganization(organizationId).where('user_id', userId).delete()) > 0;
  }

  /** Removes all of them, of an organization that goes; how many there were. */
  async removeAll(organizationId: string): Promise<number> {
    return await this.inOrganization(organizationId).delete();
  }

  /** What a person is in an organization; undefined: nothing. */
  async findMembership(organizationId: string, userId: string): Promise<Membership | undefined> {
    const [membership] = await this.membershipsWhere({ 'm.organization_id': organizationId, 'm.user_id': userId });
    return membership;
  }

  /** What a person is in each organization, by when the person came; not in those that are being deleted. The person says which they are. */
  async listMemberships(userId: string): Promise<Membership[]> {
    return await this.membershipsWhere({ 'm.user_id': userId });
  }

  private async membershipsWhere(where: Readonly<Record<string, string>>): Promise<Membership[]> {
    const query = this.withRoles().join('organizations as o', 'o.id', 'm.organization_id').where(where).whereNull('o.deleted_at').orderBy(['m.created_at', 'm.organization_id']);
    const rows = await query.select<(RoleOfMemberRow & { organization_name: string })[]>('m.*', 'r.name as role_name', 'r.scopes as role_scopes', 'o.name as organization_name');
    return rows.map((row) => ({ organizationId: row.organization_id, organizationName: row.organization_name, createdAt: row.created_at, ...roleFromRow(row) }));
  }

  private members(organizationId: string): Knex.QueryBuilder<object, MemberRow[]> {
    const query = this.withRoles().join('users as u', 'u.id', 'm.user_id').where('m.organization_id', organizationId);
    return query.select<MemberRow[]>('m.*', 'u.name as user_name', 'u.email', 'r.name as role_name', 'r.scopes as role_scopes');
  }

  private withRoles(): Knex.QueryBuilder {
    return this.db.knex('members as m').leftJoin('roles as r', (join) => join.on('r.organization_id', 'm.organization_id').on('r.id', 'm.role_id'));
  }

  private inOrganization(organizationId: string): Knex.QueryBuilder {
    return this.db.knex('members').where('organization_id', organizationId);
  }
}

function memberFromRow(row: MemberRow): Member {
  return {
    organizationId: row.organization_id,
    userId: row.user_id,
    name: row.user_name,
    email: row.email,
    ...roleFromRow(row),
    createdAt: row.created_at,
    updatedAt: row.updated_at,
    revision: row.revision,
  };
}

function roleFromRow({ role_id: roleId, role_name: name, role_scopes: scopes }: RoleOfMemberRow): Pick<Member, 'roleId' | 'roleName' | 'scopes'> {
  const system = systemRoleOf(roleId);
  if (system) return { roleId, roleName: system.name, scopes: system.scopes };
  return { roleId, roleName: name ?? '', scopes: scopes === null ? [] : (JSON.parse(scopes) as string[]) };
}

/** A person is not one of the organization's. */
export function memberNotFound(userId: string): DomainError {
  return new DomainError('not_found', 'member_not_found', `user ${JSON.stringify(userId)} is no member of this organization; list the members to see those that are`, { metadata: { user_id: userId } });
}

function alreadyMember(userId: string): DomainError {
  return new DomainError('already_exists', 'already_member', `user ${JSON.stringify(userId)} is a member of this organization already; update the member to give another role`, { metadata: { user_id: userId } });
}

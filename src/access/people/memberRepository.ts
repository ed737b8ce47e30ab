import type { Knex } from 'knex';
import { onUniqueViolation, type Db } from '../../database';
import { DomainError } from '../../kernel/errors';
import { OWNER, type Member, type Membership, type NewMember } from './member';
import { findSystemRole } from './role';

interface RoleOfMemberRow {
  organization_id: string;
  role_id: string;
  /** Null for system roles. */
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

/** A position in a list of members, newest first. */
export interface MemberPosition {
  readonly createdAt: number;
  readonly userId: string;
}

/**
 * Reads and writes members. A transaction that changes members or their roles must first lock the organization
 * (OrganizationRepository.lock), so that two concurrent changes cannot remove the last two owners.
 */
export class MemberRepository {
  constructor(private readonly db: Db) {}

  /** Adds a member. Throws `already_member`. */
  async create(organizationId: string, { userId, roleId, at }: NewMember): Promise<void> {
    const row = {
      organization_id: organizationId,
      user_id: userId,
      role_id: roleId,
      revision: 1,
      created_at: at,
      updated_at: at,
    };
    await onUniqueViolation(
      this.db.dialect,
      () => alreadyMember(userId),
      () => this.db.knex('members').insert(row),
    );
  }

  /** Returns a member; undefined if the user is not a member. */
  async find(organizationId: string, userId: string): Promise<Member | undefined> {
    const [row] = await this.selectMembers(organizationId).where('m.user_id', userId);
    return row && memberFromRow(row);
  }

  /** Returns a member. Throws `member_not_found`. */
  async get(organizationId: string, userId: string): Promise<Member> {
    const member = await this.find(organizationId, userId);
    if (!member) throw memberNotFound(userId);
    return member;
  }

  /**
   * Locks the organization until the end of the transaction, even a deleted one: no other transaction can change its
   * members, their roles or its keys. Call it first, before keys and users are locked, and lock several organizations
   * in the order of their ids.
   */
  async lockOrganization(organizationId: string): Promise<void> {
    await this.db.dialect.lockForUpdate(this.db.knex('organizations').where('id', organizationId).select('id'));
  }

  /** Like find; also locks the organization. Use it before storing something that requires a member. */
  async lock(organizationId: string, userId: string): Promise<Member | undefined> {
    await this.lockOrganization(organizationId);
    return await this.find(organizationId, userId);
  }

  /** Whether the organization knows the user: the user is a member, or ever had a key of the organization. */
  async hasKnownUser(organizationId: string, userId: string): Promise<boolean> {
    const ownersOfKeys = this.db
      .knex('api_keys')
      .where({ organization_id: organizationId, owner_user_id: userId })
      .select('owner_user_id as user_id');
    const rows = await this.inOrganization(organizationId)
      .where('user_id', userId)
      .select('user_id')
      .union([ownersOfKeys]);
    return rows.length > 0;
  }

  /** Lists at most `limit` members (undefined: all) after a position, newest first. */
  async list(organizationId: string, after?: MemberPosition, limit?: number): Promise<Member[]> {
    const query = this.selectMembers(organizationId).orderBy('m.created_at', 'desc').orderBy('m.user_id', 'desc');
    if (after) query.whereRaw('(m.created_at, m.user_id) < (?, ?)', [after.createdAt, after.userId]);
    if (limit !== undefined) query.limit(limit);
    return (await query).map(memberFromRow);
  }

  /** Counts the members with a role. */
  async countByRole(organizationId: string, roleId: string): Promise<number> {
    const [row] = await this.inOrganization(organizationId)
      .where('role_id', roleId)
      .count<{ n: number | string }[]>('* as n');
    return Number(row?.n ?? 0);
  }

  /** Lists at most `limit` owners, oldest membership first. */
  async listOwners(organizationId: string, limit: number): Promise<Member[]> {
    return (
      await this.selectMembers(organizationId)
        .where('m.role_id', OWNER)
        .orderBy(['m.created_at', 'm.user_id'])
        .limit(limit)
    ).map(memberFromRow);
  }

  /** Counts the owners. */
  async countOwners(organizationId: string): Promise<number> {
    return await this.countByRole(organizationId, OWNER);
  }

  /** Assigns another role to a member, as the next revision. `changedAt`: Unix milliseconds. */
  async setRole(organizationId: string, userId: string, roleId: string, changedAt: number): Promise<void> {
    await this.inOrganization(organizationId)
      .where('user_id', userId)
      .update({ role_id: roleId, updated_at: changedAt })
      .increment('revision', 1);
  }

  /**
   * Removes a member. Returns whether the user was a member. Afterwards, revoke the keys of the user in the same
   * transaction.
   */
  async remove(organizationId: string, userId: string): Promise<boolean> {
    return (await this.inOrganization(organizationId).where('user_id', userId).delete()) > 0;
  }

  /** Removes all members of a deleted organization; returns how many there were. */
  async removeAll(organizationId: string): Promise<number> {
    return await this.inOrganization(organizationId).delete();
  }

  /** Returns the membership of a user in an organization; undefined if there is none. */
  async findMembership(organizationId: string, userId: string): Promise<Membership | undefined> {
    const [membership] = await this.listMembershipsWhere({ 'm.organization_id': organizationId, 'm.user_id': userId });
    return membership;
  }

  /**
   * Lists the memberships of a user, oldest first, except in organizations that are being deleted. The user id is the
   * only condition; no organization is given.
   */
  async listMemberships(userId: string): Promise<Membership[]> {
    return await this.listMembershipsWhere({ 'm.user_id': userId });
  }

  /** Lists the memberships that match, oldest first, except in organizations that are being deleted. */
  private async listMembershipsWhere(where: Readonly<Record<string, string>>): Promise<Membership[]> {
    const query = this.withRoles()
      .join('organizations as o', 'o.id', 'm.organization_id')
      .where(where)
      .whereNull('o.deleted_at')
      .orderBy(['m.created_at', 'm.organization_id']);
    const rows = await query.select<(RoleOfMemberRow & { organization_name: string })[]>(
      'm.*',
      'r.name as role_name',
      'r.scopes as role_scopes',
      'o.name as organization_name',
    );
    return rows.map((row) => ({
      organizationId: row.organization_id,
      organizationName: row.organization_name,
      createdAt: row.created_at,
      ...roleFromRow(row),
    }));
  }

  /** Selects the members of an organization with the name and the address of the user and a custom role. */
  private selectMembers(organizationId: string): Knex.QueryBuilder<object, MemberRow[]> {
    const query = this.withRoles().join('users as u', 'u.id', 'm.user_id').where('m.organization_id', organizationId);
    return query.select<MemberRow[]>(
      'm.*',
      'u.name as user_name',
      'u.email',
      'r.name as role_name',
      'r.scopes as role_scopes',
    );
  }

  /**
   * Selects members with their custom roles; for system roles, which are not stored, the columns of the role are null.
   */
  private withRoles(): Knex.QueryBuilder {
    return this.db
      .knex('members as m')
      .leftJoin('roles as r', (join) => join.on('r.organization_id', 'm.organization_id').on('r.id', 'm.role_id'));
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

/** Returns the role of a member. System roles come from the program, custom roles from the row. */
function roleFromRow({
  role_id: roleId,
  role_name: name,
  role_scopes: scopes,
}: RoleOfMemberRow): Pick<Member, 'roleId' | 'roleName' | 'scopes'> {
  const systemRole = findSystemRole(roleId);
  if (systemRole) return { roleId, roleName: systemRole.name, scopes: systemRole.scopes };
  return { roleId, roleName: name ?? '', scopes: scopes === null ? [] : (JSON.parse(scopes) as string[]) };
}

/** Creates the error for a user that is not a member of the organization. */
export function memberNotFound(userId: string): DomainError {
  return new DomainError(
    'not_found',
    'member_not_found',
    `user ${JSON.stringify(userId)} is not a member of this organization: use a user from the list of members`,
    { metadata: { user_id: userId } },
  );
}

function alreadyMember(userId: string): DomainError {
  return new DomainError(
    'already_exists',
    'already_member',
    `user ${JSON.stringify(userId)} is already a member of this organization: update the member to change the role`,
    { metadata: { user_id: userId } },
  );
}

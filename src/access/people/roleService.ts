import { normalizeForSearch, type UnitOfWork } from '../../database';
import type { Clock } from '../../kernel/clock';
import { DomainError, notFound, throwIfAny, type Violation } from '../../kernel/errors';
import { checkEtag } from '../../kernel/etags';
import { isId, newId } from '../../kernel/ids';
import { getPage, getPageSize, type Cursors } from '../../kernel/pages';
import type { Principal } from '../../kernel/principal';
import { isScope, SCOPES } from '../../kernel/scopes';
import type { AccessRepositories } from '../accessRepositories';
import { cleanName } from '../name';
import { reloadGrantor, assertCanGrant, type GrantingPrincipal } from './grantor';
import { SYSTEM_ROLES, type Role } from './role';
import { roleNameTaken } from './roleRepository';

/** The data of a new role. */
interface CreateRoleInput {
  readonly name: string;
  /** May be empty. */
  readonly description: string;
  readonly scopes: readonly string[];
}

/** The fields to change; undefined fields stay unchanged. */
type RoleChange = { readonly [Field in keyof CreateRoleInput]?: CreateRoleInput[Field] | undefined };

/** Dependencies of the services for members and roles. */
export interface PeopleOptions {
  readonly uow: UnitOfWork<AccessRepositories>;
  readonly clock: Clock;
  /** Called after a change of members or roles of an organization is stored. */
  readonly accessChanged: (organizationId: string) => void;
}

/** The position after a system role (`system`: its id), or after a custom role (`name`: its normalized name). */
interface RolePosition {
  readonly system?: string;
  readonly name?: string;
}

/** Manages roles: the system roles, which every organization has, and custom roles. */
export class RoleService {
  constructor(private readonly options: PeopleOptions) {}

  /** Returns the violations of a list of scopes. */
  checkScopes(scopes: readonly string[]): Violation[] {
    return scopes.flatMap((scope, index) =>
      isScope(scope)
        ? []
        : [
            {
              field: `scopes[${index}]`,
              description: `${JSON.stringify(scope)} is not a scope: use one of ${SCOPES.join(', ')}`,
            },
          ],
    );
  }

  /** Lists all roles: the system roles, then the custom roles by name. */
  async list(organizationId: string): Promise<Role[]> {
    return [...SYSTEM_ROLES, ...(await this.options.uow.repos.roles.listCustom(organizationId))];
  }

  /**
   * Returns one page of roles, or all roles if neither `size` nor `token` is set. Throws `validation_failed` for an
   * invalid page token.
   */
  async listPage(
    organizationId: string,
    cursors: Cursors,
    size: number | undefined,
    token: string,
  ): Promise<{ items: readonly Role[]; nextPageToken: string }> {
    if (!size && token === '') return { items: await this.list(organizationId), nextPageToken: '' };
    const listKey = [organizationId, 'roles'];
    const after = cursors.decode<RolePosition>(listKey, token, 'pageToken');
    const limit = getPageSize(size);
    // System roles come first, so a page that starts after a custom role contains none. Without a position, findIndex
    // returns -1, and the page starts with the first system role.
    const firstIndex = SYSTEM_ROLES.findIndex(({ id }) => id === after?.system) + 1;
    const systemRoles = after?.name === undefined ? SYSTEM_ROLES.slice(firstIndex) : [];
    const customRoles = await this.options.uow.repos.roles.listCustom(organizationId, after?.name, limit + 1);
    const { items, next } = getPage([...systemRoles, ...customRoles], limit, (role): RolePosition =>
      role.isSystem ? { system: role.id } : { name: normalizeForSearch(role.name) },
    );
    return { items, nextPageToken: next ? cursors.encode(listKey, next) : '' };
  }

  /** Creates a role. Throws `validation_failed`, `name_taken`, `scope_escalation`. */
  async create(caller: GrantingPrincipal | Principal, organizationId: string, input: CreateRoleInput): Promise<Role> {
    const { uow, clock } = this.options;
    const name = cleanName(input.name, 'name');
    throwIfAny(this.checkScopes(input.scopes));
    return await uow.transaction(async (repos) => {
      const grantor = await reloadGrantor(repos, caller, clock);
      await repos.organizations.lock(organizationId);
      assertCanGrant(grantor, input.scopes);
      assertNotSystemName(name);
      const now = clock.now();
      const role = {
        id: newId(),
        organizationId,
        name,
        description: input.description,
        scopes: sortScopes(input.scopes),
        isSystem: false,
        createdAt: now,
        updatedAt: now,
        revision: 1,
      };
      await repos.roles.create(organizationId, role);
      return role;
    });
  }

  /**
   * Changes the set fields. Throws `role_not_found`, `read_only_record`, `version_conflict`, `validation_failed`,
   * `name_taken`, `scope_escalation`.
   */
  async update(
    caller: GrantingPrincipal | Principal,
    organizationId: string,
    id: string,
    change: RoleChange,
    etag?: string,
  ): Promise<Role> {
    const name = change.name === undefined ? undefined : cleanName(change.name, 'name');
    throwIfAny(this.checkScopes(change.scopes ?? []));
    return await this.runChange(caller, organizationId, id, async (repos, before, grantor, recheckKeysAfterCommit) => {
      checkEtag('role', before.revision, etag);
      const scopes = sortScopes(change.scopes ?? before.scopes);
      assertCanGrant(grantor, [...before.scopes, ...scopes]);
      if (name !== undefined) assertNotSystemName(name);
      const updated = {
        ...before,
        name: name ?? before.name,
        description: change.description ?? before.description,
        scopes,
      };
      if (isSameRole(updated, before)) return before;
      if (!areSameScopes(scopes, before.scopes)) recheckKeysAfterCommit();
      const role = { ...updated, updatedAt: this.options.clock.now(), revision: before.revision + 1 };
      await repos.roles.update(organizationId, role);
      return role;
    });
  }

  /**
   * Deletes a role that no member has. Throws `role_not_found`, `read_only_record`, `scope_escalation`, `role_in_use`.
   */
  async delete(caller: GrantingPrincipal | Principal, organizationId: string, id: string): Promise<void> {
    await this.runChange(caller, organizationId, id, async (repos, role, grantor) => {
      assertCanGrant(grantor, role.scopes);
      const memberCount = await repos.members.countByRole(organizationId, id);
      if (memberCount > 0) throw roleInUse(id, memberCount);
      await repos.roles.delete(organizationId, id);
    });
  }

  /**
   * Runs a change of a custom role with the current state of the caller. The organization is locked, so that neither
   * the role nor its members change meanwhile. `work` calls `recheckKeysAfterCommit` if it changes the permissions of
   * keys: after the commit, the keys of the organization are read again at their next use, and their open streams are
   * checked.
   */
  private async runChange<T>(
    caller: GrantingPrincipal | Principal,
    organizationId: string,
    id: string,
    work: (
      repos: AccessRepositories,
      role: Role,
      grantor: GrantingPrincipal,
      recheckKeysAfterCommit: () => void,
    ) => Promise<T>,
  ): Promise<T> {
    const { uow, clock, accessChanged } = this.options;
    return await uow.transaction(async (repos, db) => {
      const grantor = await reloadGrantor(repos, caller, clock);
      await repos.organizations.lock(organizationId);
      const role = isId(id) ? await repos.roles.find(organizationId, id) : undefined;
      if (!role) throw notFound('role', id);
      if (role.isSystem) throw systemRoleReadOnly(role);
      return await work(repos, role, grantor, () => db.afterCommit(() => accessChanged(organizationId)));
    });
  }
}

/** Returns the scopes in the order of SCOPES, without duplicates. */
function sortScopes(scopes: readonly string[]): string[] {
  return SCOPES.filter((scope) => scopes.includes(scope));
}

/** Whether the changeable fields of two roles are equal. */
function isSameRole(first: Role, second: Role): boolean {
  return (
    first.name === second.name && first.description === second.description && areSameScopes(first.scopes, second.scopes)
  );
}

/** Whether both lists contain the same scopes in the same order. */
function areSameScopes(scopes: readonly string[], otherScopes: readonly string[]): boolean {
  return scopes.length === otherScopes.length && scopes.every((scope, index) => scope === otherScopes[index]);
}

/** Throws `name_taken` for the name of a system role. */
function assertNotSystemName(name: string): void {
  if (SYSTEM_ROLES.some((role) => normalizeForSearch(role.name) === normalizeForSearch(name)))
    throw roleNameTaken(name);
}

/** Creates the error for a change of a system role. */
function systemRoleReadOnly({ id, name }: Role): DomainError {
  return new DomainError(
    'conflict',
    'read_only_record',
    `the role ${name} is a system role and cannot be changed: create a custom role instead`,
    { metadata: { id } },
  );
}

/** Creates the error for the deletion of a role that members have. */
function roleInUse(id: string, memberCount: number): DomainError {
  const usage = memberCount === 1 ? '1 member has it' : `${memberCount} members have it`;
  return new DomainError('conflict', 'role_in_use', `the role is in use: ${usage}. Assign them another role first.`, {
    metadata: { role_id: id, members: String(memberCount) },
  });
}

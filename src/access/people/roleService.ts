import { foldName, type UnitOfWork } from '../../database';
import type { Clock } from '../../kernel/clock';
import { DomainError, notFound, throwIfAny, type Violation } from '../../kernel/errors';
import { checkEtag } from '../../kernel/etags';
import { isId, newId } from '../../kernel/ids';
import { pageOf, pageSize, type Cursors } from '../../kernel/pages';
import type { Principal } from '../../kernel/principal';
import { isScope, SCOPES } from '../../kernel/scopes';
import type { AccessRepositories } from '../accessRepositories';
import { cleanName } from '../name';
import { freshGiver, refuseBeyondOwn, type Giver } from './giver';
import { SYSTEM_ROLES, type Role } from './role';
import { roleNameTaken } from './roleRepository';

/** A role to make. */
export interface WantedRole {
  readonly name: string;
  /** May be empty. */
  readonly description: string;
  readonly scopes: readonly string[];
}

/** What to change on a role; undefined stays as it is. */
export type RoleChange = { readonly [Field in keyof WantedRole]?: WantedRole[Field] | undefined };

/** What the services of people stand on. */
export interface PeopleOptions {
  readonly uow: UnitOfWork<AccessRepositories>;
  readonly clock: Clock;
  /** Called once it is on disk that what people may do in an organization changed. */
  readonly accessChanged: (organizationId: string) => void;
}

// After which of the four, or after which name of the organization's own.
interface RolePosition {
  readonly system?: string;
  readonly name?: string;
}

/** Roles: the four that every organization has, and its own. */
export class RoleService {
  constructor(private readonly options: PeopleOptions) {}

  /** What is wrong with scopes by themselves. */
  checkScopes(scopes: readonly string[]): Violation[] {
    return scopes.flatMap((scope, at) => (isScope(scope) ? [] : [{ field: `scopes[${at}]`, description: `${JSON.stringify(scope)} is not a scope; choose from ${SCOPES.join(', ')}` }]));
  }

  /** All: the four, then the organization's own by name. */
  async list(organizationId: string): Promise<Role[]> {
    return [...SYSTEM_ROLES, ...(await this.options.uow.repos.roles.listOwn(organizationId))];
  }

  /** One page of them, or all when neither `size` nor `token` is given. Throws `validation_failed` for a token that this list did not give out. */
  async page(organizationId: string, cursors: Cursors, size: number | undefined, token: string): Promise<{ items: readonly Role[]; nextPageToken: string }> {
    if (size === undefined && token === '') return { items: await this.list(organizationId), nextPageToken: '' };
    const list = [organizationId, 'roles'];
    const after = cursors.decode<RolePosition>(list, token, 'pageToken');
    const limit = pageSize(size);
    const system = after?.name === undefined ? SYSTEM_ROLES.slice(SYSTEM_ROLES.findIndex(({ id }) => id === after?.system) + 1) : [];
    const own = await this.options.uow.repos.roles.listOwn(organizationId, after?.name, limit + 1);
    const { items, next } = pageOf([...system, ...own], limit, (role): RolePosition => (role.isSystem ? { system: role.id } : { name: foldName(role.name) }));
    return { items, nextPageToken: next ? cursors.encode(list, next) : '' };
  }

  /** Throws `validation_failed`, `name_taken`, `scope_exceeds_own`. */
  async create(caller: Giver | Principal, organizationId: string, wanted: WantedRole): Promise<Role> {
    const { uow, clock } = this.options;
    const name = cleanName(wanted.name, 'name');
    throwIfAny(this.checkScopes(wanted.scopes));
    return await uow.transaction(async (repos) => {
      const giver = await freshGiver(repos, caller, clock);
      await repos.organizations.lock(organizationId);
      refuseBeyondOwn(giver, wanted.scopes);
      refuseSystemName(name);
      const now = clock.now();
      const role = { id: newId(), organizationId, name, description: wanted.description, scopes: inOrder(wanted.scopes), isSystem: false, createdAt: now, updatedAt: now, revision: 1 };
      await repos.roles.create(organizationId, role);
      return role;
    });
  }

  /** Changes the given fields. Throws `role_not_found`, `system_record`, `changed_meanwhile`, `validation_failed`, `name_taken`, `scope_exceeds_own`. */
  async update(caller: Giver | Principal, organizationId: string, id: string, change: RoleChange, etag?: string): Promise<Role> {
    const name = change.name === undefined ? undefined : cleanName(change.name, 'name');
    throwIfAny(this.checkScopes(change.scopes ?? []));
    return await this.changing(caller, organizationId, id, async (repos, before, giver, changed) => {
      checkEtag('role', before.revision, etag);
      const scopes = inOrder(change.scopes ?? before.scopes);
      refuseBeyondOwn(giver, [...before.scopes, ...scopes]);
      if (name !== undefined) refuseSystemName(name);
      const wanted = { ...before, name: name ?? before.name, description: change.description ?? before.description, scopes };
      if (isSameRole(wanted, before)) return before;
      if (!isSame(scopes, before.scopes)) changed();
      const role = { ...wanted, updatedAt: this.options.clock.now(), revision: before.revision + 1 };
      await repos.roles.update(organizationId, role);
      return role;
    });
  }

  /** Deletes a role that nobody has. Throws `role_not_found`, `system_record`, `scope_exceeds_own`, `role_in_use`. */
  async delete(caller: Giver | Principal, organizationId: string, id: string): Promise<void> {
    await this.changing(caller, organizationId, id, async (repos, role, giver) => {
      refuseBeyondOwn(giver, role.scopes);
      const members = await repos.members.countByRole(organizationId, id);
      if (members > 0) throw roleInUse(id, members);
      await repos.roles.delete(organizationId, id);
    });
  }

  /** Works, for the caller as it is now, on a role of the organization's own that nobody else changes or gives to anybody meanwhile. Work that changes what keys may do calls `changed`. */
  private async changing<T>(caller: Giver | Principal, organizationId: string, id: string, work: (repos: AccessRepositories, role: Role, giver: Giver, changed: () => void) => Promise<T>): Promise<T> {
    const { uow, clock, accessChanged } = this.options;
    return await uow.transaction(async (repos, db) => {
      const giver = await freshGiver(repos, caller, clock);
      await repos.organizations.lock(organizationId);
      const role = isId(id) ? await repos.roles.find(organizationId, id) : undefined;
      if (!role) throw notFound('role', id);
      if (role.isSystem) throw systemRole(role);
      return await work(repos, role, giver, () => db.afterCommit(() => accessChanged(organizationId)));
    });
  }
}

/** In the order in which this server names them, each once. */
function inOrder(scopes: readonly string[]): string[] {
  return SCOPES.filter((scope) => scopes.includes(scope));
}

function isSameRole(one: Role, other: Role): boolean {
  return one.name === other.name && one.description === other.description && isSame(one.scopes, other.scopes);
}

function isSame(some: readonly string[], others: readonly string[]): boolean {
  return some.length === others.length && some.every((scope, at) => scope === others[at]);
}

function refuseSystemName(name: string): void {
  if (SYSTEM_ROLES.some((role) => foldName(role.name) === foldName(name))) throw roleNameTaken(name);
}

function systemRole({ id, name }: Role): DomainError {
  return new DomainError('conflict', 'system_record', `the role ${name} comes with the server and cannot be changed; create one of your own instead`, { metadata: { id } });
}

function roleInUse(id: string, members: number): DomainError {
  const what = members === 1 ? '1 member has it' : `${members} members have it`;
  return new DomainError('conflict', 'role_in_use', `the role is in use: ${what}; give them another one first`, { metadata: { role_id: id, members: String(members) } });
}

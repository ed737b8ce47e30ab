import { DomainError, throwIfAny, validationFailed, type Violation } from '../../kernel/errors';
import { checkEtag } from '../../kernel/etags';
import { isId, newId } from '../../kernel/ids';
import { getPage, getPageSize, type Cursors } from '../../kernel/pages';
import type { Principal } from '../../kernel/principal';
import type { AccessRepositories } from '../accessRepositories';
import { cleanName } from '../name';
import { findEmailError } from './email';
import { reloadGrantor, assertCanGrant, assertCanChangeOwner, type GrantingPrincipal } from './grantor';
import { OWNER, type Member } from './member';
import { memberNotFound, type MemberPosition } from './memberRepository';
import type { Role } from './role';
import type { PeopleOptions } from './roleService';
import { userNotFound } from './userRepository';

/** The user to add: an existing user, or a new one. */
export interface CreateMemberInput {
  /** Empty: create a new user. */
  readonly userId: string;
  /** The name of a new user; undefined for an existing user. */
  readonly name: string | undefined;
  /** The e-mail address of a new user; may be empty. */
  readonly email: string;
  readonly roleId: string;
}

/** Manages the members of organizations and their roles. */
export class MemberService {
  constructor(private readonly options: PeopleOptions) {}

  /** Returns the violations of the input that can be found without the database. */
  checkInput({ userId, name, email }: CreateMemberInput): Violation[] {
    if (userId === '') {
      const emailError = findEmailError(email.trim());
      return [
        ...(name === undefined
          ? [{ field: 'userId', description: 'is required: set it, or set the name of a new user' }]
          : []),
        ...(emailError === undefined ? [] : [{ field: 'email', description: emailError }]),
      ];
    }
    const description = 'is only allowed for a new user: remove it, or remove userId';
    return [
      ...(name === undefined ? [] : [{ field: 'name', description }]),
      ...(email === '' ? [] : [{ field: 'email', description }]),
    ];
  }

  /** Returns a violation if the role does not exist. */
  async checkRole(organizationId: string, roleId: string): Promise<Violation[]> {
    return (await findRole(this.options.uow.repos, organizationId, roleId)) ? [] : [createUnknownRoleViolation(roleId)];
  }

  /** Lists all members, newest first. */
  async list(organizationId: string): Promise<Member[]> {
    return await this.options.uow.repos.members.list(organizationId);
  }

  /** Returns one page of members, newest first. Throws `validation_failed` for an invalid page token. */
  async listPage(
    organizationId: string,
    cursors: Cursors,
    size: number | undefined,
    token: string,
  ): Promise<{ items: readonly Member[]; nextPageToken: string }> {
    const listKey = [organizationId, 'members'];
    const limit = getPageSize(size);
    const after = cursors.decode<MemberPosition>(listKey, token, 'pageToken');
    // One extra row shows whether there is a next page.
    const members = await this.options.uow.repos.members.list(organizationId, after, limit + 1);
    const { items, next } = getPage(members, limit, ({ createdAt, userId }) => ({ createdAt, userId }));
    return { items, nextPageToken: next ? cursors.encode(listKey, next) : '' };
  }

  /** Returns a member. Throws `member_not_found`. */
  async get(organizationId: string, userId: string): Promise<Member> {
    if (!isId(userId)) throw memberNotFound(userId);
    return await this.options.uow.repos.members.get(organizationId, userId);
  }

  /**
   * Adds a member. Throws `validation_failed`, `user_not_found`, `already_member`, `scope_escalation`,
   * `owner_required`.
   */
  async add(caller: GrantingPrincipal | Principal, organizationId: string, input: CreateMemberInput): Promise<Member> {
    throwIfAny([...this.checkInput(input), ...(await this.checkRole(organizationId, input.roleId))]);
    return await this.runChange(caller, organizationId, async (repos, grantor, recheckKeysAfterCommit) => {
      const role = await getRequestedRole(repos, organizationId, input.roleId);
      assertCanChangeOwner(grantor, role.id);
      assertCanGrant(grantor, role.scopes);
      const now = this.options.clock.now();
      const userId =
        input.userId === ''
          ? await createUser(repos, input, now)
          : await lockUserToAdd(repos, organizationId, input.userId, grantor);
      recheckKeysAfterCommit();
      await repos.members.create(organizationId, { userId, roleId: role.id, at: now });
      return await repos.members.get(organizationId, userId);
    });
  }

  /**
   * Assigns another role to a member. Throws `member_not_found`, `version_conflict`, `validation_failed`,
   * `owner_required`, `scope_escalation`, `last_owner_required`.
   */
  async update(
    caller: GrantingPrincipal | Principal,
    organizationId: string,
    userId: string,
    roleId: string,
    etag?: string,
  ): Promise<Member> {
    return await this.runChange(caller, organizationId, async (repos, grantor, recheckKeysAfterCommit) => {
      const member = await getMember(repos, organizationId, userId);
      checkEtag('member', member.revision, etag);
      const role = await getRequestedRole(repos, organizationId, roleId);
      assertCanChangeOwner(grantor, member.roleId, role.id);
      assertCanGrant(grantor, [...member.scopes, ...role.scopes]);
      if (role.id === member.roleId) return member;
      if (role.id !== OWNER) await assertNotLastOwner(repos, member);
      recheckKeysAfterCommit();
      await repos.members.setRole(organizationId, userId, role.id, this.options.clock.now());
      return await repos.members.get(organizationId, userId);
    });
  }

  /**
   * Removes a member and revokes their keys; returns the number of revoked keys. Throws `member_not_found`,
   * `owner_required`, `scope_escalation`, `last_owner_required`.
   */
  async remove(
    caller: GrantingPrincipal | Principal,
    organizationId: string,
    userId: string,
  ): Promise<{ revokedApiKeys: number }> {
    return await this.runChange(caller, organizationId, async (repos, grantor, recheckKeysAfterCommit) => {
      const member = await getMember(repos, organizationId, userId);
      assertCanChangeOwner(grantor, member.roleId);
      assertCanGrant(grantor, member.scopes);
      recheckKeysAfterCommit();
      return { revokedApiKeys: await removeMember(repos, member, this.options.clock.now()) };
    });
  }

  /**
   * Removes a user and their keys from every organization; returns the numbers of organizations and of revoked keys.
   * Only for the command line. `confirmation` must be the exact name of the user. Throws `user_not_found`,
   * `validation_failed`, `last_owner_required`.
   */
  async removeEverywhere(
    userId: string,
    confirmation: string,
  ): Promise<{ organizations: number; revokedApiKeys: number }> {
    const { uow, clock, accessChanged } = this.options;
    return await uow.transaction(async (repos, db) => {
      await repos.users.get(userId);
      // Every transaction locks organizations before users, and several organizations in the order of their ids. Any
      // other order could deadlock with a concurrent change of members.
      const organizationIds = (await repos.members.listMemberships(userId)).map(({ organizationId }) => organizationId);
      for (const organizationId of organizationIds.toSorted()) {
        await repos.members.lockOrganization(organizationId);
      }
      const user = await repos.users.lock(userId);
      if (confirmation !== user.name)
        throw validationFailed([
          {
            field: 'confirm',
            description: `must be the exact name of the user, ${JSON.stringify(user.name)} (got ${JSON.stringify(confirmation)})`,
          },
        ]);
      // Read again: a membership may have been added before the user was locked. From now on none can be added.
      const memberships = await repos.members.listMemberships(userId);
      const now = clock.now();
      let revokedApiKeys = 0;
      for (const { organizationId } of memberships) {
        revokedApiKeys += await removeMember(repos, await repos.members.get(organizationId, userId), now);
      }
      await repos.users.update({ ...user, updatedAt: now, removedAt: now });
      db.afterCommit(() => memberships.forEach(({ organizationId }) => accessChanged(organizationId)));
      return { organizations: memberships.length, revokedApiKeys };
    });
  }

  /**
   * Runs a change with the current state of the caller, while the members of the organization are locked. `work` calls
   * `recheckKeysAfterCommit` if it changes something: after the commit, the keys of the organization are read again at
   * their next use, and their open streams are checked.
   */
  private async runChange<T>(
    caller: GrantingPrincipal | Principal,
    organizationId: string,
    work: (repos: AccessRepositories, grantor: GrantingPrincipal, recheckKeysAfterCommit: () => void) => Promise<T>,
  ): Promise<T> {
    const { uow, clock, accessChanged } = this.options;
    return await uow.transaction(async (repos, db) => {
      const grantor = await reloadGrantor(repos, caller, clock);
      await repos.organizations.lock(organizationId);
      return await work(repos, grantor, () => db.afterCommit(() => accessChanged(organizationId)));
    });
  }
}

/**
 * Creates a user; returns the user's id. `createdAt`: Unix milliseconds. Throws `validation_failed` for an invalid
 * name.
 */
async function createUser(
  repos: AccessRepositories,
  { name, email }: CreateMemberInput,
  createdAt: number,
): Promise<string> {
  const id = newId();
  await repos.users.create({
    id,
    name: cleanName(name ?? '', 'name'),
    email: email.trim(),
    createdAt,
    updatedAt: createdAt,
    removedAt: undefined,
  });
  return id;
}

/**
 * Locks an existing user that the grantor may add, and returns the id. Only an admin may add users that were never part
 * of the organization, because others must not find out which users exist in other organizations. For such a user,
 * throws `user_not_found`.
 */
async function lockUserToAdd(
  repos: AccessRepositories,
  organizationId: string,
  id: string,
  grantor: GrantingPrincipal,
): Promise<string> {
  const canAdd = isId(id) && (grantor.isAdmin || (await repos.members.hasKnownUser(organizationId, id)));
  if (!canAdd) throw userNotFound(id);
  return (await repos.users.lock(id)).id;
}

/** Returns a member. Throws `member_not_found`, also for an id with an invalid format. */
async function getMember(repos: AccessRepositories, organizationId: string, userId: string): Promise<Member> {
  if (!isId(userId)) throw memberNotFound(userId);
  return await repos.members.get(organizationId, userId);
}

/** Removes a member and revokes the member's keys; returns the number of revoked keys. Throws `last_owner_required`. */
async function removeMember(repos: AccessRepositories, member: Member, revokedAt: number): Promise<number> {
  const { organizationId, userId } = member;
  await assertNotLastOwner(repos, member);
  await repos.members.remove(organizationId, userId);
  return (await repos.apiKeys.revokeKeysOfUser(organizationId, userId, revokedAt)).length;
}

/**
 * Throws `last_owner_required` if the member is the only owner of the organization. The caller has locked the
 * organization, so that two concurrent changes cannot remove the last two owners.
 */
async function assertNotLastOwner(
  repos: AccessRepositories,
  { organizationId, userId, roleId }: Member,
): Promise<void> {
  if (roleId !== OWNER || (await repos.members.countOwners(organizationId)) > 1) return;
  throw new DomainError(
    'conflict',
    'last_owner_required',
    `user ${JSON.stringify(userId)} is the last owner of the organization: make another member an owner first`,
    { metadata: { user_id: userId, organization_id: organizationId } },
  );
}

async function findRole(repos: AccessRepositories, organizationId: string, id: string): Promise<Role | undefined> {
  return isId(id) ? await repos.roles.find(organizationId, id) : undefined;
}

/** Returns the role that a request names. Throws `validation_failed` if the role does not exist. */
async function getRequestedRole(repos: AccessRepositories, organizationId: string, id: string): Promise<Role> {
  const role = await findRole(repos, organizationId, id);
  if (!role) throw validationFailed([createUnknownRoleViolation(id)]);
  return role;
}

function createUnknownRoleViolation(id: string): Violation {
  return {
    field: 'roleId',
    description: `${JSON.stringify(id)} is not a role of this organization: use an id from the list of roles`,
  };
}

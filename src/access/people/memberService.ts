import { DomainError, throwIfAny, validationFailed, type Violation } from '../../kernel/errors';
import { checkEtag } from '../../kernel/etags';
import { isId, newId } from '../../kernel/ids';
import { pageOf, pageSize, type Cursors } from '../../kernel/pages';
import type { Principal } from '../../kernel/principal';
import type { AccessRepositories } from '../accessRepositories';
import { cleanName } from '../name';
import { emailFault } from './email';
import { freshGiver, refuseBeyondOwn, refuseUnlessOwner, type Giver } from './giver';
import { OWNER, type Member } from './member';
import { memberNotFound, type MemberPosition } from './memberRepository';
import type { Role } from './role';
import type { PeopleOptions } from './roleService';
import { userNotFound } from './userRepository';

/** Whom to add: somebody that the installation knows, or a new person. */
export interface WantedMember {
  /** Empty: a new person. */
  readonly userId: string;
  /** Of a new person; undefined otherwise. */
  readonly name: string | undefined;
  /** Of a new person; empty: none is given. */
  readonly email: string;
  readonly roleId: string;
}

/** The people of organizations, and what each may do there at most. */
export class MemberService {
  constructor(private readonly options: PeopleOptions) {}

  /** What is wrong with a wish by itself. */
  checkWanted({ userId, name, email }: WantedMember): Violation[] {
    if (userId === '') {
      const fault = emailFault(email.trim());
      return [...(name === undefined ? [{ field: 'userId', description: 'is missing; give it, or the name of a new person' }] : []), ...(fault === undefined ? [] : [{ field: 'email', description: fault }])];
    }
    const besides = 'is for a new person; leave it out, or leave out userId';
    return [...(name === undefined ? [] : [{ field: 'name', description: besides }]), ...(email === '' ? [] : [{ field: 'email', description: besides }])];
  }

  /** Says so if there is no such role. */
  async checkRole(organizationId: string, roleId: string): Promise<Violation[]> {
    return (await findRole(this.options.uow.repos, organizationId, roleId)) ? [] : [unknownRole(roleId)];
  }

  /** All members, newest first. */
  async list(organizationId: string): Promise<Member[]> {
    return await this.options.uow.repos.members.list(organizationId);
  }

  /** One page of them. Throws `validation_failed` for a token that this list did not give out. */
  async page(organizationId: string, cursors: Cursors, size: number | undefined, token: string): Promise<{ items: readonly Member[]; nextPageToken: string }> {
    const list = [organizationId, 'members'];
    const limit = pageSize(size);
    const members = await this.options.uow.repos.members.list(organizationId, cursors.decode<MemberPosition>(list, token, 'pageToken'), limit + 1);
    const { items, next } = pageOf(members, limit, ({ createdAt, userId }) => ({ createdAt, userId }));
    return { items, nextPageToken: next ? cursors.encode(list, next) : '' };
  }

  /** Throws `member_not_found`. */
  async get(organizationId: string, userId: string): Promise<Member> {
    if (!isId(userId)) throw memberNotFound(userId);
    return await this.options.uow.repos.members.get(organizationId, userId);
  }

  /** Throws `validation_failed`, `user_not_found`, `already_member`, `scope_exceeds_own`, `owner_required`. */
  async add(caller: Giver | Principal, organizationId: string, wanted: WantedMember): Promise<Member> {
    throwIfAny([...this.checkWanted(wanted), ...(await this.checkRole(organizationId, wanted.roleId))]);
    return await this.changing(caller, organizationId, async (repos, giver, changed) => {
      const role = await wantedRole(repos, organizationId, wanted.roleId);
      refuseUnlessOwner(giver, role.id);
      refuseBeyondOwn(giver, role.scopes);
      const at = this.options.clock.now();
      const userId = wanted.userId === '' ? await newPerson(repos, wanted, at) : await knownPerson(repos, organizationId, wanted.userId, giver);
      changed();
      await repos.members.create(organizationId, { userId, roleId: role.id, at });
      return await repos.members.get(organizationId, userId);
    });
  }

  /** Gives a member another role. Throws `member_not_found`, `changed_meanwhile`, `validation_failed`, `owner_required`, `scope_exceeds_own`, `last_owner`. */
  async update(caller: Giver | Principal, organizationId: string, userId: string, roleId: string, etag?: string): Promise<Member> {
    return await this.changing(caller, organizationId, async (repos, giver, changed) => {
      const member = await existing(repos, organizationId, userId);
      checkEtag('member', member.revision, etag);
      const role = await wantedRole(repos, organizationId, roleId);
      refuseUnlessOwner(giver, member.roleId, role.id);
      refuseBeyondOwn(giver, [...member.scopes, ...role.scopes]);
      if (role.id === member.roleId) return member;
      if (role.id !== OWNER) await refuseLastOwner(repos, member);
      changed();
      await repos.members.setRole(organizationId, userId, role.id, this.options.clock.now());
      return await repos.members.get(organizationId, userId);
    });
  }

  /** Removes a member and revokes their keys; how many. Throws `member_not_found`, `owner_required`, `scope_exceeds_own`, `last_owner`. */
  async remove(caller: Giver | Principal, organizationId: string, userId: string): Promise<{ revokedApiKeys: number }> {
    return await this.changing(caller, organizationId, async (repos, giver, changed) => {
      const member = await existing(repos, organizationId, userId);
      refuseUnlessOwner(giver, member.roleId);
      refuseBeyondOwn(giver, member.scopes);
      changed();
      return { revokedApiKeys: await removeMember(repos, member, this.options.clock.now()) };
    });
  }

  /**
   * Removes a person from the installation: from every organization, with their keys. For the command line. The person's name confirms it.
   * Throws `user_not_found`, `validation_failed`, `last_owner`.
   */
  async removeEverywhere(userId: string, confirmation: string): Promise<{ organizations: number; revokedApiKeys: number }> {
    const { uow, clock, accessChanged } = this.options;
    return await uow.transaction(async (repos, db) => {
      await repos.users.get(userId);
      for (const organizationId of (await repos.members.listMemberships(userId)).map((one) => one.organizationId).toSorted()) await repos.members.lock(organizationId, userId);
      const user = await repos.users.lock(userId);
      if (confirmation !== user.name) throw validationFailed([{ field: 'confirm', description: `is ${JSON.stringify(confirmation)}, but the person is called ${JSON.stringify(user.name)}; give that name exactly` }]);
      const memberships = await repos.members.listMemberships(userId); // nobody adds one while the person is locked
      const at = clock.now();
      let revokedApiKeys = 0;
      for (const { organizationId } of memberships) revokedApiKeys += await removeMember(repos, await repos.members.get(organizationId, userId), at);
      await repos.users.update({ ...user, updatedAt: at, removedAt: at });
      db.afterCommit(() => memberships.forEach(({ organizationId }) => accessChanged(organizationId)));
      return { organizations: memberships.length, revokedApiKeys };
    });
  }

  /** Works, for the caller as it is now, while nobody else changes who is a member of the organization, or what. Work that changes something calls `changed`. */
  private async changing<T>(caller: Giver | Principal, organizationId: string, work: (repos: AccessRepositories, giver: Giver, changed: () => void) => Promise<T>): Promise<T> {
    const { uow, clock, accessChanged } = this.options;
    return await uow.transaction(async (repos, db) => {
      const giver = await freshGiver(repos, caller, clock);
      await repos.organizations.lock(organizationId);
      return await work(repos, giver, () => db.afterCommit(() => accessChanged(organizationId)));
    });
  }
}

async function newPerson(repos: AccessRepositories, { name, email }: WantedMember, at: number): Promise<string> {
  const id = newId();
  await repos.users.create({ id, name: cleanName(name ?? '', 'name'), email: email.trim(), createdAt: at, updatedAt: at, removedAt: undefined });
  return id;
}

/** A person whom the organization never saw may belong to another one, of which nobody here may learn. */
async function knownPerson(repos: AccessRepositories, organizationId: string, id: string, giver: Giver): Promise<string> {
  if (!isId(id) || !(giver.isAdmin || (await repos.members.knows(organizationId, id)))) throw userNotFound(id);
  return (await repos.users.lock(id)).id;
}

async function existing(repos: AccessRepositories, organizationId: string, userId: string): Promise<Member> {
  if (!isId(userId)) throw memberNotFound(userId);
  return await repos.members.get(organizationId, userId);
}

async function removeMember(repos: AccessRepositories, member: Member, at: number): Promise<number> {
  const { organizationId, userId } = member;
  await refuseLastOwner(repos, member);
  await repos.members.remove(organizationId, userId);
  return (await repos.apiKeys.revokeOf(organizationId, userId, at)).length;
}

async function refuseLastOwner(repos: AccessRepositories, { organizationId, userId, roleId }: Member): Promise<void> {
  if (roleId !== OWNER || (await repos.members.countOwners(organizationId)) > 1) return;
  throw new DomainError('conflict', 'last_owner', `user ${JSON.stringify(userId)} is the last owner of the organization; make somebody else an owner first`, { metadata: { user_id: userId, organization_id: organizationId } });
}

async function findRole(repos: AccessRepositories, organizationId: string, id: string): Promise<Role | undefined> {
  return isId(id) ? await repos.roles.find(organizationId, id) : undefined;
}

async function wantedRole(repos: AccessRepositories, organizationId: string, id: string): Promise<Role> {
  const role = await findRole(repos, organizationId, id);
  if (!role) throw validationFailed([unknownRole(id)]);
  return role;
}

function unknownRole(id: string): Violation {
  return { field: 'roleId', description: `${JSON.stringify(id)} is not a role of this organization; list the roles to see those that are` };
}

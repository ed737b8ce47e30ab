import type { UnitOfWork } from '../../database';
import type { Clock } from '../../kernel/clock';
import { DomainError, validationFailed } from '../../kernel/errors';
import { newId } from '../../kernel/ids';
import type { Principal } from '../../kernel/principal';
import type { AccessRepositories } from '../accessRepositories';
import { cleanName } from '../name';
import { findEmailError } from './email';
import type { Membership } from './member';
import { getPersonalUser, type PersonalUser } from './personalUser';
import type { User } from './user';

/** Manages the users of the installation. */
export class UserService {
  constructor(private readonly deps: { readonly uow: UnitOfWork<AccessRepositories>; readonly clock: Clock }) {}

  /** Returns the owner of the calling key, with the memberships that the key may see. */
  async getPersonalUser(caller: Principal): Promise<PersonalUser> {
    return await getPersonalUser(this.deps.uow.repos, caller);
  }

  /** Creates a user; `email` may be empty. Only for the command line. Throws `validation_failed`. */
  async create(name: string, email: string): Promise<User> {
    const now = this.deps.clock.now();
    const user = {
      id: newId(),
      name: cleanName(name, 'name'),
      email: cleanEmail(email),
      createdAt: now,
      updatedAt: now,
      removedAt: undefined,
    };
    await this.deps.uow.repos.users.create(user);
    return user;
  }

  /**
   * Changes the set fields of a user; an empty `email` removes the address. Only for the command line. Throws
   * `user_not_found`, `validation_failed`.
   */
  async update(
    id: string,
    change: { readonly name?: string | undefined; readonly email?: string | undefined },
  ): Promise<User> {
    const name = change.name === undefined ? undefined : cleanName(change.name, 'name');
    const email = change.email === undefined ? undefined : cleanEmail(change.email);
    return await this.deps.uow.transaction(async ({ users }) => {
      const before = await users.lock(id);
      const user = {
        ...before,
        name: name ?? before.name,
        email: email ?? before.email,
        updatedAt: this.deps.clock.now(),
      };
      await users.update(user);
      return user;
    });
  }

  /** Returns a user, even a removed one, with their memberships. Only for the command line. Throws `user_not_found`. */
  async getWithMemberships(id: string): Promise<User & { readonly memberships: readonly Membership[] }> {
    const { users, members } = this.deps.uow.repos;
    return { ...(await users.getIncludingRemoved(id)), memberships: await members.listMemberships(id) };
  }

  /** Lists all users, oldest first. Only for the command line. */
  async list(): Promise<User[]> {
    return await this.deps.uow.repos.users.list();
  }

  /** Returns the user with the id; without an id the only user. Throws `user_not_found`, `user_ambiguous`. */
  async getByIdOrOnly(id: string | undefined): Promise<User> {
    if (id !== undefined) return await this.deps.uow.repos.users.get(id);
    const users = await this.list();
    if (users.length === 1 && users[0]) return users[0];
    const message =
      users.length === 0
        ? 'there are no users: create one first (plantroom users create)'
        : `there are ${users.length} users: select one by its id`;
    throw new DomainError('conflict', 'user_ambiguous', message);
  }
}

/** Returns the trimmed address. Throws `validation_failed` if it is invalid. */
function cleanEmail(text: string): string {
  const email = text.trim();
  const error = findEmailError(email);
  if (error !== undefined) throw validationFailed([{ field: 'email', description: error }]);
  return email;
}

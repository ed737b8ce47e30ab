import type { UnitOfWork } from '../../database';
import type { Clock } from '../../kernel/clock';
import { DomainError, validationFailed } from '../../kernel/errors';
import { newId } from '../../kernel/ids';
import type { Principal } from '../../kernel/principal';
import type { AccessRepositories } from '../accessRepositories';
import { cleanName } from '../name';
import { emailFault } from './email';
import type { Membership } from './member';
import { personalUser, type PersonalUser } from './personalUser';
import type { User } from './user';

/** The people of the installation. */
export class UserService {
  constructor(private readonly deps: { readonly uow: UnitOfWork<AccessRepositories>; readonly clock: Clock }) {}

  /** The owner of the calling key, with the memberships that the key may see. */
  async getPersonalUser(caller: Principal): Promise<PersonalUser> {
    return await personalUser(this.deps.uow.repos, caller);
  }

  /** Creates a person; `email` may be empty. For the command line. Throws `validation_failed`. */
  async create(name: string, email: string): Promise<User> {
    const now = this.deps.clock.now();
    const user = { id: newId(), name: cleanName(name, 'name'), email: cleanEmail(email), createdAt: now, updatedAt: now, removedAt: undefined };
    await this.deps.uow.repos.users.create(user);
    return user;
  }

  /** Changes the given fields of a person; an empty `email` takes it away. For the command line. Throws `user_not_found`, `validation_failed`. */
  async update(id: string, change: { readonly name?: string | undefined; readonly email?: string | undefined }): Promise<User> {
    const name = change.name === undefined ? undefined : cleanName(change.name, 'name');
    const email = change.email === undefined ? undefined : cleanEmail(change.email);
    return await this.deps.uow.transaction(async ({ users }) => {
      const before = await users.lock(id);
      const user = { ...before, name: name ?? before.name, email: email ?? before.email, updatedAt: this.deps.clock.now() };
      await users.update(user);
      return user;
    });
  }

  /** A person, also one who was removed, with what the person is in each organization. For the command line. Throws `user_not_found`. */
  async show(id: string): Promise<User & { readonly memberships: readonly Membership[] }> {
    const { users, members } = this.deps.uow.repos;
    return { ...(await users.getEver(id)), memberships: await members.listMemberships(id) };
  }

  /** All people, oldest first. For the command line. */
  async list(): Promise<User[]> {
    return await this.deps.uow.repos.users.list();
  }

  /** The named person, or the only one if none is named. Throws `user_not_found`, `user_ambiguous`. */
  async pick(id: string | undefined): Promise<User> {
    if (id !== undefined) return await this.deps.uow.repos.users.get(id);
    const users = await this.list();
    if (users.length === 1 && users[0]) return users[0];
    const right = users.length === 0 ? 'there is no user yet; create one first (plantroom users create)' : `there are ${users.length} users; name the one that is meant by its id`;
    throw new DomainError('conflict', 'user_ambiguous', right);
  }
}

function cleanEmail(text: string): string {
  const email = text.trim();
  const fault = emailFault(email);
  if (fault !== undefined) throw validationFailed([{ field: 'email', description: fault }]);
  return email;
}

import type { UnitOfWork } from '../../database';
import type { Clock } from '../../kernel/clock';
import { DomainError, validationFailed } from '../../kernel/errors';
import { newId } from '../../kernel/ids';
import type { Principal } from '../../kernel/principal';
import type { AccessRepositories } from '../accessRepositories';
import { cleanName } from '../name';
import type { User } from './user';

const LONGEST_EMAIL = 254;

/** The people of the installation. */
export class UserService {
  constructor(private readonly deps: { readonly uow: UnitOfWork<AccessRepositories>; readonly clock: Clock }) {}

  /** The owner of the calling key. */
  async getPersonalUser(caller: Principal): Promise<User> {
    return await this.deps.uow.repos.users.get(caller.ownerUserId);
  }

  /** Creates a person; `email` may be empty. For the command line. Throws `validation_failed`. */
  async create(name: string, email: string): Promise<User> {
    const now = this.deps.clock.now();
    const user = { id: newId(), name: cleanName(name, 'name'), email: cleanEmail(email), createdAt: now, updatedAt: now, removedAt: undefined };
    await this.deps.uow.repos.users.create(user);
    return user;
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
    throw new DomainError('conflict', 'user_ambiguous', `there are ${users.length} users; name the one that is meant by its id`);
  }
}

function cleanEmail(text: string): string {
  const email = text.trim();
  if (email !== '' && (email.length > LONGEST_EMAIL || !/^[^\s@\p{Cc}]+@[^\s@\p{Cc}]+$/u.test(email))) {
    throw validationFailed([{ field: 'email', description: 'is not an e-mail address; give one like name@site.example, or none' }]);
  }
  return email;
}

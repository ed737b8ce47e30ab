import type { Db } from '../../database';
import { DomainError } from '../../kernel/errors';
import type { User } from './user';

interface UserRow {
  id: string;
  name: string;
  email: string;
  created_at: number;
  updated_at: number;
  removed_at: number | null;
}

/** People; they belong to the installation, so no organization stands before. Assumes clean names. */
export class UserRepository {
  constructor(private readonly db: Db) {}

  async create(user: User): Promise<void> {
    const { id, name, email, createdAt, updatedAt } = user;
    await this.db.knex('users').insert({ id, name, email, created_at: createdAt, updated_at: updatedAt });
  }

  /** Also one who was removed. Throws `user_not_found`. */
  async getEver(id: string): Promise<User> {
    const row = await this.db.knex('users').where({ id }).first<UserRow | undefined>();
    if (!row) throw userNotFound(id);
    return userFromRow(row);
  }

  /** Throws `user_not_found`, also for one who was removed. */
  async get(id: string): Promise<User> {
    const user = await this.getEver(id);
    if (user.removedAt !== undefined) throw userNotFound(id);
    return user;
  }

  /** As get; nobody removes or changes the person until the end of the transaction. Lock the organization before. */
  async lock(id: string): Promise<User> {
    await this.db.dialect.lockForUpdate(this.db.knex('users').where({ id }).select('id'));
    return await this.get(id);
  }

  /** All who were not removed, oldest first. */
  async list(): Promise<User[]> {
    const rows = await this.db.knex('users').whereNull('removed_at').orderBy(['created_at', 'id']).select<UserRow[]>();
    return rows.map(userFromRow);
  }

  /** Writes all that can change. */
  async update({ id, name, email, updatedAt, removedAt }: User): Promise<void> {
    await this.db.knex('users').where({ id }).update({ name, email, updated_at: updatedAt, removed_at: removedAt ?? null }).increment('revision', 1);
  }
}

/** No such person, or one who was removed. */
export function userNotFound(id: string): DomainError {
  return new DomainError('not_found', 'user_not_found', `user ${JSON.stringify(id)} is not known to this installation; give the id of a person who is (\`plantroom users list\` shows them)`, { metadata: { user_id: id } });
}

function userFromRow(row: UserRow): User {
  return { id: row.id, name: row.name, email: row.email, createdAt: row.created_at, updatedAt: row.updated_at, removedAt: row.removed_at ?? undefined };
}

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

/** Reads and writes users. They belong to the installation, so there is no organization id. Expects validated names. */
export class UserRepository {
  constructor(private readonly db: Db) {}

  /** Stores a new user. */
  async create(user: User): Promise<void> {
    const { id, name, email, createdAt, updatedAt } = user;
    await this.db.knex('users').insert({ id, name, email, created_at: createdAt, updated_at: updatedAt });
  }

  /** Returns a user, even a removed one. Throws `user_not_found`. */
  async getIncludingRemoved(id: string): Promise<User> {
    const row = await this.db.knex('users').where({ id }).first<UserRow | undefined>();
    if (!row) throw userNotFound(id);
    return userFromRow(row);
  }

  /** Returns a user. Throws `user_not_found`, also for a removed user. */
  async get(id: string): Promise<User> {
    const user = await this.getIncludingRemoved(id);
    if (user.removedAt !== undefined) throw userNotFound(id);
    return user;
  }

  /** Like get; locks the user until the end of the transaction. Lock the organization first. */
  async lock(id: string): Promise<User> {
    await this.db.dialect.lockForUpdate(this.db.knex('users').where({ id }).select('id'));
    return await this.get(id);
  }

  /** Lists all users that were not removed, oldest first. */
  async list(): Promise<User[]> {
    const rows = await this.db.knex('users').whereNull('removed_at').orderBy(['created_at', 'id']).select<UserRow[]>();
    return rows.map(userFromRow);
  }

  /** Stores all changeable fields. */
  async update({ id, name, email, updatedAt, removedAt }: User): Promise<void> {
    await this.db
      .knex('users')
      .where({ id })
      .update({ name, email, updated_at: updatedAt, removed_at: removedAt ?? null })
      .increment('revision', 1);
  }
}

/** Creates the error for a user that does not exist or was removed. */
export function userNotFound(id: string): DomainError {
  return new DomainError(
    'not_found',
    'user_not_found',
    `user ${JSON.stringify(id)} not found: use an id from the list of members (\`plantroom users list\` shows all users)`,
    { metadata: { user_id: id } },
  );
}

function userFromRow(row: UserRow): User {
  return {
    id: row.id,
    name: row.name,
    email: row.email,
    createdAt: row.created_at,
    updatedAt: row.updated_at,
    removedAt: row.removed_at ?? undefined,
  };
}

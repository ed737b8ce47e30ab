import type { Db } from '../../database';
import { DomainError } from '../../kernel/errors';
import type { User } from './user';

interface UserRow {
  id: string;
  name: string;
  email: string;
  created_at: number;
  updated_at: number;
}

/** People; they belong to the installation, so no organization stands before. Assumes clean names. */
export class UserRepository {
  constructor(private readonly db: Db) {}

  async create(user: User): Promise<void> {
    const { id, name, email, createdAt, updatedAt } = user;
    await this.db.knex('users').insert({ id, name, email, created_at: createdAt, updated_at: updatedAt });
  }

  /** Throws `user_not_found`. */
  async get(id: string): Promise<User> {
    const row = await this.db.knex('users').where({ id }).first<UserRow | undefined>();
    if (!row) throw new DomainError('not_found', 'user_not_found', `user ${JSON.stringify(id)} does not exist; list the users to see those that do`, { metadata: { user_id: id } });
    return userFromRow(row);
  }

  /** All of them, oldest first. */
  async list(): Promise<User[]> {
    const rows = await this.db.knex('users').orderBy(['created_at', 'id']).select<UserRow[]>();
    return rows.map(userFromRow);
  }
}

function userFromRow(row: UserRow): User {
  return { id: row.id, name: row.name, email: row.email, createdAt: row.created_at, updatedAt: row.updated_at };
}

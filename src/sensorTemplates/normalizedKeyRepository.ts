import type { Knex } from 'knex';
import { normalizeForSearch, onUniqueViolation, type Db } from '../database';
import { DomainError } from '../kernel/errors';
import { listOwnThenSystem } from './ownThenSystemRepository';
import { SYSTEM_OWNER, type NormalizedKey, type OwnThenSystemPosition } from './sensorTemplate';
import type { SystemKey } from './systemRecords';

interface NormalizedKeyRow {
  id: string;
  organization_id: string | null;
  name: string;
  revision: number;
  created_at: number;
  updated_at: number;
}

/** Normalized keys: an organization sees its own keys and the system keys. Assumes that names are already cleaned. */
export class NormalizedKeyRepository {
  constructor(private readonly db: Db) {}

  /** Throws `name_taken`. */
  async create(organizationId: string, key: NormalizedKey): Promise<void> {
    const row = {
      id: key.id,
      organization_id: organizationId,
      owner: organizationId,
      name: key.name,
      name_folded: normalizeForSearch(key.name),
      revision: key.revision,
      created_at: key.createdAt,
      updated_at: key.updatedAt,
    };
    await onUniqueViolation(
      this.db.dialect,
      () => keyNameTaken(key.name),
      () => this.db.knex('normalized_keys').insert(row),
    );
  }

  /** Finds an own or system key; undefined if it does not exist. */
  async find(organizationId: string, id: string): Promise<NormalizedKey | undefined> {
    const row = await this.queryVisible(organizationId).where({ id }).first<NormalizedKeyRow | undefined>();
    return row && keyFromRow(row);
  }

  /** Same as `find`, and locks an own key until the end of the transaction. */
  async lock(organizationId: string, id: string): Promise<NormalizedKey | undefined> {
    await this.db.dialect.lockForUpdate(this.queryOwn(organizationId, id).select('id'));
    return await this.find(organizationId, id);
  }

  /** Whether a system key has this name (case-insensitive). */
  async isSystemName(name: string): Promise<boolean> {
    const row = await this.querySystem()
      .where('name_folded', normalizeForSearch(name))
      .first<{ id: string } | undefined>('id');
    return row !== undefined;
  }

  /** Returns at most `limit` keys (undefined: all) after a position: own keys newest first, then system keys. */
  async list(
    organizationId: string,
    after: OwnThenSystemPosition | undefined,
    limit: number | undefined,
  ): Promise<NormalizedKey[]> {
    const rows = await listOwnThenSystem<NormalizedKeyRow>(
      (owner) => this.db.knex('normalized_keys as r').where('r.owner', owner).select('r.*'),
      organizationId,
      after,
      limit,
    );
    return rows.map(keyFromRow);
  }

  /** Updates the name of an own key. The caller must have locked the key. Throws `name_taken`. */
  async update(organizationId: string, { id, name, revision, updatedAt }: NormalizedKey): Promise<void> {
    const row = { name, name_folded: normalizeForSearch(name), revision, updated_at: updatedAt };
    await onUniqueViolation(
      this.db.dialect,
      () => keyNameTaken(name),
      () => this.queryOwn(organizationId, id).update(row),
    );
  }

  /** Returns the system keys that this server or an earlier version created. */
  async listSystem(): Promise<NormalizedKey[]> {
    const rows = await this.querySystem().select<NormalizedKeyRow[]>('*');
    return rows.map(keyFromRow);
  }

  /** Inserts or updates system keys; expects at least one. */
  async upsertSystem(keys: readonly SystemKey[], now: number): Promise<void> {
    const rows = keys.map(({ id, name }) => ({
      id,
      organization_id: null,
      owner: SYSTEM_OWNER,
      name,
      name_folded: normalizeForSearch(name),
      created_at: now,
      updated_at: now,
    }));
    const insert = () => this.db.knex('normalized_keys').insert(rows);
    // `on conflict (id)` alone fails on the unique name if another server inserts the same rows at the same time.
    // Without a conflict target PostgreSQL waits for that server. The second insert then updates the existing rows.
    await insert().onConflict().ignore();
    await insert().onConflict('id').merge(['name', 'name_folded', 'updated_at']);
  }

  private queryOwn(organizationId: string, id: string): Knex.QueryBuilder {
    return this.db.knex('normalized_keys').where({ owner: organizationId, id });
  }

  private queryVisible(organizationId: string): Knex.QueryBuilder {
    return this.db.knex('normalized_keys').whereIn('owner', [organizationId, SYSTEM_OWNER]);
  }

  private querySystem(): Knex.QueryBuilder {
    return this.db.knex('normalized_keys').where('owner', SYSTEM_OWNER);
  }
}

/** Creates the error for a name that another key of the organization or of the system already has. */
export function keyNameTaken(name: string): DomainError {
  return new DomainError(
    'already_exists',
    'name_taken',
    `a normalized key named ${JSON.stringify(name)} already exists (names are case-insensitive); use that key or choose another name`,
  );
}

function keyFromRow(row: NormalizedKeyRow): NormalizedKey {
  return {
    id: row.id,
    organizationId: row.organization_id ?? undefined,
    name: row.name,
    createdAt: row.created_at,
    updatedAt: row.updated_at,
    revision: row.revision,
  };
}

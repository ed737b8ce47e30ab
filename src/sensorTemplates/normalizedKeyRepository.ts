import type { Knex } from 'knex';
import { foldName, uniqueOr, type Db } from '../database';
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

/** Normalized keys: an organization sees its own and those that come with the server. Assumes clean names. */
export class NormalizedKeyRepository {
  constructor(private readonly db: Db) {}

  /** Throws `name_taken`. */
  async create(organizationId: string, key: NormalizedKey): Promise<void> {
    const row = { id: key.id, organization_id: organizationId, owner: organizationId, name: key.name, name_folded: foldName(key.name), revision: key.revision, created_at: key.createdAt, updated_at: key.updatedAt };
    await uniqueOr(this.db.dialect, () => keyNameTaken(key.name), () => this.db.knex('normalized_keys').insert(row));
  }

  /** Own or system; undefined if there is none. */
  async find(organizationId: string, id: string): Promise<NormalizedKey | undefined> {
    const row = await this.visible(organizationId).where({ id }).first<NormalizedKeyRow | undefined>();
    return row && keyFromRow(row);
  }

  /** As find; nobody else changes an own one until the end of the transaction. */
  async lock(organizationId: string, id: string): Promise<NormalizedKey | undefined> {
    await this.db.dialect.lockForUpdate(this.own(organizationId, id).select('id'));
    return await this.find(organizationId, id);
  }

  /** Whether a system key has this name, whatever the case. */
  async isSystemName(name: string): Promise<boolean> {
    const row = await this.system().where('name_folded', foldName(name)).first<{ id: string } | undefined>('id');
    return row !== undefined;
  }

  /** At most `limit` (undefined: all) after a position: own ones newest first, then the system's. */
  async list(organizationId: string, after: OwnThenSystemPosition | undefined, limit: number | undefined): Promise<NormalizedKey[]> {
    const rows = await listOwnThenSystem<NormalizedKeyRow>((owner) => this.db.knex('normalized_keys as r').where('r.owner', owner).select('r.*'), organizationId, after, limit);
    return rows.map(keyFromRow);
  }

  /** Writes the name of an own key that is locked. Throws `name_taken`. */
  async update(organizationId: string, { id, name, revision, updatedAt }: NormalizedKey): Promise<void> {
    const row = { name, name_folded: foldName(name), revision, updated_at: updatedAt };
    await uniqueOr(this.db.dialect, () => keyNameTaken(name), () => this.own(organizationId, id).update(row));
  }

  /** The keys that came with this server or an earlier one. */
  async listSystem(): Promise<NormalizedKey[]> {
    const rows = await this.system().select<NormalizedKeyRow[]>('*');
    return rows.map(keyFromRow);
  }

  /** Writes keys of the system, new or changed; at least one. */
  async putSystem(keys: readonly SystemKey[], at: number): Promise<void> {
    const rows = keys.map(({ id, name }) => ({ id, organization_id: null, owner: SYSTEM_OWNER, name, name_folded: foldName(name), created_at: at, updated_at: at }));
    const insert = () => this.db.knex('normalized_keys').insert(rows);
    // The name is unique too, and PostgreSQL waits for another server that writes the same rows only if no conflict target is named.
    await insert().onConflict().ignore();
    await insert().onConflict('id').merge(['name', 'name_folded', 'updated_at']);
  }

  private own(organizationId: string, id: string): Knex.QueryBuilder {
    return this.db.knex('normalized_keys').where({ owner: organizationId, id });
  }

  private visible(organizationId: string): Knex.QueryBuilder {
    return this.db.knex('normalized_keys').whereIn('owner', [organizationId, SYSTEM_OWNER]);
  }

  private system(): Knex.QueryBuilder {
    return this.db.knex('normalized_keys').where('owner', SYSTEM_OWNER);
  }
}

/** Another key of the organization or of the system has this name. */
export function keyNameTaken(name: string): DomainError {
  return new DomainError('already_exists', 'name_taken', `a normalized key called ${JSON.stringify(name)} exists already, whatever the case; use that one or choose another name`);
}

function keyFromRow(row: NormalizedKeyRow): NormalizedKey {
  return { id: row.id, organizationId: row.organization_id ?? undefined, name: row.name, createdAt: row.created_at, updatedAt: row.updated_at, revision: row.revision };
}

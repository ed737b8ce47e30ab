import { normalizeForSearch, onUniqueViolation, type Db, type PreparedStatement } from '../database';
import { notFound } from '../kernel/errors';
import type { CreatedPosition } from '../kernel/pages';
import {
  CONNECTION_PARTS,
  connectionInUse,
  nameTaken,
  type Connection,
  type ConnectionPolicy,
  type EncryptedSecrets,
} from './connection';
import type { JsonObject } from './connectorType';

interface ConnectionRow {
  readonly id: string;
  readonly organization_id: string;
  readonly connector_id: string;
  readonly name: string;
  readonly description: string;
  readonly enabled: number;
  readonly configuration: string;
  readonly secrets: string;
  readonly policy: string;
  readonly revision: number;
  readonly created_at: number;
  readonly updated_at: number;
}

const GET: PreparedStatement = {
  name: 'connections.get',
  sql: () => 'select c.* from connections c where c.organization_id = ? and c.id = ?',
};

const LIST_ENABLED: PreparedStatement = {
  name: 'connections.enabled',
  sql: () =>
    'select c.id, c.connector_id from connections c join organizations o on o.id = c.organization_id where c.enabled = 1 and o.deleted_at is null limit ?',
};

/** Stores connections. Assumes validated input and a caller who may act in `organizationId`. */
export class ConnectionRepository {
  constructor(private readonly db: Db) {}

  /** Stores a new connection. Throws `name_taken`. */
  async create(organizationId: string, connection: Connection): Promise<void> {
    const row = {
      ...toRow(connection),
      id: connection.id,
      organization_id: organizationId,
      connector_id: connection.connectorId,
      created_at: connection.createdAt,
    };
    await onUniqueViolation(
      this.db.dialect,
      () => nameTaken(connection.name),
      async () => await this.db.knex('connections').insert(row),
    );
  }

  /** Finds a connection; undefined if the organization does not have it. */
  async find(organizationId: string, id: string): Promise<Connection | undefined> {
    const [row] = await this.db.all<ConnectionRow>(GET, [organizationId, id]);
    return row && connectionFromRow(row);
  }

  /** Returns a connection. Throws `connection_not_found`. */
  async get(organizationId: string, id: string): Promise<Connection> {
    const connection = await this.find(organizationId, id);
    if (!connection) throw notFound('connection', id);
    return connection;
  }

  /** Same as `get`, and locks the connection until the end of the transaction. */
  async lock(organizationId: string, id: string): Promise<Connection> {
    const row = await this.db.dialect
      .lockForUpdate(this.queryConnection(organizationId, id))
      .first<ConnectionRow | undefined>('c.*');
    if (!row) throw notFound('connection', id);
    return connectionFromRow(row);
  }

  /** Returns the connections of the organization with these ids, in no particular order. */
  async findMany(organizationId: string, ids: readonly string[]): Promise<Connection[]> {
    const rows = await this.queryOrganization(organizationId)
      .whereIn('c.id', [...ids])
      .select<ConnectionRow[]>('c.*');
    return rows.map(connectionFromRow);
  }

  /** Lists at most `limit` connections after a position, newest first; only those in `ids` if set. */
  async list(
    organizationId: string,
    after: CreatedPosition | undefined,
    limit: number,
    ids?: ReadonlySet<string>,
  ): Promise<Connection[]> {
    const query = this.queryOrganization(organizationId)
      .orderBy([
        { column: 'c.created_at', order: 'desc' },
        { column: 'c.id', order: 'desc' },
      ])
      .limit(limit);
    if (after) query.whereRaw('(c.created_at, c.id) < (?, ?)', [after.createdAt, after.id]);
    if (ids) query.whereIn('c.id', [...ids]);
    const rows = await query.select<ConnectionRow[]>('c.*');
    return rows.map(connectionFromRow);
  }

  /** Counts the connections of an organization. */
  async count(organizationId: string): Promise<number> {
    const [row] = await this.queryOrganization(organizationId).count<{ n: number | string }[]>('* as n');
    return Number(row?.n ?? 0);
  }

  /**
   * Returns at most `limit` enabled connections of all organizations that are not deleted, in the order of their ids,
   * with ids greater than `afterId`. Used by the server at its start.
   */
  async listEnabled(afterId: string, limit: number): Promise<Connection[]> {
    const deletedOrganization = this.db
      .knex('organizations as o')
      .where('o.id', this.db.knex.ref('c.organization_id'))
      .whereNotNull('o.deleted_at');
    const query = this.db
      .knex('connections as c')
      .where('c.enabled', 1)
      .where('c.id', '>', afterId)
      .whereNotExists(deletedOrganization)
      .orderBy('c.id')
      .limit(limit);
    return (await query.select<ConnectionRow[]>('c.*')).map(connectionFromRow);
  }

  /**
   * Returns the ids and connectors of at most `limit` enabled connections of all organizations that are not deleted.
   * Used by the server itself.
   */
  async listEnabledIds(limit: number): Promise<{ readonly id: string; readonly connectorId: string }[]> {
    const rows = await this.db.all<{ id: string; connector_id: string }>(LIST_ENABLED, [limit]);
    return rows.map(({ id, connector_id }) => ({ id, connectorId: connector_id }));
  }

  /**
   * Returns at most `limit` connections of one organization, enabled or not, in the order of their ids, with ids
   * greater than `afterId`.
   */
  async listAfter(organizationId: string, afterId: string, limit: number): Promise<Connection[]> {
    const rows = await this.queryOrganization(organizationId)
      .where('c.id', '>', afterId)
      .orderBy('c.id')
      .limit(limit)
      .select<ConnectionRow[]>('c.*');
    return rows.map(connectionFromRow);
  }

  /** Whether any connection of any organization has secrets. Used by the server itself. */
  async hasSecrets(): Promise<boolean> {
    return (await this.db.knex('connections').whereNot('secrets', '').first('id')) !== undefined;
  }

  /**
   * Lists the connections that have secrets, in all organizations, to encrypt the secrets with a new key: at most
   * `limit` of them with ids greater than `afterId`, in the order of their ids.
   */
  async listWithSecrets(afterId: string, limit: number): Promise<Connection[]> {
    const query = this.db
      .knex('connections as c')
      .whereNot('c.secrets', '')
      .where('c.id', '>', afterId)
      .orderBy('c.id')
      .limit(limit);
    return (await query.select<ConnectionRow[]>('c.*')).map(connectionFromRow);
  }

  /** Stores a locked connection. Throws `name_taken`. */
  async update(organizationId: string, connection: Connection): Promise<void> {
    await onUniqueViolation(
      this.db.dialect,
      () => nameTaken(connection.name),
      async () => await this.queryConnection(organizationId, connection.id).update(toRow(connection)),
    );
  }

  /**
   * Stores secrets that were encrypted with a new key. The revision does not change, because secrets are never shown.
   */
  async updateSecrets(organizationId: string, id: string, encryptedSecrets: EncryptedSecrets): Promise<void> {
    await this.queryConnection(organizationId, id).update({ secrets: JSON.stringify(encryptedSecrets) });
  }

  /** Deletes a locked connection. Throws `connection_in_use`. */
  async delete(organizationId: string, id: string): Promise<void> {
    try {
      await this.queryConnection(organizationId, id).delete();
    } catch (error) {
      // Devices refer to the connection that they are bound to.
      throw this.db.dialect.isForeignKeyViolation(error) ? connectionInUse(id, undefined) : error;
    }
  }

  private queryConnection(organizationId: string, id: string) {
    return this.queryOrganization(organizationId).where('c.id', id);
  }

  private queryOrganization(organizationId: string) {
    return this.db.knex('connections as c').where('c.organization_id', organizationId);
  }
}

/** Converts a connection to the columns that an update may change. `secrets` is empty if there are none. */
function toRow(connection: Connection) {
  return {
    name: connection.name,
    name_folded: normalizeForSearch(connection.name),
    description: connection.description,
    enabled: connection.enabled ? 1 : 0,
    configuration: JSON.stringify(connection.configuration),
    secrets: Object.keys(connection.encryptedSecrets).length === 0 ? '' : JSON.stringify(connection.encryptedSecrets),
    policy: JSON.stringify(connection.policy),
    revision: connection.revision,
    updated_at: connection.updatedAt,
  };
}

/** Converts a row. Never throws: one corrupt row must not prevent others from being read. */
function connectionFromRow(row: ConnectionRow): Connection {
  const configuration = parseObject<JsonObject>(row.configuration);
  const encryptedSecrets = row.secrets === '' ? {} : parseObject<EncryptedSecrets>(row.secrets);
  const policy = parseObject<ConnectionPolicy>(row.policy);
  const parsedParts = { configuration, secrets: encryptedSecrets, policy };
  const corruptParts = CONNECTION_PARTS.filter((part) => parsedParts[part] === undefined);
  return {
    id: row.id,
    organizationId: row.organization_id,
    connectorId: row.connector_id,
    name: row.name,
    description: row.description,
    enabled: row.enabled === 1,
    configuration: configuration ?? {},
    encryptedSecrets: encryptedSecrets ?? {},
    policy: policy ?? {},
    createdAt: row.created_at,
    updatedAt: row.updated_at,
    revision: row.revision,
    ...(corruptParts.length > 0 && { corruptParts }),
  };
}

/** Parses a JSON object; undefined for any other text. */
function parseObject<T extends object>(text: string): T | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as T) : undefined;
  } catch {
    return undefined; // the caller reports which part it is
  }
}

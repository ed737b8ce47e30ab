import { foldName, uniqueOr, type Db, type HotStatement } from '../database';
import { notFound } from '../kernel/errors';
import type { CreatedPosition } from '../kernel/pages';
import { CONNECTION_PARTS, connectionInUse, nameTaken, type Connection, type ConnectionPolicy, type SealedSecrets } from './connection';
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

const GET: HotStatement = {
  name: 'connections.get',
  sql: () => 'select c.* from connections c where c.organization_id = ? and c.id = ?',
};

const ENABLED: HotStatement = {
  name: 'connections.enabled',
  sql: () => 'select c.id, c.connector_id from connections c join organizations o on o.id = c.organization_id where c.enabled = 1 and o.deleted_at is null limit ?',
};

/** Connections. Assumes validated input and a caller allowed to act in `organizationId`. */
export class ConnectionRepository {
  constructor(private readonly db: Db) {}

  /** Throws `name_taken`. */
  async create(organizationId: string, connection: Connection): Promise<void> {
    const row = { ...rowOf(connection), id: connection.id, organization_id: organizationId, connector_id: connection.connectorId, created_at: connection.createdAt };
    await uniqueOr(this.db.dialect, () => nameTaken(connection.name), async () => await this.db.knex('connections').insert(row));
  }

  /** Undefined if the organization has no such connection. */
  async find(organizationId: string, id: string): Promise<Connection | undefined> {
    const [row] = await this.db.all<ConnectionRow>(GET, [organizationId, id]);
    return row && connectionFromRow(row);
  }

  /** Throws `connection_not_found`. */
  async get(organizationId: string, id: string): Promise<Connection> {
    const connection = await this.find(organizationId, id);
    if (!connection) throw notFound('connection', id);
    return connection;
  }

  /** As get, and nobody else changes it until the transaction ends. */
  async lock(organizationId: string, id: string): Promise<Connection> {
    const row = await this.db.dialect.lockForUpdate(this.one(organizationId, id)).first<ConnectionRow | undefined>('c.*');
    if (!row) throw notFound('connection', id);
    return connectionFromRow(row);
  }

  /** Those of the ids that the organization has, in no order. */
  async findMany(organizationId: string, ids: readonly string[]): Promise<Connection[]> {
    const rows = await this.inOrganization(organizationId).whereIn('c.id', [...ids]).select<ConnectionRow[]>('c.*');
    return rows.map(connectionFromRow);
  }

  /** At most `limit` connections, newest created first, after a position; of these alone where `ids` are given. */
  async list(organizationId: string, after: CreatedPosition | undefined, limit: number, ids?: ReadonlySet<string>): Promise<Connection[]> {
    const query = this.inOrganization(organizationId).orderBy([{ column: 'c.created_at', order: 'desc' }, { column: 'c.id', order: 'desc' }]).limit(limit);
    if (after) query.whereRaw('(c.created_at, c.id) < (?, ?)', [after.createdAt, after.id]);
    if (ids) query.whereIn('c.id', [...ids]);
    const rows = await query.select<ConnectionRow[]>('c.*');
    return rows.map(connectionFromRow);
  }

  /** How many an organization has. */
  async count(organizationId: string): Promise<number> {
    const [row] = await this.inOrganization(organizationId).count<{ n: number | string }[]>('* as n');
    return Number(row?.n ?? 0);
  }

  /** What the server itself starts: connections that are switched on, of all organizations that are not deleted, in the order of their ids after `after`, at most `limit`. */
  async listEnabled(after: string, limit: number): Promise<Connection[]> {
    const deleted = this.db.knex('organizations as o').where('o.id', this.db.knex.ref('c.organization_id')).whereNotNull('o.deleted_at');
    const query = this.db.knex('connections as c').where('c.enabled', 1).where('c.id', '>', after).whereNotExists(deleted).orderBy('c.id').limit(limit);
    return (await query.select<ConnectionRow[]>('c.*')).map(connectionFromRow);
  }

  /** What the server itself asks: which connections are switched on, of all organizations that are not deleted, and over which connector; at most `limit`. */
  async enabled(limit: number): Promise<{ readonly id: string; readonly connectorId: string }[]> {
    const rows = await this.db.all<{ id: string; connector_id: string }>(ENABLED, [limit]);
    return rows.map(({ id, connector_id }) => ({ id, connectorId: connector_id }));
  }

  /** The same of one organization, whether switched on or not. */
  async listAfter(organizationId: string, after: string, limit: number): Promise<Connection[]> {
    const rows = await this.inOrganization(organizationId).where('c.id', '>', after).orderBy('c.id').limit(limit).select<ConnectionRow[]>('c.*');
    return rows.map(connectionFromRow);
  }

  /** What the server itself asks: whether any connection of any organization has secrets. */
  async isAnySealed(): Promise<boolean> {
    return (await this.db.knex('connections').whereNot('secrets', '').first('id')) !== undefined;
  }

  /** What the server itself asks: connections with secrets, of all organizations, in the order of their ids after `after`, at most `limit`. */
  async listSealed(after: string, limit: number): Promise<Connection[]> {
    const query = this.db.knex('connections as c').whereNot('c.secrets', '').where('c.id', '>', after).orderBy('c.id').limit(limit);
    return (await query.select<ConnectionRow[]>('c.*')).map(connectionFromRow);
  }

  /** Stores a connection that was locked. Throws `name_taken`. */
  async update(organizationId: string, connection: Connection): Promise<void> {
    await uniqueOr(this.db.dialect, () => nameTaken(connection.name), async () => await this.one(organizationId, connection.id).update(rowOf(connection)));
  }

  /** What a new key changes: the secrets alone, which nobody is shown, so the revision stays. */
  async reseal(organizationId: string, id: string, sealedSecrets: SealedSecrets): Promise<void> {
    await this.one(organizationId, id).update({ secrets: JSON.stringify(sealedSecrets) });
  }

  /** Deletes a connection that was locked. Throws `connection_in_use`. */
  async delete(organizationId: string, id: string): Promise<void> {
    try {
      await this.one(organizationId, id).delete();
    } catch (error) {
      throw this.db.dialect.isForeignKeyViolation(error) ? connectionInUse(id, undefined) : error;
    }
  }

  private one(organizationId: string, id: string) {
    return this.inOrganization(organizationId).where('c.id', id);
  }

  private inOrganization(organizationId: string) {
    return this.db.knex('connections as c').where('c.organization_id', organizationId);
  }
}

/** What a change may change. */
function rowOf(connection: Connection) {
  return {
    name: connection.name,
    name_folded: foldName(connection.name),
    description: connection.description,
    enabled: connection.enabled ? 1 : 0,
    configuration: JSON.stringify(connection.configuration),
    secrets: Object.keys(connection.sealedSecrets).length === 0 ? '' : JSON.stringify(connection.sealedSecrets),
    policy: JSON.stringify(connection.policy),
    revision: connection.revision,
    updated_at: connection.updatedAt,
  };
}

/** Never throws: one row that somebody spoilt keeps no others from being read. */
function connectionFromRow(row: ConnectionRow): Connection {
  const configuration = findObject<JsonObject>(row.configuration);
  const sealedSecrets = row.secrets === '' ? {} : findObject<SealedSecrets>(row.secrets);
  const policy = findObject<ConnectionPolicy>(row.policy);
  const damaged = CONNECTION_PARTS.filter((part) => !{ configuration, secrets: sealedSecrets, policy }[part]);
  return {
    id: row.id,
    organizationId: row.organization_id,
    connectorId: row.connector_id,
    name: row.name,
    description: row.description,
    enabled: row.enabled === 1,
    configuration: configuration ?? {},
    sealedSecrets: sealedSecrets ?? {},
    policy: policy ?? {},
    createdAt: row.created_at,
    updatedAt: row.updated_at,
    revision: row.revision,
    ...(damaged.length > 0 && { damaged }),
  };
}

/** Undefined for a text that holds no JSON object. */
function findObject<T extends object>(text: string): T | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as T) : undefined;
  } catch {
    return undefined; // whoever asks says which part it is
  }
}

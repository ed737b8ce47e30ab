import type { Database, Db } from '../database';
import type { Connection } from './connection';
import { ConnectionRepository } from './connectionRepository';
import { GATEWAY } from './connectors/gateway/gatewayType';

/** The repositories of this module. */
export interface ConnectionRepositories {
  readonly connections: ConnectionRepository;
}

/** Binds the repositories to a database connection or a transaction. */
export function connectionRepositories(db: Db): ConnectionRepositories {
  return { connections: new ConnectionRepository(db) };
}

/** Creates a query for the ids that are not connections of an organization, or not of this kind. */
export function createMissingConnectionsQuery(
  database: Database,
  isOfKind: (connection: Connection) => boolean = () => true,
): (organizationId: string, ids: readonly string[]) => Promise<string[]> {
  const { connections } = connectionRepositories(database.db);
  return async (organizationId, ids) => {
    const found = await connections.findMany(organizationId, ids);
    const existingIds = new Set(found.filter(isOfKind).map(({ id }) => id));
    return ids.filter((id) => !existingIds.has(id));
  };
}

/** Creates a query for the ids that are not gateway connections of an organization. */
export function createMissingGatewaysQuery(database: Database): ReturnType<typeof createMissingConnectionsQuery> {
  return createMissingConnectionsQuery(database, ({ connectorId }) => connectorId === GATEWAY.id);
}

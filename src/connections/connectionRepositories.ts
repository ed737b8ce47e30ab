import type { Database, Db } from '../database';
import { ConnectionRepository } from './connectionRepository';
import { GATEWAY } from './connectors/gateway/gatewayType';

/** The repositories of this room. */
export interface ConnectionRepositories {
  readonly connections: ConnectionRepository;
}

/** Binds them to the plain connection or to one transaction. */
export function connectionRepositories(db: Db): ConnectionRepositories {
  return { connections: new ConnectionRepository(db) };
}

/** How to ask which of some ids are no connections of an organization. */
export function missingConnections(database: Database): (organizationId: string, ids: readonly string[]) => Promise<string[]> {
  const { connections } = connectionRepositories(database.db);
  return async (organizationId, ids) => {
    const found = await connections.findMany(organizationId, ids);
    const known = new Set(found.map(({ id }) => id));
    return ids.filter((id) => !known.has(id));
  };
}

/** How to ask which of some ids are no gateway connections of an organization. */
export function missingGateways(database: Database): (organizationId: string, ids: readonly string[]) => Promise<string[]> {
  const { connections } = connectionRepositories(database.db);
  return async (organizationId, ids) => {
    const found = await connections.findMany(organizationId, ids);
    const gateways = new Set(found.filter(({ connectorId }) => connectorId === GATEWAY.id).map(({ id }) => id));
    return ids.filter((id) => !gateways.has(id));
  };
}

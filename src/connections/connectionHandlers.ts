import type { ConnectionServiceServer } from '../gen/connection/connection_service';
import { checked, type HandlersOf } from '../rpc/handlers';
import { checkConfiguration } from './connection';
import { connectionChangeFromMessage, connectionToMessage, newConnectionFromMessage } from './connectionMessages';
import type { ConnectionService } from './connectionService';

/** Connections. */
export function connectionHandlers(connections: ConnectionService): HandlersOf<ConnectionServiceServer> {
  return {
    createConnection: checked(
      (request) => checkConfiguration(request.connectorId, request.configuration ?? {}),
      async (request, context) => connectionToMessage(await connections.create(context.organizationId, newConnectionFromMessage(request))),
    ),
    getConnection: async (request, context) => connectionToMessage(await connections.get(context.organizationId, request.id)),
    listConnections: async (request, context) => {
      const page = await connections.list(context.organizationId, request.pageSize, request.pageToken);
      return { connections: page.connections.map(connectionToMessage), nextPageToken: page.nextPageToken };
    },
    updateConnection: async (request, context) => {
      const connection = await connections.update(context.organizationId, request.id, connectionChangeFromMessage(request), request.etag);
      return connectionToMessage(connection);
    },
    deleteConnection: async (request, context) => {
      await connections.delete(context.organizationId, request.id, request.etag);
      return {};
    },
  };
}

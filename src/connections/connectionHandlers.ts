import type { ConnectionServiceServer } from '../gen/connection/connection_service';
import { checked, type HandlersOf } from '../rpc/handlers';
import { checkConfiguration } from './configurationCheck';
import { checkTrial, connectionChangeFromMessage, connectionToMessage, newConnectionFromMessage, statusNewsToMessage, trialFromMessage, trialToMessage } from './connectionMessages';
import type { ConnectionService } from './connectionService';
import type { ConnectionTrials } from './connectionTrials';
import type { ConnectionWatch } from './connectionWatch';

/** What the handlers call. */
export interface ConnectionRooms {
  readonly connections: ConnectionService;
  readonly trials: ConnectionTrials;
  readonly watch: ConnectionWatch;
}

/** What this room answers of ConnectionService. */
export type ConnectionHandlers = Pick<
  HandlersOf<ConnectionServiceServer>,
  'createConnection' | 'getConnection' | 'listConnections' | 'updateConnection' | 'deleteConnection' | 'testConnection' | 'watchConnectionStatus'
>;

/** Connections. */
export function connectionHandlers({ connections, trials, watch }: ConnectionRooms): ConnectionHandlers {
  return {
    createConnection: checked(
      (request) => checkConfiguration(request.connectorId, request.configuration ?? {}),
      async (request, context) => connectionToMessage(await connections.create(context.organizationId, newConnectionFromMessage(request))),
    ),
    getConnection: async (request, context) => connectionToMessage(await connections.get(context.organizationId, request.id)),
    listConnections: async (request, context) => {
      const page = await connections.list(context.organizationId, request.pageSize, request.pageToken, context.principal.reach?.devices);
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
    testConnection: checked(checkTrial, async (request, context) => trialToMessage(await trials.test(context.organizationId, trialFromMessage(request), context.signal))),
    watchConnectionStatus: async function* (request, context) {
      const watched = watch.watch(context.organizationId, request.ids, context.signal, context.principal.reach?.devices);
      for await (const news of watched) yield statusNewsToMessage(news);
    },
  };
}

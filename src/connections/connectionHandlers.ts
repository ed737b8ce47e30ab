import type { ConnectionServiceServer } from '../gen/connection/connection_service';
import { withCheck, type HandlersOf } from '../api/pipeline/handlers';
import { checkConfiguration } from './configurationCheck';
import {
  checkTestRequest,
  connectionChangeFromMessage,
  connectionToMessage,
  newConnectionFromMessage,
  statusUpdateToMessage,
  testFromMessage,
  checksToMessage,
} from './connectionMessages';
import type { ConnectionService } from './connectionService';
import type { ConnectionTester } from './connectionTester';
import type { ConnectionWatch } from './connectionWatch';

/** The services that the handlers call. */
interface ConnectionServices {
  readonly connections: ConnectionService;
  readonly tester: ConnectionTester;
  readonly watch: ConnectionWatch;
}

/** The methods of ConnectionService that this module implements. */
type ConnectionHandlers = Pick<
  HandlersOf<ConnectionServiceServer>,
  | 'createConnection'
  | 'getConnection'
  | 'listConnections'
  | 'updateConnection'
  | 'deleteConnection'
  | 'testConnection'
  | 'watchConnectionStatus'
>;

/** Handlers for connections. */
export function createConnectionHandlers({ connections, tester, watch }: ConnectionServices): ConnectionHandlers {
  return {
    createConnection: withCheck(
      (request) => checkConfiguration(request.connectorId, request.configuration ?? {}),
      async (request, context) =>
        connectionToMessage(await connections.create(context.organizationId, newConnectionFromMessage(request))),
    ),
    getConnection: async (request, context) =>
      connectionToMessage(await connections.get(context.organizationId, request.id)),
    listConnections: async (request, context) => {
      const page = await connections.list(
        context.organizationId,
        request.pageSize,
        request.pageToken,
        context.principal.resourceScope?.devices,
      );
      return { connections: page.connections.map(connectionToMessage), nextPageToken: page.nextPageToken };
    },
    updateConnection: async (request, context) => {
      const connection = await connections.update(
        context.organizationId,
        request.id,
        connectionChangeFromMessage(request),
        request.etag,
      );
      return connectionToMessage(connection);
    },
    deleteConnection: async (request, context) => {
      await connections.delete(context.organizationId, request.id, request.etag);
      return {};
    },
    testConnection: withCheck(checkTestRequest, async (request, context) =>
      checksToMessage(await tester.test(context.organizationId, testFromMessage(request), context.signal)),
    ),
    watchConnectionStatus: async function* (request, context) {
      const updates = watch.watch(
        context.organizationId,
        request.ids,
        context.signal,
        context.principal.resourceScope?.devices,
      );
      for await (const update of updates) yield statusUpdateToMessage(update);
    },
  };
}

import type { Connector, ConnectorServiceServer } from '../gen/connector/connector_service';
import { getPageInMemory, type Cursors } from '../kernel/pages';
import type { HandlersOf } from '../api/pipeline/handlers';
import { CONNECTORS, getConnector } from './connectors';
import type { ConnectorType } from './connectorType';

/** Handlers for the catalogue of connector types. */
export function createConnectorHandlers(cursors: Cursors): HandlersOf<ConnectorServiceServer> {
  return {
    listConnectors: async ({ pageSize, pageToken }, { organizationId }) => {
      const { items, nextPageToken } = getPageInMemory(
        cursors,
        [organizationId, 'connectors'],
        CONNECTORS,
        pageSize,
        pageToken,
      );
      return { connectors: items.map(connectorToMessage), nextPageToken };
    },
    getConnector: async (request) => connectorToMessage(getConnector(request.id)),
  };
}

function connectorToMessage(connector: ConnectorType): Connector {
  const { id, type, name, description, configurationSchema, deviceConfigurationSchema } = connector;
  return {
    id,
    type,
    name,
    description,
    capabilities: [...connector.capabilities],
    configurationSchema,
    deviceConfigurationSchema,
    secretFields: [...connector.secretFields],
  };
}

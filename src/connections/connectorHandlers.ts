import type { Connector, ConnectorServiceServer } from '../gen/connector/connector_service';
import type { HandlersOf } from '../rpc/handlers';
import { CONNECTORS, getConnector } from './connectors';
import type { ConnectorType } from './connectorType';

/** The catalogue of connector types. */
export function connectorHandlers(): HandlersOf<ConnectorServiceServer> {
  return {
    listConnectors: async () => ({ connectors: CONNECTORS.map(connectorToMessage) }),
    getConnector: async (request) => connectorToMessage(getConnector(request.id)),
  };
}

function connectorToMessage(connector: ConnectorType): Connector {
  const { id, type, name, description, configurationSchema, deviceConfigurationSchema } = connector;
  return { id, type, name, description, capabilities: [...connector.capabilities], configurationSchema, deviceConfigurationSchema, secretFields: [...connector.secretFields] };
}

import { notFound, validationFailed } from '../kernel/errors';
import type { ConnectorType } from './connectorType';
import { CHIRPSTACK } from './connectors/chirpstack/chirpStackType';
import { GATEWAY } from './connectors/gateway/gatewayType';
import { MQTT } from './connectors/mqtt/mqttType';

/** The connector types of this server, by name. */
export const CONNECTORS: readonly ConnectorType[] = [GATEWAY, MQTT, CHIRPSTACK];

/** Undefined for an id that is none of CONNECTORS. */
export function findConnector(id: string): ConnectorType | undefined {
  return CONNECTORS.find((connector) => connector.id === id);
}

/** Throws `connector_not_found`. */
export function getConnector(id: string): ConnectorType {
  const connector = findConnector(id);
  if (!connector) throw notFound('connector', id);
  return connector;
}

/**
 * The one spelling of a device's id on a connector: gateway: as given, less the white space around it; mqtt: as given.
 * Throws `validation_failed` on `field` for a text that can be none.
 */
export function normalizeClientDeviceId(connectorId: string, text: string, field = 'physicalDevice.clientDeviceId'): string {
  const connector = getConnector(connectorId);
  const id = connector.findClientDeviceId(text);
  if (id === undefined) throw validationFailed([{ field, description: `is no device id of the connector \`${connectorId}\`; give ${connector.clientDeviceIdForm}` }]);
  return id;
}

import { notFound, validationFailed } from '../kernel/errors';
import type { ConnectorType } from './connectorType';
import { CHIRPSTACK } from './connectors/chirpstack/chirpStackType';
import { GATEWAY } from './connectors/gateway/gatewayType';
import { MQTT } from './connectors/mqtt/mqttType';

/** All connector types of this server, by name. */
export const CONNECTORS: readonly ConnectorType[] = [GATEWAY, MQTT, CHIRPSTACK];

/** Undefined if the id is not one of CONNECTORS. */
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
 * Returns the canonical spelling of a device id on a connector: gateway: trimmed; mqtt: unchanged. Throws
 * `validation_failed` on `field` for an invalid id.
 */
export function normalizeClientDeviceId(
  connectorId: string,
  text: string,
  field = 'physicalDevice.clientDeviceId',
): string {
  const connector = getConnector(connectorId);
  const id = connector.findClientDeviceId(text);
  if (id === undefined)
    throw validationFailed([
      {
        field,
        description: `is not a valid device id of the connector \`${connectorId}\`: use ${connector.clientDeviceIdForm}`,
      },
    ]);
  return id;
}

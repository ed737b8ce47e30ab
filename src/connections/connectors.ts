import { notFound, validationFailed } from '../kernel/errors';
import type { Connection } from './connection';
import type { ConnectorKind, ConnectorType } from './connectorType';
import { CHIRPSTACK } from './connectors/chirpstack/chirpStackType';
import { GATEWAY } from './connectors/gateway/gatewayType';
import { MQTT } from './connectors/mqtt/mqttType';

/** All connector types of this server, by name. */
export const CONNECTORS: readonly ConnectorType[] = [GATEWAY, MQTT, CHIRPSTACK];

/** Undefined if the id is not one of CONNECTORS. */
export function findConnector(id: string): ConnectorType | undefined {
  return CONNECTORS.find((connector) => connector.id === id);
}

/**
 * Returns the kind of connector, which decides how the execution of a command proceeds; undefined without a connection.
 * For ChirpStack it depends on whether the command is confirmed.
 */
export function findConnectorKind(
  connection: Connection | undefined,
  { confirmed = false }: { readonly confirmed?: boolean | undefined },
): ConnectorKind | undefined {
  return connection && findConnector(connection.connectorId)?.getKind(connection.configuration, confirmed);
}

/** Whether the device itself acknowledges commands on a connection of this kind; undefined: there is no connection. */
export function hasNativeAck(kind: ConnectorKind | undefined): boolean {
  return kind === 'gateway' || kind === 'mqtt_answer' || kind === 'chirpstack_confirmed';
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

export { MonotonicTimestamps } from './monotonicTimestamps';
export { checkDeviceConfiguration, compileSchemas, findSchemaViolations } from './configurationCheck';
export { applyPolicyDefaults, type Connection, type ConnectionPolicy } from './connection';
export { listConnectionMetrics, type ConnectionMetric } from './connectionMetric';
export { createConnectionHandlers } from './connectionHandlers';
export { ConnectionFactory } from './connectionFactory';
export { createMissingConnectionsQuery, createMissingGatewaysQuery } from './connectionRepositories';
export { ConnectionRepository } from './connectionRepository';
export { ConnectionService } from './connectionService';
export { ConnectionBootstrapper } from './connectionBootstrapper';
export { ConnectionStatuses, type ConnectionState } from './connectionStatuses';
export { ConnectionTester } from './connectionTester';
export { ConnectionWatch } from './connectionWatch';
export { findRawBytes } from './connector';
export type {
  Attachment,
  ConnectorEvents,
  Downlink,
  Evidence,
  EvidenceOutcome,
  KnownExecution,
  Peer,
  SendResult,
  TimeSource,
  UplinkIdentity,
  UplinkMessage,
  UplinkOutcome,
} from './connector';
export { CONNECTOR_KINDS, SCHEMA_DIALECT, type ConnectorKind, type RoutedCommand } from './connectorType';
export { createConnectorHandlers } from './connectorHandlers';
export { ConnectorHub } from './connectorHub';
export { findConnector, findConnectorKind, hasNativeAck, normalizeClientDeviceId } from './connectors';
export { ChirpStackConnector } from './connectors/chirpstack/chirpStackConnector';
export { GatewayConnector } from './connectors/gateway/gatewayConnector';
export { gatewayDefinition } from './connectors/gateway/gatewayDefinition';
export { gatewayHandlers } from './connectors/gateway/gatewayHandlers';
export { MqttConnector } from './connectors/mqtt/mqttConnector';
export { findProfileId, getVariables } from './deviceConfiguration';
export { isLorawan } from './lorawan';
export { MIN_SAMPLE_TIME_MS } from './sampleTime';
export { ConnectionSecrets } from './secrets/connectionSecrets';
export { SecretCipher } from './secrets/secretCipher';
export { listConnectionsWithLostSecrets } from './secrets/lostSecrets';
export { getKeyFile, SecretKey } from './secrets/secretKey';
export { rotateSecrets, type RotatedSecrets } from './secrets/secretRotation';

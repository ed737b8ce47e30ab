export { connectorKeyHandlers, type ConnectorKeyHandlers } from './keys/connectorKeyHandlers';
export type { ConnectorKey, Source } from './keys/connectorKeyRepository';
export { ConnectorKeyService } from './keys/connectorKeyService';
export { UplinkPipeline } from './uplinks/uplinkPipeline';

export { connectorKeyHandlers, type ConnectorKeyHandlers } from './connectorKeyHandlers';
export type { ConnectorKey, Source } from './connectorKeyRepository';
export { ConnectorKeyService } from './connectorKeyService';
export { UplinkPipeline } from './uplinkPipeline';

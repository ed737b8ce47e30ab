export type { GatewayEvent } from './events';
export { GatewayError, type GatewayErrorReason } from './gatewayError';
export type { DeliveredCommand, Delivery, DeliveryResult, Gateway, GatewayOptions, GatewayUplink } from './options';
export type {
  CommandStage,
  GatewayStore,
  StoredCommand,
  StoredUplink,
  QueuedUplink,
  StoreChange,
  StoreIdentity,
} from './store/gatewayStore';
export { memoryStore } from './store/memoryStore';
export type { SqliteFileOptions } from './store/sqliteOptions';
export { sqliteStore } from './store/sqliteStore';
export { startGateway } from './startGateway';

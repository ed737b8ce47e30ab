export { connectorKeyHandlers, type ConnectorKeyHandlers } from './keys/connectorKeyHandlers';
export type { ConnectorKey, Source } from './keys/connectorKeyRepository';
export { ConnectorKeyService } from './keys/connectorKeyService';
export { ReadingPositions, type StoredListener } from './readings/readingPositions';
export { SeriesNumbers } from './readings/seriesNumbers';
export type { StoredReading } from './readings/storedReading';
export { RetentionTimes, type ReadingTimes } from './retention/retentionTimes';
export { UplinkPipeline } from './uplinks/uplinkPipeline';

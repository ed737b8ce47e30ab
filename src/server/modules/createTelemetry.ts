import type { Sandbox } from '../../codec';
import type { Executions } from '../../executions';
import type { Cursors } from '../../kernel/pages';
import {
  connectorKeyHandlers,
  ConnectorKeyService,
  discoveredDeviceHandlers,
  DiscoveredDeviceService,
  ReadingMaintenance,
  ReadingSequence,
  SensorQueries,
  sensorQueryHandlers,
  SeriesIdCache,
  UplinkDecoder,
  UplinkPipeline,
  WidgetData,
  widgetDataHandlers,
} from '../../telemetry';
import type { Foundation } from '../foundation';

/** What telemetry needs of other modules. */
interface TelemetryDependencies {
  readonly decoder: Sandbox;
  readonly cursors: Cursors;
  readonly executions: Executions;
}

/** Creates the uplink pipeline, the queries of readings, and their retention. */
export function createTelemetry(
  { database, clock, retentionClock, log }: Foundation,
  { decoder: sandbox, cursors, executions }: TelemetryDependencies,
) {
  const positions = new ReadingSequence(clock);
  const series = new SeriesIdCache();
  const decoder = new UplinkDecoder({ database, sandbox, clock, log });
  return {
    uplinks: new UplinkPipeline({
      database,
      log,
      decoder,
      positions,
      series,
      evaluateExecutions: async (db, uplink) => await executions.sensorEvidence.evaluateUplink(db, uplink),
    }),
    readingMaintenance: new ReadingMaintenance({
      database,
      clock,
      log,
      positions,
      series,
      expiryClock: retentionClock,
    }),
    decoder,
    queryHandlers: sensorQueryHandlers(new SensorQueries({ database, cursors, clock, positions })),
    widgetDataHandlers: widgetDataHandlers(new WidgetData({ database, clock })),
    discoveredDeviceHandlers: discoveredDeviceHandlers(new DiscoveredDeviceService({ database, cursors })),
    connectorKeyHandlers: connectorKeyHandlers(new ConnectorKeyService(database)),
  };
}

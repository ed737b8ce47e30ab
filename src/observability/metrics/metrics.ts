import type { ConnectionMetric } from '../../connections';
import type { Executions } from '../../executions';
import type { Clock } from '../../kernel/clock';
import type { Logger } from '../../kernel/logger';
import type { Counter } from '../../kernel/counter';
import type { UplinkPipeline } from '../../telemetry';
import { createBackupFamilies, type BackupSource } from './backupMetrics';
import type { CallMetrics } from './callMetrics';
import { createConnectionFamilies } from './connectionMetrics';
import { createDatabaseFamilies, type DatabaseSource } from './databaseMetrics';
import { createDiskFamilies } from './diskMetrics';
import { createExecutionFamilies } from './executionMetrics';
import { MetricsRenderer } from './metricsRenderer';
import { createIdentityFamilies, type IdentitySource } from './identityMetrics';
import { EventLoopLag } from './eventLoopLag';
import { createProcessFamilies } from './processMetrics';
import { createUplinkFamilies } from './uplinkMetrics';
import { createWorkFamilies, type WorkSource } from './workMetrics';

/** All sources of metrics. */
export interface MetricsSources extends DatabaseSource, WorkSource, IdentitySource {
  readonly calls: CallMetrics;
  readonly executions: Pick<Executions, 'counts' | 'readActiveStats'>;
  readonly connections: () => Promise<readonly ConnectionMetric[]>;
  /** Messages that could not be read or stored completely, by connector and code. */
  readonly dataWarnings: Pick<Counter, 'entries'>;
  readonly uplinks: Pick<UplinkPipeline, 'counts'>;
  /** Undecoded uplinks, by the code of the reason. */
  readonly undecoded: Pick<Counter, 'entries'>;
  readonly backups: BackupSource;
  readonly dataDir: string;
  readonly clock: Clock;
  /** The machine's clock, including jumps. */
  readonly machineClock: Clock;
  readonly log: Logger;
}

/** All metrics of a server, in the Prometheus text format. No label identifies an organization or a device. */
export class Metrics {
  readonly contentType: string;
  private readonly renderer: MetricsRenderer;
  private readonly eventLoopLag = new EventLoopLag();

  constructor(sources: MetricsSources) {
    this.renderer = new MetricsRenderer(
      [
        ...createIdentityFamilies(sources),
        ...sources.calls.createFamilies(),
        ...createExecutionFamilies(sources),
        ...createConnectionFamilies(sources),
        ...createUplinkFamilies(sources),
        ...createDatabaseFamilies(sources),
        ...createDiskFamilies(sources),
        ...createBackupFamilies(sources.backups),
        ...createWorkFamilies(sources),
        ...createProcessFamilies({ eventLoopLag: this.eventLoopLag, clock: sources.machineClock }),
      ],
      sources.log,
    );
    this.contentType = this.renderer.contentType;
  }

  /** Starts watching the event loop. */
  start(): void {
    this.eventLoopLag.start();
  }

  stop(): void {
    this.eventLoopLag.stop();
  }

  /** Returns the current text. One collection at a time: concurrent callers share its result. */
  async text(): Promise<string> {
    return await this.renderer.render();
  }
}

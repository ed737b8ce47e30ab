import type { ConnectionFigure } from '../../connections';
import type { Executions } from '../../executions';
import type { Clock } from '../../kernel/clock';
import type { Logger } from '../../kernel/logger';
import type { Tally } from '../../kernel/tally';
import type { UplinkPipeline } from '../../telemetry';
import { backupFamilies, type BackupSource } from './backupMetrics';
import type { CallMetrics } from './callMetrics';
import { connectionFamilies } from './connectionMetrics';
import { databaseFamilies, type DatabaseSource } from './databaseMetrics';
import { diskFamilies } from './diskMetrics';
import { executionFamilies } from './executionMetrics';
import { Exposition } from './exposition';
import { identityFamilies, type IdentitySource } from './identityMetrics';
import { LoopDelay } from './loopDelay';
import { processFamilies } from './processMetrics';
import { uplinkFamilies } from './uplinkMetrics';
import { workFamilies, type WorkSource } from './workMetrics';

/** Everything that has numbers to show. */
export interface MetricsSources extends DatabaseSource, WorkSource, IdentitySource {
  readonly calls: CallMetrics;
  readonly executions: Pick<Executions, 'counts' | 'openFigures'>;
  readonly connections: () => Promise<readonly ConnectionFigure[]>;
  readonly uplinks: Pick<UplinkPipeline, 'counts'>;
  /** Uplinks that were not decoded, by the code of why. */
  readonly undecoded: Pick<Tally, 'entries'>;
  readonly backups: BackupSource;
  readonly dataDir: string;
  readonly clock: Clock;
  /** The clock of the machine as it is, jumps and all. */
  readonly machineClock: Clock;
  readonly log: Logger;
}

/** All numbers of a server, in the text that Prometheus reads. No label is of an organization or a device. */
export class Metrics {
  readonly contentType: string;
  private readonly exposition: Exposition;
  private readonly delay = new LoopDelay();

  constructor(sources: MetricsSources) {
    this.exposition = new Exposition(
      [
        ...identityFamilies(sources),
        ...sources.calls.families(),
        ...executionFamilies(sources),
        ...connectionFamilies(sources),
        ...uplinkFamilies(sources),
        ...databaseFamilies(sources),
        ...diskFamilies(sources),
        ...backupFamilies(sources.backups),
        ...workFamilies(sources),
        ...processFamilies({ delay: this.delay, clock: sources.machineClock }),
      ],
      sources.log,
    );
    this.contentType = this.exposition.contentType;
  }

  /** Begins to watch the event loop. */
  start(): void {
    this.delay.start();
  }

  stop(): void {
    this.delay.stop();
  }

  /** The text of now. One collection at a time: whoever asks meanwhile is given the same. */
  async text(): Promise<string> {
    return await this.exposition.text();
  }
}

import type { Config } from '../config';
import type { Database } from '../database';
import { instrumentLogger } from '../kernel/instrumentLogger';
import { getProgramVersion } from '../kernel/programVersion';
import type { Logger } from '../kernel/logger';
import type { Counter } from '../kernel/counter';
import { CallMetrics, Metrics, type MetricsSources } from '../observability';
import { Readiness } from '../api/health/readiness';
import { StatusPort } from '../api/health/statusPort';
import { getBackupFolder } from './backups';
import type { ExternalDependencies } from './externalDependencies';

/** The components whose metrics are exposed. */
type MonitoredComponents = Pick<
  MetricsSources,
  | 'clock'
  | 'getCertificateNotAfter'
  | 'executions'
  | 'connections'
  | 'dataWarnings'
  | 'uplinks'
  | 'undecoded'
  | 'sandbox'
  | 'media'
  | 'auditLog'
> & { readonly database: Database; readonly installationId: string };

/** Readiness and metrics of the server. The port is open before the database is, and closes after it. */
export class Monitoring {
  /** The log; it counts warnings and errors. */
  readonly log: Logger;
  readonly readiness: Readiness;
  /** Observers of calls; empty if metrics are disabled. */
  readonly observers: readonly CallMetrics[];
  private readonly calls = new CallMetrics();
  private readonly logLines: Pick<Counter, 'entries'>;
  private readonly port: StatusPort | undefined;
  private metrics: Metrics | undefined;
  private database: Database | undefined;

  constructor(
    private readonly config: Config,
    private readonly external: ExternalDependencies,
  ) {
    ({ log: this.log, lineCounts: this.logLines } = instrumentLogger(external.log));
    this.readiness = new Readiness({
      pingDatabase: async () => await this.database?.ping(),
      degraded: () => listDegradedFeatures(this.database),
    });
    const isEnabled = config.metrics.listen !== 'off';
    this.observers = isEnabled ? [this.calls] : [];
    this.port = isEnabled ? new StatusPort({ readiness: this.readiness, log: this.log }) : undefined;
  }

  /** Opens the port and returns its address; undefined: metrics are disabled. */
  async start(): Promise<string | undefined> {
    return (await this.port?.start(this.config.metrics.listen))?.address;
  }

  /** Registers the metrics of the components, once these exist. */
  async registerMetrics({ database, installationId, ...components }: MonitoredComponents): Promise<void> {
    this.database = database;
    if (!this.port) return;
    const { config, calls, logLines, log, readiness } = this;
    this.metrics = new Metrics({
      ...components,
      calls,
      database,
      databaseDescription: await database.describe(),
      sqliteFolder: config.database.url === '' ? config.data.dir : undefined,
      isResponding: async () => (await readiness.getState()) !== 'database_unavailable',
      backups: { schedule: config.backup.schedule, dir: getBackupFolder(config), installationId },
      dataDir: config.data.dir,
      program: getProgramVersion(),
      machineClock: this.external.clock,
      logLines,
      log,
    });
    this.metrics.start();
    this.port.metrics = this.metrics;
  }

  /** Closes the port and stops the metrics. */
  async stop(): Promise<void> {
    await this.port?.stop();
    this.metrics?.stop();
  }
}

/** Lists the features that do not work, as codes for the readiness page: `storage_full` if the disk is full. */
function listDegradedFeatures(database: Database | undefined): string[] {
  const state = database?.disk.getState() ?? 'ok';
  return state === 'ok' ? [] : [`storage_${state}`];
}

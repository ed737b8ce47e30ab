import type { Config } from '../config';
import type { Database } from '../database';
import { countedLog } from '../kernel/countedLog';
import { programVersion } from '../kernel/programVersion';
import type { Logger } from '../kernel/logger';
import type { Tally } from '../kernel/tally';
import { CallMetrics, Metrics, type MetricsSources } from '../operations';
import { Readiness } from '../rpc/status/readiness';
import { StatusPort } from '../rpc/status/statusPort';
import { backupFolderOf } from './backup';
import type { Outside } from './core';

/** What is known of the rooms once they are there. */
export type WatchedRooms = Pick<MetricsSources, 'clock' | 'certificateEndsAt' | 'executions' | 'connections' | 'uplinks' | 'undecoded' | 'sandbox' | 'media' | 'trail'> & { readonly database: Database; readonly installationId: string };

/** What those see who watch the server: its state, from before the database is open until after it is closed, and its numbers. */
export class Watching {
  /** The log, whose warnings are counted. */
  readonly log: Logger;
  readonly readiness: Readiness;
  /** Who is told of calls; nobody where nobody can ask for the numbers. */
  readonly observers: readonly CallMetrics[];
  private readonly calls = new CallMetrics();
  private readonly logLines: Pick<Tally, 'entries'>;
  private readonly port: StatusPort | undefined;
  private metrics: Metrics | undefined;
  private database: Database | undefined;

  constructor(
    private readonly config: Config,
    private readonly outside: Outside,
  ) {
    ({ log: this.log, lines: this.logLines } = countedLog(outside.log));
    this.readiness = new Readiness({ ask: async () => await this.database?.ping(), degraded: () => degradedOf(this.database) });
    const isOn = config.metrics.listen !== 'off';
    this.observers = isOn ? [this.calls] : [];
    this.port = isOn ? new StatusPort({ readiness: this.readiness, log: this.log }) : undefined;
  }

  /** Opens the port, and gives its address; undefined: there is none. */
  async start(): Promise<string | undefined> {
    return (await this.port?.start(this.config.metrics.listen))?.address;
  }

  /** The rooms are there: from now on their numbers are shown. */
  async show({ database, installationId, ...rooms }: WatchedRooms): Promise<void> {
    this.database = database;
    if (!this.port) return;
    const { config, calls, logLines, log, readiness } = this;
    this.metrics = new Metrics({
      ...rooms,
      calls,
      database,
      databaseFacts: await database.describe(),
      sqliteFolder: config.database.url === '' ? config.data.dir : undefined,
      answers: async () => (await readiness.state()) !== 'database_unavailable',
      backups: { schedule: config.backup.schedule, dir: backupFolderOf(config), installationId },
      dataDir: config.data.dir,
      program: programVersion(),
      machineClock: this.outside.clock,
      logLines,
      log,
    });
    this.metrics.start();
    this.port.metrics = this.metrics;
  }

  async stop(): Promise<void> {
    await this.port?.stop();
    this.metrics?.stop();
  }
}

function degradedOf(database: Database | undefined): string[] {
  const state = database?.disk.state() ?? 'ok';
  return state === 'ok' ? [] : [`storage_${state}`];
}

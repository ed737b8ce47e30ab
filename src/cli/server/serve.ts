import { getBackupFolder, startServer, type RunningServer } from '../../server';
import type { Config } from '../../config';
import { removeOldNativeModules } from '../../database';
import { systemClock } from '../../kernel/clock';
import type { Logger } from '../../kernel/logger';
import { getProgramVersion } from '../../kernel/programVersion';
import { withTimeout } from '../../kernel/withTimeout';
import { withBackupHint } from '../../backup';
import { createProcessLog, type ProcessLog } from '../log';
import { getConfig, type ConfigFlags } from '../options';
import { formatProgram, removeRunFile, writeRunFile, type RunFile } from '../runFile';
import { createFirstKeyWriter, showFirstKey } from './firstKey';
import { reduceMemoryUse } from './lowMemory';
import { listenForStopSignals } from './stopSignals';

// The time that a stop may take in addition to the time limit of active calls.
const EXTRA_STOP_MS = 5000;
// The time that network connections may take to close after the stop.
const LINGER_MS = 1000;

/** The flags of `plantroom serve`. */
export interface ServeFlags extends ConfigFlags {
  readonly acceptDataLoss?: boolean;
}

/** Implements `plantroom serve`: starts the server, waits for a reason to stop, and stops it gracefully. */
export async function runServe(flags: ServeFlags): Promise<void> {
  reduceMemoryUse();
  const { config } = getConfig(flags);
  const processLog = createProcessLog(config.log);
  const { log, flush } = processLog;
  const signals = listenForStopSignals(systemClock, (signal) => {
    log.warn({ signal }, 'server.stopped_immediately');
    flush();
    process.exit(1);
  });
  exitOnUncaughtException(log, flush);
  try {
    const app = await startWithFlags(config, processLog, flags);
    try {
      if (app.bootstrapped && config.bootstrap.keyFile === '')
        showFirstKey(app.bootstrapped, app.addresses, config.tls.mode !== 'off', app.ca);
      announceReady(config, app, processLog);
    } catch (error) {
      // The server could not report that it is ready, so nobody can find it: it must not keep running.
      await stopServer(config, app, processLog);
      throw error;
    }
    const stopReason = await Promise.race([signals.first, app.ownershipLost, app.clockMovedBackwards]);
    log.info(stopReason instanceof Error ? { reason: stopReason.reason } : { signal: stopReason }, 'server.stopping');
    await stopServer(config, app, processLog);
    log.info({}, 'server.stopped');
    if (stopReason instanceof Error) throw stopReason;
  } catch (error) {
    throw await withBackupHint(error, getBackupFolder(config), config.data.dir);
  } finally {
    signals.remove();
    flush();
    // The connection of a client that hangs would keep the process alive.
    setTimeout(() => process.exit(), LINGER_MS).unref();
  }
}

/** Starts the server. If its data folder is lost later, the process exits immediately. */
async function startWithFlags(config: Config, { log, flush }: ProcessLog, flags: ServeFlags): Promise<RunningServer> {
  const onDataFolderLost = (): void => {
    const message =
      'the data folder, or the database in it, was moved, deleted or replaced while the server was running, so the server stopped immediately: put the folder back, or set PLANTROOM_DATA_DIR to its new path, and start again; always stop the server before you move the folder';
    log.error({ data_dir: config.data.dir, message }, 'server.data_dir_lost');
    flush();
    process.exit(1); // a graceful stop would continue to acknowledge data that is lost
  };
  const saveFirstKey = config.bootstrap.keyFile === '' ? undefined : createFirstKeyWriter(config.bootstrap.keyFile);
  const dependencies = {
    log,
    clock: systemClock,
    configFile: flags.config,
    acceptsDataLoss: flags.acceptDataLoss === true,
  };
  return await startServer(config, dependencies, { onDataFolderLost, saveFirstKey });
}

/** Reports that the server is ready: in run.json for commands, and in the log at every log level. */
function announceReady(config: Config, app: RunningServer, { always }: ProcessLog): void {
  const details = {
    grpc: app.addresses.grpc,
    http: app.addresses.http ?? null,
    metrics: app.addresses.metrics ?? null,
    tls: config.tls.mode !== 'off',
    ca: app.ca ?? null,
  };
  const run: RunFile = {
    ...details,
    organizationId: app.onlyOrganizationId ?? null,
    pid: process.pid,
    program: formatProgram(),
    startedAt: new Date().toISOString(),
  };
  writeRunFile(config.data.dir, run);
  removeOldNativeModules(); // only now: this version has started, so the modules of earlier versions are no longer needed
  const { version, commit } = getProgramVersion();
  always.info({ ...details, version, commit, pid: process.pid, data_dir: config.data.dir }, 'server.ready');
}

/** Stops the server. Exits the process if a component does not stop in time. */
async function stopServer(config: Config, app: RunningServer, { log, flush }: ProcessLog): Promise<void> {
  try {
    removeRunFile(config.data.dir);
  } catch (error) {
    log.warn({ err: error }, 'server.run_file_not_removed'); // no reason to keep running
  }
  const limitMs = config.limits.shutdownTimeoutMs + EXTRA_STOP_MS;
  await withTimeout(app.stop(), limitMs, () => {
    log.error({ limit_ms: limitMs }, 'server.shutdown_timeout');
    flush();
    process.exit(1); // a component that hangs would keep the process alive
  });
}

/** Exits with code 1 on an uncaught exception: the state is then unknown, and the supervisor restarts the server. */
function exitOnUncaughtException(log: Logger, flush: () => void): void {
  process.on('uncaughtException', (error) => {
    log.error({ err: error }, 'server.crashed');
    flush();
    process.exit(1);
  });
}

import { backupFolderOf, startApp, type App } from '../../app';
import type { Config } from '../../config';
import { removeOldEngines } from '../../database';
import { systemClock } from '../../kernel/clock';
import type { Logger } from '../../kernel/logger';
import { programVersion } from '../../kernel/programVersion';
import { withGoodBackup } from '../../operations';
import { processLog, type ProcessLog } from '../log';
import { configOf, type ConfigFlags } from '../options';
import { programText, removeRunFile, writeRunFile, type RunFile } from '../runFile';
import { openFirstKeyFile, showFirstKey, type FirstKeyFile } from './firstKey';
import { spareMemory } from './littleMemory';
import { stopSignals } from './stopSignals';

// What a stop may take beyond the time that calls in flight are given.
const BEYOND_STOP_MS = 5000;
// What connections may take to end after the stop.
const LINGER_MS = 1000;

/** `plantroom serve`: from the lock of the data folder to a stop in peace. */
export async function runServe(flags: ConfigFlags): Promise<void> {
  spareMemory();
  const { config } = configOf(flags);
  const processLogs = processLog(config.log.level);
  const { log, flush } = processLogs;
  const signals = stopSignals(systemClock, (signal) => {
    log.warn({ signal }, 'server.stopped_at_once');
    flush();
    process.exit(1);
  });
  endOnUncaught(log, flush);
  try {
    const keyFile = config.bootstrap.keyFile === '' ? undefined : openFirstKeyFile(config.bootstrap.keyFile);
    const app = await start(config, processLogs, keyFile, flags.config);
    try {
      tellFirstKey(config, app, keyFile);
      announce(config, app, processLogs);
    } catch (error) {
      // Nobody was told that it serves, so it must not.
      await stop(config, app, processLogs);
      throw error;
    }
    const ending = await Promise.race([signals.first, app.databaseLost, app.clockPutBack]);
    log.info(ending instanceof Error ? { reason: ending.reason } : { signal: ending }, 'server.stopping');
    await stop(config, app, processLogs);
    log.info({}, 'server.stopped');
    if (ending instanceof Error) throw ending;
  } catch (error) {
    throw await withGoodBackup(error, backupFolderOf(config), config.data.dir);
  } finally {
    signals.remove();
    flush();
    setTimeout(() => process.exit(), LINGER_MS).unref(); // a frozen client does not end its connection, which would keep the process alive
  }
}

async function start(config: Config, { log, flush }: ProcessLog, keyFile: FirstKeyFile | undefined, configFile: string | undefined): Promise<App> {
  const onDataFolderLost = (): void => {
    const message = 'the data folder, or the database in it, was moved, deleted or replaced while the server ran, so it ended at once; stop the server first, then move the folder; put it back, or give its new place as PLANTROOM_DATA_DIR, and start again';
    log.error({ data_dir: config.data.dir, message }, 'server.data_folder_lost');
    flush();
    process.exit(1); // a stop in peace would go on acknowledging what nobody finds again
  };
  try {
    return await startApp(config, { log, clock: systemClock, configFile }, onDataFolderLost);
  } catch (error) {
    keyFile?.discard();
    throw error;
  }
}

/** To the file or to the terminal; to the terminal too when the file fails after all, for there is no second chance to see it. */
function tellFirstKey(config: Config, app: App, keyFile: FirstKeyFile | undefined): void {
  const made = app.bootstrapped;
  if (!made) return keyFile?.discard();
  const show = (): void => showFirstKey(made, app.addresses, config.tls.mode !== 'off', app.ca);
  if (!keyFile) return show();
  try {
    keyFile.keep(made);
  } catch (error) {
    show();
    throw error;
  }
}

/** Says that the server is ready: in run.json for commands, in the log for those who started it, whatever the level. */
function announce(config: Config, app: App, { always }: ProcessLog): void {
  const facts = { grpc: app.addresses.grpc, http: app.addresses.http ?? null, metrics: app.addresses.metrics ?? null, tls: config.tls.mode !== 'off', ca: app.ca ?? null };
  const run: RunFile = { ...facts, organizationId: app.onlyOrganizationId ?? null, pid: process.pid, program: programText(), startedAt: new Date().toISOString() };
  writeRunFile(config.data.dir, run);
  removeOldEngines();
  const { version, commit } = programVersion();
  always.info({ ...facts, version, commit, pid: process.pid, data_dir: config.data.dir }, 'server.ready');
}

async function stop(config: Config, app: App, { log, flush }: ProcessLog): Promise<void> {
  try {
    removeRunFile(config.data.dir);
  } catch (error) {
    log.warn({ err: error }, 'server.run_file_not_removed'); // no reason to serve on
  }
  const { promise: tooLate, resolve } = Promise.withResolvers<'late'>();
  const timer = setTimeout(() => resolve('late'), config.limits.stopMs + BEYOND_STOP_MS);
  const ended = await Promise.race([app.stop(), tooLate]);
  clearTimeout(timer);
  if (ended !== 'late') return;
  log.error({ limit_ms: config.limits.stopMs + BEYOND_STOP_MS }, 'server.stop_took_too_long');
  flush();
  process.exit(1); // what hangs would keep the process alive
}

/** A fault that nobody caught: the state of the process is unknown, so it ends, and what supervises it starts it again. */
function endOnUncaught(log: Logger, flush: () => void): void {
  process.on('uncaughtException', (error) => {
    log.error({ err: error }, 'server.crashed');
    flush();
    process.exit(1);
  });
}

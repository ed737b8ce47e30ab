import { resolve } from 'node:path';
import {
  rollBackDatabase,
  isDatabaseCopy,
  dryRunRollback,
  dryRunRestore,
  restoreBackup,
  type RestoreOptions,
} from '../../backup';
import { systemClock } from '../../kernel/clock';
import { createCommandLog } from '../log';
import { getConfig, type ConfigFlags } from '../options';
import { Progress } from '../progress';
import { abortOnStopSignal } from '../server/stopSignals';
import { AlreadyReportedError } from '../exit';
import { note } from '../output';
import { readPassphrase } from './passphrase';
import { showRestoreDryRun, showRestored, showRollback } from './restoreReport';

/** Flags of `plantroom restore`. */
export interface RestoreFlags extends ConfigFlags {
  readonly passphraseFile?: string;
  readonly revokeKeys?: boolean;
  readonly dryRun?: boolean;
}

const MIB = 1024 * 1024;

/** Implements `plantroom restore`. The exit code is 1 if nothing was restored. */
export async function runRestore(file: string, flags: RestoreFlags): Promise<void> {
  const { config } = getConfig(flags);
  const { clear, onProgress } = createProgress(flags);
  const stop = abortOnStopSignal();
  const options: RestoreOptions = {
    file: resolve(file),
    dataDir: config.data.dir,
    databaseUrl: config.database.url,
    passphrase: readPassphrase(flags.passphraseFile ?? config.backup.passphraseFile),
    revokesKeys: flags.revokeKeys === true,
    clock: systemClock,
    log: createCommandLog(config.log.level),
    onProgress,
    signal: stop.signal,
  };
  try {
    const showResult = await restoreOrRollBack(options, flags);
    clear();
    showResult();
  } catch (error) {
    clear();
    if (!stop.signal.aborted) throw error;
    note('plantroom: stopped; nothing was restored');
    throw new AlreadyReportedError(1);
  } finally {
    stop.remove();
  }
}

/** Restores, rolls back or runs the dry run. Returns a function that prints the result. */
async function restoreOrRollBack(options: RestoreOptions, flags: RestoreFlags): Promise<() => void> {
  if (isDatabaseCopy(options.file)) {
    const result = flags.dryRun === true ? await dryRunRollback(options) : await rollBackDatabase(options);
    return () => showRollback(result, options, flags);
  }
  if (flags.dryRun === true) {
    const result = await dryRunRestore(options);
    return () => showRestoreDryRun(result, options, flags);
  }
  const restored = await restoreBackup(options);
  return () => showRestored(restored, options, flags);
}

/** Creates a progress display: a bar while the backup is unpacked, then the name of the current step. */
function createProgress({ json }: RestoreFlags): {
  readonly onProgress: RestoreOptions['onProgress'];
  readonly clear: () => void;
} {
  const terminal = json ? { write: () => {} } : process.stderr;
  let progress: Progress | undefined;
  return {
    // Only unpacking has a size; for the other steps it is 0.
    onProgress: (step, bytes, totalBytes) => {
      progress ??= new Progress(Math.max(1, Math.ceil(totalBytes / MIB)), terminal);
      if (totalBytes > 0) progress.reached(Math.ceil(bytes / MIB), `MiB, ${step}`);
      else progress.show(step);
    },
    clear: () => progress?.clear(),
  };
}

import { resolve } from 'node:path';
import { goBack, isDatabaseCopy, rehearseGoingBack, rehearseRestore, restoreBackup, type RestoreOptions } from '../../operations';
import { systemClock } from '../../kernel/clock';
import { commandLog } from '../log';
import { configOf, type ConfigFlags } from '../options';
import { Progress } from '../progress';
import { stoppable } from '../server/stopSignals';
import { Reported } from '../exit';
import { note } from '../output';
import { passphraseIn } from './passphrase';
import { showRehearsal, showRestored, showWentBack } from './restoreReport';

/** What `plantroom restore` is given. */
export interface RestoreFlags extends ConfigFlags {
  readonly passphraseFile?: string;
  readonly revokeKeys?: boolean;
  readonly dryRun?: boolean;
}

const MIB = 1024 * 1024;

/** `plantroom restore`. Exit code 1 if nothing was restored. */
export async function runRestore(file: string, flags: RestoreFlags): Promise<void> {
  const { config } = configOf(flags);
  const { clear, onProgress } = progressOf(flags);
  const stop = stoppable();
  const options: RestoreOptions = {
    file: resolve(file),
    dataDir: config.data.dir,
    databaseUrl: config.database.url,
    passphrase: passphraseIn(flags.passphraseFile ?? config.backup.passphraseFile),
    revokesKeys: flags.revokeKeys === true,
    clock: systemClock,
    log: commandLog(config.log.level),
    onProgress,
    signal: stop.signal,
  };
  try {
    const show = await work(options, flags);
    clear();
    show();
  } catch (error) {
    clear();
    if (!stop.signal.aborted) throw error;
    note('plantroom: stopped; nothing was restored');
    throw new Reported(1);
  } finally {
    stop.remove();
  }
}

/** What it did, to be shown. */
async function work(options: RestoreOptions, flags: RestoreFlags): Promise<() => void> {
  if (isDatabaseCopy(options.file)) {
    const wentBack = flags.dryRun === true ? await rehearseGoingBack(options) : await goBack(options);
    return () => showWentBack(wentBack, options, flags);
  }
  if (flags.dryRun === true) {
    const rehearsed = await rehearseRestore(options);
    return () => showRehearsal(rehearsed, options, flags);
  }
  const restored = await restoreBackup(options);
  return () => showRestored(restored, options, flags);
}

/** A bar while it unpacks, then the name of what is being done. */
function progressOf({ json }: RestoreFlags): { readonly onProgress: RestoreOptions['onProgress']; readonly clear: () => void } {
  const terminal = json ? { write: () => {} } : process.stderr;
  let progress: Progress | undefined;
  return {
    onProgress: (step, bytes, ofBytes) => {
      progress ??= new Progress(Math.max(1, Math.ceil(ofBytes / MIB)), terminal);
      if (ofBytes > 0) progress.reached(Math.ceil(bytes / MIB), `MiB, ${step}`);
      else progress.show(step);
    },
    clear: () => progress?.clear(),
  };
}

import { findMosquitto, Mosquitto } from '../../test/support/mosquitto';
import { AedesProcess } from './aedesProcess';

/** The broker between server and devices, in a process that can be killed. */
export type CrashBroker = Mosquitto | AedesProcess;

const SAVE_ON_EVERY_CHANGE = ['autosave_on_changes true', 'autosave_interval 1'];

/**
 * Starts Mosquitto if it is installed and the option `--aedes` is not set, otherwise aedes.
 * `lines`: additional lines of mosquitto.conf. The default saves sessions on every change, so that they survive a kill.
 */
export async function startBroker(lines: readonly string[] = SAVE_ON_EVERY_CHANGE): Promise<CrashBroker> {
  if (process.argv.includes('--aedes') || !hasMosquitto()) return await AedesProcess.start();
  return await Mosquitto.start({ lines });
}

function hasMosquitto(): boolean {
  try {
    return findMosquitto() !== '';
  } catch {
    return false;
  }
}

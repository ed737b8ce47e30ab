import type { Command } from 'commander';
import { AlreadyReportedError } from '../exit';
import { getConfig, DATA_SETTINGS, withConfig, withJson, type ConfigFlags } from '../options';
import { showRecord } from '../output';
import { getRunEndpoint, findRunFile, type RunFile } from '../runFile';
import type * as askHealth from './askHealth';

const loadAskHealth = (): typeof askHealth => require('./askHealth');

/** The output of `plantroom health`. */
interface Health {
  /**
   * `absent`: no server is registered in the data folder (run.json). `silent`: one is registered but does not respond.
   */
  readonly state: askHealth.HealthStatus['state'] | 'absent';
  readonly address: string | null;
  readonly message: string;
}

/** Adds `plantroom health`. */
export function addHealth(program: Command): void {
  const command = program
    .command('health')
    .description('Check whether the server is healthy; exit code 0: healthy, 1: not healthy');
  withConfig(withJson(command), DATA_SETTINGS).action((flags: ConfigFlags) => runHealth(flags));
}

/**
 * Implements `plantroom health`. It is fast enough for supervisors that call it every few seconds: no database, no
 * gRPC.
 */
async function runHealth(flags: ConfigFlags): Promise<void> {
  const folder = getConfig(flags).config.data.dir;
  const run = findRunFile(folder);
  const health = run ? await fetchHealth(run) : createAbsentHealth(folder);
  showRecord({ ...health }, flags);
  if (health.state !== 'serving') throw new AlreadyReportedError(1);
}

async function fetchHealth(run: RunFile): Promise<Health> {
  const { address, plaintext } = getRunEndpoint(run);
  return { ...(await loadAskHealth().queryHealth(address, plaintext)), address };
}

/** Returns the health if no server is registered in the data folder. */
function createAbsentHealth(folder: string): Health {
  return {
    state: 'absent',
    address: null,
    message: `no server is running with data folder ${folder}: it is starting or stopped; if the server uses another folder, set --data-dir`,
  };
}

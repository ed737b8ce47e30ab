import type { Command } from 'commander';
import { Reported } from '../exit';
import { configOf, DATA_SETTINGS, withConfig, withJson, type ConfigFlags } from '../options';
import { showRecord } from '../output';
import { endpointOfRun, findRunFile, type RunFile } from '../runFile';
import type * as asking from './askHealth';

const lazyAsking = (): typeof asking => require('./askHealth');

/** What `plantroom health` shows. */
interface Health {
  /** `absent`: no server says that it runs on the data folder. `silent`: one says so, and does not answer. */
  readonly state: asking.Answer['state'] | 'absent';
  readonly address: string | null;
  readonly message: string;
}

/** Adds `plantroom health`. */
export function addHealth(program: Command): void {
  const command = program.command('health').description('ask the server of the data folder whether it serves; exit code 0 if it does, 1 if not');
  withConfig(withJson(command), DATA_SETTINGS).action((flags: ConfigFlags) => runHealth(flags));
}

/** Made for supervisors that ask every few seconds: it opens no database and loads no client. */
async function runHealth(flags: ConfigFlags): Promise<void> {
  const folder = configOf(flags).config.data.dir;
  const run = findRunFile(folder);
  const health = run ? await healthOf(run) : absent(folder);
  showRecord({ ...health }, flags);
  if (health.state !== 'serving') throw new Reported(1);
}

async function healthOf(run: RunFile): Promise<Health> {
  const { address, plaintext } = endpointOfRun(run);
  return { ...(await lazyAsking().askHealth(address, plaintext)), address };
}

function absent(folder: string): Health {
  return { state: 'absent', address: null, message: `no server says that it runs on ${folder}: it is starting, or it stopped; if it has another folder, name that with --data-dir` };
}

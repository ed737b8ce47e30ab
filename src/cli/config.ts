import type { Command } from 'commander';
import { listSettings } from '../config';
import { showTable } from './output';
import { getConfig, withConfig, withJson, type ConfigFlags } from './options';

/** Adds `plantroom config print`. */
export function addConfig(program: Command): void {
  const config = program.command('config').description('Show the configuration');
  withConfig(
    withJson(config.command('print').description('Show every setting, its value and its source; passwords are hidden')),
  ).action((flags: ConfigFlags) => showTable(listSettings(getConfig(flags)), ['setting', 'value', 'source'], flags));
}

import type { Command } from 'commander';
import { shownSettings } from '../config';
import { showTable } from './output';
import { configOf, withConfig, withJson, type ConfigFlags } from './options';

/** Adds `plantroom config print`. */
export function addConfig(program: Command): void {
  const config = program.command('config').description('the configuration');
  withConfig(withJson(config.command('print').description('show every setting, its value and where it came from; passwords are hidden'))).action((flags: ConfigFlags) =>
    showTable(shownSettings(configOf(flags)), ['setting', 'value', 'source'], flags),
  );
}

import type { Command } from 'commander';
import { withConfig, withJson, type ConfigFlags } from '../options';
import type * as doctor from './doctor';

const loadDoctor = (): typeof doctor => require('./doctor');

/** Adds `plantroom doctor`. */
export function addDoctor(program: Command): void {
  withConfig(
    withJson(
      program
        .command('doctor')
        .description('Check configuration, data folder, ports, database, certificates and clock, and suggest fixes'),
    ),
  ).action((flags: ConfigFlags) => loadDoctor().runDoctor(flags));
}

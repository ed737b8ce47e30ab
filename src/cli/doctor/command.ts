import type { Command } from 'commander';
import { withConfig, withJson, type ConfigFlags } from '../options';
import type * as doctor from './doctor';

const lazyDoctor = (): typeof doctor => require('./doctor');

/** Adds `plantroom doctor`. */
export function addDoctor(program: Command): void {
  withConfig(withJson(program.command('doctor').description('check configuration, data folder, ports, database, certificates and clock, and say what to mend'))).action((flags: ConfigFlags) => lazyDoctor().runDoctor(flags));
}

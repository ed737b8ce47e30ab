import type { Command } from 'commander';
import { withConfig, withJson, type ConfigFlags } from '../options';
import type * as serve from './serve';

const lazyServe = (): typeof serve => require('./serve');

/** Adds `plantroom serve`. */
export function addServe(program: Command): void {
  withConfig(withJson(program.command('serve').description('run the server until SIGTERM or Ctrl-C; its log is JSON lines on stdout'))).action((flags: ConfigFlags) => lazyServe().runServe(flags));
}

import type { Command } from 'commander';
import { withConfig, withJson } from '../options';
import type * as serve from './serve';
import type { ServeFlags } from './serve';

const loadServe = (): typeof serve => require('./serve');

/** Adds `plantroom serve`. */
export function addServe(program: Command): void {
  withConfig(
    withJson(
      program.command('serve').description('Run the server until SIGTERM or Ctrl-C; the log is written to stdout'),
    ),
  )
    .option('--accept-data-loss', 'start once although the database lost data; continue with the remaining data')
    .action((flags: ServeFlags) => loadServe().runServe(flags));
}

import type { Command } from 'commander';
import { withJson } from '../options';
import type { OutputOptions } from '../output';
import type * as demo from './demo';

const loadDemo = (): typeof demo => require('./demo');

/** Adds `plantroom demo`. */
export function addDemo(program: Command): void {
  withJson(
    program
      .command('demo')
      .description('Run a temporary server and a simulated gateway: execute a command, show each step, clean up'),
  ).action((flags: OutputOptions) => loadDemo().runDemo(flags));
}

import type { Command } from 'commander';
import { withJson } from '../options';
import type { OutputOptions } from '../output';
import type * as demo from './demo';

const lazyDemo = (): typeof demo => require('./demo');

/** Adds `plantroom demo`. */
export function addDemo(program: Command): void {
  withJson(program.command('demo').description('a throw-away server and a simulated gateway: execute a command, show what happens, clean up')).action((flags: OutputOptions) => lazyDemo().runDemo(flags));
}

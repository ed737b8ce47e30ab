import type { Command } from 'commander';
import { withTarget } from '../call/command';
import { commaList, duration, withJson } from '../options';
import type * as simulate from './simulate';
import type { SimulateFlags } from './simulate';

const lazySimulate = (): typeof simulate => require('./simulate');

/** Adds `plantroom simulate`. */
export function addSimulate(program: Command): void {
  const command = program.command('simulate').description('play a gateway with a heating valve, a relay and a room sensor');
  withTarget(withJson(command))
    .requiredOption('--connection <id>', 'the connection to attach to, of connector type gateway')
    .option('--gateway-id <id>', 'who the gateway says it is (default: another one with each start)')
    .option('--devices <ids>', 'devices to play: ids that begin with valve, relay or room (default: valve-1,relay-1,room-1)', commaList)
    .option('--interval <time>', 'between two uplinks of a device; 0: only after a command', duration, 30_000)
    .option('--delay <time>', 'from a command to its answer, for example 2s', duration, 0)
    .option('--reject', 'devices answer no')
    .option('--no-answer', 'devices do not answer')
    .option('--drop-received', 'do not say command_received, only the result')
    .option('--volatile', 'say that a restart forgets what was received')
    .option('--store <file>', 'keep commands in this file, so that they survive a restart')
    .option('--for <time>', 'stop after this time', duration)
    .action((flags: SimulateFlags) => lazySimulate().runSimulate(flags));
}

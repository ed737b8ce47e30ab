import type { Command } from 'commander';
import { withTarget } from '../call/command';
import { commaList, duration, withJson } from '../options';
import type * as simulate from './simulate';
import type { SimulateFlags } from './simulate';

const lazySimulate = (): typeof simulate => require('./simulate');

const DEVICES = `What the devices take, and show with their next uplink:
  valve  {"position": 0 to 100}, or the bytes 01 and the position
  relay  {"relay": 0 or 1, "on": true or false}, or two bytes, relay and state
Both keep what else an object holds as settings, and show it too. A room sensor takes nothing.`;

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
    .addHelpText('after', `\n${DEVICES}`)
    .action((flags: SimulateFlags) => lazySimulate().runSimulate(flags));
}

import type { Command } from 'commander';
import type * as call from './call';
import type { CallFlags } from './call';
import { DATA_SETTINGS, duration, withConfig, withJson } from '../options';

// gRPC and the descriptors are loaded only by the command that needs them.
const lazyCall = (): typeof call => require('./call');

/** Adds the options that say where to call and as whom; they are read by targetOf. */
export function withTarget(command: Command): Command {
  return withConfig(
    command
      .option('--address <host:port>', 'the server (default: the one on the data folder)')
      .option('--ca <file>', 'the CA certificate to check it with, PEM (default: the one in the data folder)')
      .option('--plaintext', 'call without TLS; only with --address')
      .option('--key <key>', 'the API key (PLANTROOM_API_KEY)')
      .option('--key-file <file>', 'a file with {"organizationId", "apiKey"} as the first start writes it (PLANTROOM_BOOTSTRAP_KEY_FILE)')
      .option('--organization <id>', 'the organization (PLANTROOM_ORGANIZATION_ID; default: that of the key file, or the only one there is)'),
    DATA_SETTINGS,
  );
}

/** Adds `plantroom call`. */
export function addCall(program: Command): void {
  const command = program.command('call [method] [request]').description('call any method of a server with JSON, or - to read it from stdin');
  withTarget(withJson(command))
    .option('--list', 'list the methods of the server')
    .option('--field <path>', 'write only this member of the answer, for scripts: id, sensors.0.id, or sensorTemplates.keyName=valve_position.id')
    .option('--timeout <time>', 'give up after this time, for example 10s (default: 30s, none for a stream of answers)', duration)
    .addHelpText('after', '\nExample:\n  plantroom call DigitalDeviceService/ListDigitalDevices \'{"limit": 5}\'')
    .action((name: string | undefined, body: string | undefined, flags: CallFlags) => lazyCall().runCall(name, body, flags));
}

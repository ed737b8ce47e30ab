import type { Command } from 'commander';
import type * as call from './call';
import type { CallFlags } from './call';
import { DATA_SETTINGS, parseDuration, withConfig, withJson } from '../options';

// gRPC and the descriptors are loaded only by the command that needs them.
const loadCall = (): typeof call => require('./call');

/** Adds the options for the server address and the API key; getTarget reads them. */
export function withTarget(command: Command): Command {
  return withConfig(
    command
      .option('--address <host:port>', 'Server address (default: the server of the data folder)')
      .option('--ca <file>', 'CA certificate to verify the server with, PEM (default: the one in the data folder)')
      .option('--plaintext', 'Call without TLS (only with --address)')
      .option('--key <key>', 'API key (PLANTROOM_API_KEY)')
      .option(
        '--key-file <file>',
        'File with {"organizationId", "apiKey"}, as written by the first start (PLANTROOM_BOOTSTRAP_KEY_FILE)',
      )
      .option(
        '--organization <id>',
        'Organization id (PLANTROOM_ORGANIZATION_ID; default: from the key file, or the only organization)',
      ),
    DATA_SETTINGS,
  );
}

/** Adds `plantroom call`. */
export function addCall(program: Command): void {
  const command = program
    .command('call [method] [request]')
    .description('Call any method of a server with JSON (- reads it from stdin)');
  withTarget(withJson(command))
    .option('--list', 'List the methods of the server')
    .option(
      '--field <path>',
      'Print only this field of the response, for scripts: id, sensors.0.id, or sensorTemplates.keyName=valve_position.id',
    )
    .option(
      '--timeout <time>',
      'Timeout, for example 10s (default: 30s; no timeout for response streams)',
      parseDuration,
    )
    .addHelpText('after', '\nExample:\n  plantroom call DigitalDeviceService/ListDigitalDevices \'{"limit": 5}\'')
    .action((name: string | undefined, body: string | undefined, flags: CallFlags) =>
      loadCall().runCall(name, body, flags),
    );
}

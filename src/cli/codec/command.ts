import { type Command, InvalidArgumentError } from 'commander';
import { DATA_SETTINGS, withConfig, withJson } from '../options';
import type { TestFlags } from './codecTest';
import type * as codecTest from './codecTest';
import type * as run from './codecRun';
import type { RunFlags } from './codecRun';
import { parseTime } from './parseTime';

// The sandbox is loaded only by the command that needs it.
const loadCodecRun = (): typeof run => require('./codecRun');
const loadCodecTest = (): typeof codecTest => require('./codecTest');

/** Adds `plantroom codec run` and `plantroom codec test`. */
export function addCodec(program: Command): void {
  const codec = program
    .command('codec')
    .description('Run encoders and decoders in the server sandbox, without a server');
  withSandboxOptions(
    codec.command('run').description('Run an encoder and show its bytes, or a decoder and show its data'),
    ['codec.timeoutMs', 'codec.hardTimeoutMs'],
  )
    .requiredOption('--script <file>', 'Encoder or decoder script (JavaScript)')
    .option('--input <json>', 'Run the encoder with this input.data (JSON; - reads it from stdin)')
    .option('--bytes <hex>', 'Run the decoder with these input.bytes: hex digits such as "01 28", or base64')
    .option('--fport <port>', 'Value of input.fPort: 1 to 223 for an encoder, 0 to 255 for a decoder', parseFPort)
    .option(
      '--recv-time <time>',
      'Value of input.recvTime (with --bytes), for example 2026-03-01T12:00:00Z',
      parseRecvTime,
    )
    .option('--downlink', 'Run decodeDownlink (with --bytes)')
    .option('--variables <json>', 'Value of input.variables: a JSON object with string values')
    .addHelpText(
      'after',
      '\nExamples:\n  plantroom codec run --script valve.js --input \'{"position": 40}\' --fport 10\n  plantroom codec run --script valve.js --bytes "01 28" --fport 10',
    )
    .action((flags: RunFlags) => loadCodecRun().runCodecRun(flags));
  withSandboxOptions(
    codec
      .command('test [folder]')
      .description('Run every script of a folder, or every imported codec, against its examples'),
    [...DATA_SETTINGS, 'codec.timeoutMs', 'codec.hardTimeoutMs', 'codec.workers'],
  )
    .option('--profiles', 'Test the codecs of the imported device profiles instead of a folder')
    .option(
      '--vendor <brand>',
      'Test only this vendor (with --profiles); can be repeated',
      (brand: string, before: string[] | undefined) => [...(before ?? []), brand],
    )
    .option(
      '--source <name>',
      'Test only this repository (with --profiles): lorawan-devices or chirpstack-device-profiles',
    )
    .addHelpText(
      'after',
      '\nThe examples of valve.js are in valve.examples.json, else in valve.json; for the only script of a folder also in examples.json.',
    )
    .action((folder: string | undefined, flags: TestFlags) => loadCodecTest().runCodecTest(folder, flags));
}

function withSandboxOptions(command: Command, settings: readonly string[]): Command {
  return withConfig(withJson(command), settings);
}

function parseFPort(text: string): number {
  const port = /^\d{1,3}$/.test(text) ? Number(text) : Infinity;
  if (port > 255) throw new InvalidArgumentError('must be a whole number from 1 to 223; with --bytes from 0 to 255');
  return port;
}

function parseRecvTime(text: string): number {
  const time = parseTime(text);
  if (time === undefined) throw new InvalidArgumentError('must be a time such as 2026-03-01T12:00:00Z');
  return time;
}

import { type Command, InvalidArgumentError } from 'commander';
import { DATA_SETTINGS, withConfig, withJson } from '../options';
import type { TestFlags } from './codecTest';
import type * as codecTest from './codecTest';
import type * as run from './run';
import type { RunFlags } from './run';
import { timeOfText } from './timeText';

// The sandbox is loaded only by the command that needs it.
const lazyRun = (): typeof run => require('./run');
const lazyCodecTest = (): typeof codecTest => require('./codecTest');

/** Adds `plantroom codec run` and `plantroom codec test`. */
export function addCodec(program: Command): void {
  const codec = program.command('codec').description('run encoders and decoders in the sandbox of the server, without a server');
  withSandbox(codec.command('run').description('run an encoder and show its bytes, or a decoder and show its data'), ['codec.scriptMs', 'codec.hardMs'])
    .requiredOption('--script <file>', 'the encoder or decoder, JavaScript')
    .option('--input <json>', 'run the encoder: what it is given as input.data, or - to read it from stdin')
    .option('--bytes <hex>', 'run the decoder: what it is given as input.bytes, hex digits such as "01 28" or base64')
    .option('--fport <port>', 'what it is given as input.fPort, 1 to 223; a decoder 0 to 255', fPort)
    .option('--recv-time <time>', 'with --bytes: what it is given as input.recvTime, such as 2026-03-01T12:00:00Z', recvTime)
    .option('--downlink', 'with --bytes: run decodeDownlink')
    .option('--variables <json>', 'what it is given as input.variables, an object of texts')
    .addHelpText('after', '\nExamples:\n  plantroom codec run --script valve.js --input \'{"position": 40}\' --fport 10\n  plantroom codec run --script valve.js --bytes "01 28" --fport 10')
    .action((flags: RunFlags) => lazyRun().runCodecRun(flags));
  withSandbox(codec.command('test [folder]').description('run every script of a folder with the examples beside it, or all imported codecs with theirs'), [...DATA_SETTINGS, 'codec.scriptMs', 'codec.hardMs', 'codec.workers'])
    .option('--profiles', 'run the codecs of the imported device profiles, instead of a folder')
    .option('--vendor <brand>', 'with --profiles: only of this brand; may be given more than once', (brand: string, before: string[] | undefined) => [...(before ?? []), brand])
    .option('--source <name>', 'with --profiles: only of this repository, lorawan-devices or chirpstack-device-profiles')
    .addHelpText('after', '\nThe examples of valve.js are valve.examples.json, else valve.json; of the only script of a folder also examples.json.')
    .action((folder: string | undefined, flags: TestFlags) => lazyCodecTest().runCodecTest(folder, flags));
}

function withSandbox(command: Command, settings: readonly string[]): Command {
  return withConfig(withJson(command), settings);
}

function fPort(text: string): number {
  const port = /^\d{1,3}$/.test(text) ? Number(text) : 256;
  if (port > 255) throw new InvalidArgumentError('give a whole number from 1 to 223, with --bytes from 0 to 255');
  return port;
}

function recvTime(text: string): number {
  const time = timeOfText(text);
  if (time === undefined) throw new InvalidArgumentError('give a time such as 2026-03-01T12:00:00Z');
  return time;
}

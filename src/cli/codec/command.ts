import { type Command, InvalidArgumentError } from 'commander';
import { DATA_SETTINGS, withConfig, withJson } from '../options';
import type { TestFlags } from './codecTest';
import type * as codecTest from './codecTest';
import type * as run from './run';
import type { RunFlags } from './run';

// The sandbox is loaded only by the command that needs it.
const lazyRun = (): typeof run => require('./run');
const lazyCodecTest = (): typeof codecTest => require('./codecTest');

/** Adds `plantroom codec run` and `plantroom codec test`. */
export function addCodec(program: Command): void {
  const codec = program.command('codec').description('run encoders in the sandbox of the server, without a server');
  withSandbox(codec.command('run').description('run one encoder and show its bytes'), ['codec.scriptMs', 'codec.hardMs'])
    .requiredOption('--script <file>', 'the encoder, JavaScript')
    .requiredOption('--input <json>', 'what it is given as input.data, or - to read it from stdin')
    .option('--fport <port>', 'what it is given as input.fPort, 1 to 223', fPort)
    .option('--variables <json>', 'what it is given as input.variables, an object of texts')
    .addHelpText('after', '\nExample:\n  plantroom codec run --script valve.js --input \'{"position": 40}\' --fport 10')
    .action((flags: RunFlags) => lazyRun().runCodecRun(flags));
  withSandbox(codec.command('test [folder]').description('run every script of a folder with the examples beside it, or all imported codecs with theirs'), [...DATA_SETTINGS, 'codec.scriptMs', 'codec.hardMs', 'codec.workers'])
    .option('--profiles', 'run the codecs of the imported device profiles, instead of a folder')
    .option('--vendor <brand>', 'with --profiles: only of this brand; may be given more than once', (brand: string, before: string[] = []) => [...before, brand])
    .option('--source <name>', 'with --profiles: only of this repository, lorawan-devices or chirpstack-device-profiles')
    .addHelpText('after', '\nThe examples of valve.js are valve.examples.json, else valve.json; of the only script of a folder also examples.json.')
    .action((folder: string | undefined, flags: TestFlags) => lazyCodecTest().runCodecTest(folder, flags));
}

function withSandbox(command: Command, settings: readonly string[]): Command {
  return withConfig(withJson(command), settings);
}

function fPort(text: string): number {
  const port = /^\d{1,3}$/.test(text) ? Number(text) : 0;
  if (port < 1 || port > 223) throw new InvalidArgumentError('give a whole number from 1 to 223');
  return port;
}

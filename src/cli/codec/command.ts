import { type Command, InvalidArgumentError } from 'commander';
import { withConfig, withJson } from '../options';
import type * as folderTest from './folderTest';
import type * as run from './run';
import type { RunFlags } from './run';
import type { CodecFlags } from './workbench';

// The sandbox is loaded only by the command that needs it.
const lazyRun = (): typeof run => require('./run');
const lazyFolderTest = (): typeof folderTest => require('./folderTest');

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
  withSandbox(codec.command('test <folder>').description('run every encoder of a folder with the examples beside it'), ['codec.scriptMs', 'codec.hardMs', 'codec.workers'])
    .addHelpText('after', '\nThe examples of valve.js are valve.examples.json, else valve.json; of the only script of a folder also examples.json.')
    .action((folder: string, flags: CodecFlags) => lazyFolderTest().runCodecTest(folder, flags));
}

function withSandbox(command: Command, settings: readonly string[]): Command {
  return withConfig(withJson(command), settings);
}

function fPort(text: string): number {
  const port = /^\d{1,3}$/.test(text) ? Number(text) : 0;
  if (port < 1 || port > 223) throw new InvalidArgumentError('give a whole number from 1 to 223');
  return port;
}

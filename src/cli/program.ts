import { Command } from 'commander';
import { version } from '../../package.json';
import { addAudit } from './audit/command';
import { addCall } from './call/command';
import { addCodec } from './codec/command';
import { addConfig } from './config';
import { addDashboards } from './dashboards/command';
import { addDemo } from './demo/command';
import { addDoctor } from './doctor/command';
import { normalizeId } from '../kernel/ids';
import { formatError, getExitCode } from './exit';
import { addKeys } from './people/keys';
import { addMembers } from './people/members';
import { addOrganizations } from './people/organizations';
import { addRoles } from './people/roles';
import { addUsers } from './people/users';
import { addBackup } from './operate/backup';
import { addRestore } from './operate/restore';
import { addSecrets } from './operate/secrets';
import { addProfiles } from './profiles/command';
import { addReadings } from './readings/command';
import { addServe } from './server/command';
import { addHealth } from './server/health';
import { addMigrate } from './server/migrate';
import { addSimulate } from './simulate/command';
import { addVersion } from './version';

const GROUPS: readonly (readonly [string, readonly ((program: Command) => void)[]])[] = [
  ['Server:', [addServe, addMigrate, addBackup, addRestore, addSecrets, addDoctor, addHealth]],
  ['People and keys:', [addOrganizations, addUsers, addMembers, addRoles, addKeys, addAudit]],
  ['Client:', [addCall, addReadings, addDashboards, addSimulate, addDemo]],
  ['Codecs and profiles:', [addCodec, addProfiles]],
  ['About:', [addConfig, addVersion]],
];

/** Creates the command line with all commands. */
export function createProgram(): Command {
  const program = new Command('plantroom')
    .description('On-premises server for sites full of sensors and actuators')
    .version(version, '--version', 'Show the version and exit');
  program
    .exitOverride()
    .showHelpAfterError('(Run with --help for usage.)')
    .configureHelp({ showGlobalOptions: true })
    .enablePositionalOptions()
    .hook('preAction', (_program, command) => normalizeIds(command));
  for (const [group, addCommands] of GROUPS) {
    program.commandsGroup(group);
    for (const addCommand of addCommands) addCommand(program);
  }
  return program;
}

const ID_ARGUMENT = /^(?:id|user)$/;
const ID_OPTION = /<(?:id|ids|connections)>/;

/** Normalizes the ids in the arguments and options of a command: a UUID may be in upper case. */
function normalizeIds(command: Command): void {
  for (const [index, argument] of command.registeredArguments.entries())
    if (ID_ARGUMENT.test(argument.name())) command.processedArgs[index] = normalizeIdsIn(command.processedArgs[index]);
  for (const option of command.options) {
    const name = option.attributeName();
    if (ID_OPTION.test(option.flags))
      command.setOptionValueWithSource(
        name,
        normalizeIdsIn(command.getOptionValue(name)),
        command.getOptionValueSource(name),
      );
  }
}

/** Normalizes an id, or the ids of a list. */
function normalizeIdsIn(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(normalizeIdsIn);
  return typeof value === 'string' ? normalizeId(value) : value;
}

/** Runs one command and sets the exit code of the process. */
export async function runProgram(args: readonly string[]): Promise<void> {
  // Users cannot fix deprecation warnings of our dependencies.
  process.noDeprecation = true;
  process.stdout.on('error', exitOnStdoutError);
  try {
    await createProgram().parseAsync([...args], { from: 'user' });
  } catch (error) {
    process.stderr.write(formatError(error, process.env['PLANTROOM_LOG_LEVEL'] === 'debug'));
    process.exitCode = getExitCode(error);
  }
}

/** Exits when stdout fails. A closed pipe (`| head`) is not a failure; a full disk is, and is reported. */
function exitOnStdoutError({ code }: NodeJS.ErrnoException): never {
  if (code === 'EPIPE') process.exit(0);
  process.stderr.write(
    `plantroom: stdout cannot be written (${code ?? 'unknown'})${code === 'ENOSPC' ? ': the disk is full; free disk space' : ''}; the output is incomplete\n`,
  );
  process.exit(1);
}

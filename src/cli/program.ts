import { Command } from 'commander';
import { version } from '../../package.json';
import { addAudit } from './audit/command';
import { addCall } from './call/command';
import { addCodec } from './codec/command';
import { addConfig } from './config';
import { addDemo } from './demo/command';
import { addDoctor } from './doctor/command';
import { errorText, exitCodeOf } from './exit';
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
  ['Client:', [addCall, addReadings, addSimulate, addDemo]],
  ['Codecs and profiles:', [addCodec, addProfiles]],
  ['About:', [addConfig, addVersion]],
];

/** The whole command line. */
export function makeProgram(): Command {
  const program = new Command('plantroom').description('On-premises server for sites full of sensors and actuators').version(version, '--version', 'say the version');
  program.exitOverride().showHelpAfterError('(--help shows what it takes)').configureHelp({ showGlobalOptions: true }).enablePositionalOptions();
  for (const [group, adds] of GROUPS) {
    program.commandsGroup(group);
    for (const add of adds) add(program);
  }
  return program;
}

/** Runs one command of the command line to its end and sets the exit code of the process. */
export async function runProgram(args: readonly string[]): Promise<void> {
  // Deprecations inside our dependencies are ours to mend; who runs the program can do nothing about them.
  process.noDeprecation = true;
  process.stdout.on('error', stdoutFailed);
  try {
    await makeProgram().parseAsync([...args], { from: 'user' });
  } catch (error) {
    process.stderr.write(errorText(error, process.env['PLANTROOM_LOG_LEVEL'] === 'debug'));
    process.exitCode = exitCodeOf(error);
  }
}

/** A reader that goes away ("| head") is no failure; a full disk is one, and must be told. */
function stdoutFailed({ code }: NodeJS.ErrnoException): never {
  if (code === 'EPIPE') process.exit(0);
  process.stderr.write(`plantroom: stdout cannot be written (${code ?? 'unknown'})${code === 'ENOSPC' ? ': the disk that it goes to is full; make room there' : ''}; what was written to it is not all\n`);
  process.exit(1);
}

import type { Command } from 'commander';
import { DATA_SETTINGS, withConfig, withJson } from '../options';
import type * as runRestore from './runRestore';
import type { RestoreFlags } from './runRestore';

const lazyRun = (): typeof runRestore => require('./runRestore');

const MORE = `
Given a copy that was made before a migration (backups/before-migration-*.db in the data folder), it goes back to that inside of the same data folder:
run it by the version that the copy is of. Pictures, certificates and keys stay; the newer database is moved aside.

Examples:
  plantroom restore backups/plantroom-2026-11-22T02-30-00Z-<installation>.tar.zst --data-dir /var/lib/plantroom
  plantroom restore /var/lib/plantroom/backups/before-migration-<time>-<schema>.db --data-dir /var/lib/plantroom`;

/** Adds `plantroom restore`. */
export function addRestore(program: Command): void {
  const command = program
    .command('restore <file>')
    .description('restore a backup into an empty data folder, or go back to a copy of the database; what was open in it is ended, never sent again')
    .option('--passphrase-file <file>', 'the file whose first line is the passphrase of the backup')
    .option('--revoke-keys', 'revoke all API keys that would work again')
    .option('--dry-run', 'verify the backup and show what a restore would do; changes nothing, works in a temporary folder (TMPDIR)')
    .addHelpText('after', MORE);
  withConfig(withJson(command), DATA_SETTINGS).action(async (file: string, flags: RestoreFlags) => await lazyRun().runRestore(file, flags));
}

import type { Command } from 'commander';
import { DATA_SETTINGS, withConfig, withJson } from '../options';
import type * as runRestore from './runRestore';
import type { RestoreFlags } from './runRestore';

const loadRunRestore = (): typeof runRestore => require('./runRestore');

const MORE = `
To roll back a migration, name the copy that was created before it (backups/before-migration-*.db in the data folder). Run the version
that created the copy. Images, certificates and keys stay as they are; the newer database is moved to a side file.

Examples:
  plantroom restore backups/plantroom-2026-11-22T02-30-00Z-<installation>.tar.zst --data-dir /var/lib/plantroom
  plantroom restore /var/lib/plantroom/backups/before-migration-<time>-<schema>.db --data-dir /var/lib/plantroom`;

/** Adds `plantroom restore`. */
export function addRestore(program: Command): void {
  const command = program
    .command('restore <file>')
    .description(
      'Restore a backup into an empty data folder, or roll back to a copy of the database; open commands are closed, never sent again',
    )
    .option('--passphrase-file <file>', 'file whose first line is the passphrase of the backup')
    .option('--revoke-keys', 'revoke all API keys that would become valid again')
    .option(
      '--dry-run',
      'verify the backup and show what a restore would do; changes nothing, uses a temporary folder (TMPDIR)',
    )
    .addHelpText('after', MORE);
  withConfig(withJson(command), DATA_SETTINGS).action(
    async (file: string, flags: RestoreFlags) => await loadRunRestore().runRestore(file, flags),
  );
}

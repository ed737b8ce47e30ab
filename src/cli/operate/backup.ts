import type { Command } from 'commander';
import { DATA_SETTINGS, withConfig, withJson, type ConfigFlags } from '../options';
import type * as backupList from './backupList';
import type { ListFlags, VerifyFlags } from './backupList';
import type * as runBackup from './runBackup';
import type { BackupFlags } from './runBackup';

const loadRunBackup = (): typeof runBackup => require('./runBackup');
const loadBackupList = (): typeof backupList => require('./backupList');

const PASSPHRASE = [
  '--passphrase-file <file>',
  'file whose first line is the passphrase of the backup (default: PLANTROOM_BACKUP_PASSPHRASE_FILE)',
] as const;

/** Adds `plantroom backup`, `plantroom backup list` and `plantroom backup verify`. */
export function addBackup(program: Command): void {
  const backup = program
    .command('backup')
    .description(
      'Back up database, images, certificates, keys and configuration to one file; the server can keep running',
    )
    .option(
      '--output <path>',
      'file, or folder for the file (default: PLANTROOM_BACKUP_DIR, else the folder backups in the data folder)',
    )
    .option(...PASSPHRASE)
    .option(
      '--rotate',
      'then delete older backups from the folder according to backup.keepDaily, keepWeekly and keepMonthly',
    )
    .addHelpText('after', '\nExample:\n  plantroom backup --data-dir /var/lib/plantroom --output /mnt/backups');
  withConfig(withJson(backup), DATA_SETTINGS).action(
    async (flags: BackupFlags) => await loadRunBackup().runBackup(flags),
  );
  // `backup` has the options of its subcommands too, and receives their values: the subcommands read the merged
  // options.
  const list = backup
    .command('list')
    .description('List the backups of a folder, newest first')
    .option('--dir <folder>', 'folder (default: PLANTROOM_BACKUP_DIR, else the folder backups in the data folder)')
    .option('--verify', 'read the newest backup completely and verify its checksums')
    .option(...PASSPHRASE);
  withConfig(withJson(list), DATA_SETTINGS).action(
    async (_flags: ConfigFlags, command: Command) =>
      await loadBackupList().runList(command.optsWithGlobals<ListFlags>()),
  );
  const verify = backup
    .command('verify <file>')
    .description('Read a backup completely and verify every checksum; needs no server and no data folder')
    .option(...PASSPHRASE);
  withConfig(withJson(verify), ['log.level']).action(
    async (file: string, _flags: ConfigFlags, command: Command) =>
      await loadBackupList().runVerify(file, command.optsWithGlobals<VerifyFlags>()),
  );
}

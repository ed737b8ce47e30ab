import type { Command } from 'commander';
import { DATA_SETTINGS, withConfig, withJson, type ConfigFlags } from '../options';
import type * as backupList from './backupList';
import type { ListFlags, VerifyFlags } from './backupList';
import type * as runBackup from './runBackup';
import type { BackupFlags } from './runBackup';

const lazyRun = (): typeof runBackup => require('./runBackup');
const lazyList = (): typeof backupList => require('./backupList');

const PASSPHRASE = ['--passphrase-file <file>', 'the file whose first line is the passphrase of the backup (default: as PLANTROOM_BACKUP_PASSPHRASE_FILE says)'] as const;

/** Adds `plantroom backup`, `plantroom backup list` and `plantroom backup verify`. */
export function addBackup(program: Command): void {
  const backup = program
    .command('backup')
    .description('copy database, pictures, certificates, keys and configuration into one file, beside a running server')
    .option('--output <path>', 'the file, or the folder that it comes to (default: as PLANTROOM_BACKUP_DIR says, else backups in the data folder)')
    .option(...PASSPHRASE)
    .option('--rotate', 'then remove older backups from the folder as the settings backup.keepDaily, keepWeekly and keepMonthly say')
    .addHelpText('after', '\nExample:\n  plantroom backup --data-dir /var/lib/plantroom --output /mnt/backups');
  withConfig(withJson(backup), DATA_SETTINGS).action(async (flags: BackupFlags) => await lazyRun().runBackup(flags));
  const list = backup
    .command('list')
    .description('list the backups of a folder, newest first')
    .option('--dir <folder>', 'the folder (default: as PLANTROOM_BACKUP_DIR says, else backups in the data folder)')
    .option('--verify', 'read the newest one all through')
    .option(...PASSPHRASE);
  withConfig(withJson(list), DATA_SETTINGS).action(async (_flags: ConfigFlags, command: Command) => await lazyList().runList(command.optsWithGlobals<ListFlags>()));
  const verify = backup.command('verify <file>').description('read a backup all through and compare every checksum; needs no server and no data folder').option(...PASSPHRASE);
  withConfig(withJson(verify), ['log.level']).action(async (file: string, _flags: ConfigFlags, command: Command) => await lazyList().runVerify(file, command.optsWithGlobals<VerifyFlags>()));
}

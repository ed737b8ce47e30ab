export {
  type BackupFile,
  findBackupFiles,
  formatBackupName,
  listBackups,
  selectOwnBackups,
  excludeFutureBackups,
} from './backupFiles';
export type { BackupRequest, BackupSource, BackupResult } from './backupRequest';
export { BACKUP_LOCK } from './backupFolder';
export { BackupSchedule, type BackupScheduleOptions } from './backupSchedule';
export { withBackupHint } from './findUsableBackup';
export { makeBackup } from './makeBackup';
export { BACKUP_FORMAT, type BackupManifest } from './manifest';
export { packBackup, type PackOptions } from './packBackup';
export { selectOutdatedBackups, rotateBackups } from './rotation';
export { readManifest, unpackBackup } from './unpackBackup';
export { rollBackDatabase, isDatabaseCopy, dryRunRollback, type RollbackResult } from './restore/rollback';
export { dryRunRestore, restoreBackup, type RestoreResult, type RestoreOptions } from './restore/restore';
export type { PreparedDatabase } from './restore/preparation';

export { acquireBackupLock, backUp, getBackupFolder, type BackUpOptions } from './backups';
export { openAdminContext, type AdminContext } from './adminContext';
export { Disposables } from './disposables';
export { startServer, type RunningServer } from './startServer';

export { Database, type DatabaseFacts } from './database';
export { type DataFolderLock, findDataFolderHolder, lockDataFolder, watchDataFolder } from './dataFolder';
export type { Db, HotStatement, SqlValue } from './db';
export { type Dialect, foldName } from './engines/dialect';
export type { MigrationReport } from './migrate';
export type { Migration } from './migrations';
export { openDatabase, type OpenDatabaseOptions } from './openDatabase';
export { uniqueOr } from './translate';
export { UnitOfWork } from './unitOfWork';

import { existsSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { createAccessRepositories, CommandLineAudit, openInstallationId } from '../access';
import { toEnvironmentVariables, type Config } from '../config';
import { getKeyFile } from '../connections';
import { type DatabaseDescription, tryLockFile, SQLITE_FILE, UnitOfWork, type Database } from '../database';
import { DomainError } from '../kernel/errors';
import { parseSecretKey } from '../kernel/parseSecretKey';
import { getSelfCommand } from '../kernel/executable';
import { getCode } from '../kernel/errorUtils';
import { formatUserId } from '../kernel/formatUserId';
import {
  BACKUP_LOCK,
  type BackupManifest,
  type BackupRequest,
  BackupSchedule,
  type BackupScheduleOptions,
  type BackupSource,
  type BackupResult,
  makeBackup,
} from '../backup';
import type { ExternalDependencies } from './externalDependencies';
import { openConfiguredDatabase } from './openConfiguredDatabase';

/** Options of `plantroom backup`. */
export interface BackUpOptions extends BackupRequest {
  /** The plantroom.yaml in use; undefined: none. */
  readonly configFile: string | undefined;
  readonly program: BackupManifest['program'];
}

/** The backup folder: the configured one, or `backups` in the data folder. */
export function getBackupFolder({ backup, data }: Pick<Config, 'backup' | 'data'>): string {
  return backup.dir === '' ? resolve(data.dir, 'backups') : backup.dir;
}

/**
 * Creates a backup, with or without a running server; only one can run at a time. A backup contains every secret, so it
 * is recorded in the audit trail of every organization. Throws `backup_not_found`, `backup_in_progress`, and the errors
 * of makeBackup.
 */
export async function backUp(
  config: Config,
  external: ExternalDependencies,
  options: BackUpOptions,
): Promise<BackupResult> {
  const isSqlite = config.database.url === '';
  if (isSqlite && !existsSync(join(config.data.dir, SQLITE_FILE))) throw backupNotFound(config);
  const lock = acquireBackupLock(config.data.dir);
  try {
    const database = await openConfiguredDatabase(config, external);
    try {
      const source = await describeSource(config, database, external, options);
      return await createAuditedBackup(database, source, external, options);
    } finally {
      await database.close();
    }
  } finally {
    lock.release();
  }
}

/** Creates the schedule of automatic backups. Each backup runs in a child process with the same configuration. */
export function createBackupSchedule(
  config: Config,
  external: ExternalDependencies & Pick<BackupScheduleOptions, 'isClockUnreliable'>,
  installationId: string,
): BackupSchedule {
  // The settings of this process replace its PLANTROOM_ variables: flags and the file may override some of them.
  const otherVariables = Object.entries(process.env).filter(([name]) => !name.startsWith('PLANTROOM_'));
  const env = { ...Object.fromEntries(otherVariables), ...toEnvironmentVariables(config) };
  const args = [
    'backup',
    '--rotate',
    '--json',
    ...(external.configFile === undefined ? [] : ['--config', external.configFile]),
  ];
  return new BackupSchedule({
    schedule: config.backup.schedule,
    dir: getBackupFolder(config),
    dataDir: config.data.dir,
    installationId,
    command: { ...getSelfCommand(args), env },
    ...external,
  });
}

/**
 * Creates a backup and records it in the audit trail of every organization. If the trail cannot be written because the
 * database is unavailable, the result has a warning instead.
 */
async function createAuditedBackup(
  database: Database,
  source: BackupSource,
  external: ExternalDependencies,
  request: BackupRequest,
): Promise<BackupResult> {
  if (source.hasOlderSchema)
    return addWarning(
      await makeBackup(source, request),
      'the database schema is older than the program, so this backup is not recorded in the audit trail',
    );
  const auditErrors: DomainError[] = []; // at most one
  const backup = await new CommandLineAudit({ database, ...external }).recordChangeOfAll(
    'backup',
    { resource: 'backups' },
    async (begin) => {
      await begin().catch((error: unknown) => {
        if (!(error instanceof DomainError) || error.kind !== 'unavailable') throw error;
        auditErrors.push(error); // a full disk must not prevent a backup to another disk
      });
      return await makeBackup(source, request);
    },
  );
  const [auditError] = auditErrors;
  return auditError
    ? addWarning(backup, `this backup is not recorded in the audit trail: ${auditError.message}`)
    : backup;
}

function addWarning(backup: BackupResult, warning: string): BackupResult {
  return { ...backup, warnings: [...backup.warnings, warning] };
}

/** Describes what is backed up. Throws `backup_not_found` if the database is empty. */
async function describeSource(
  config: Config,
  database: Database,
  { log, clock }: ExternalDependencies,
  { configFile, program }: BackUpOptions,
): Promise<BackupSource> {
  const { engine, schema, pending }: DatabaseDescription = await database.describe();
  if (schema === '') throw backupNotFound(config);
  const { data, secrets } = config;
  const { url, poolSize } = config.database;
  return {
    open: { url, dataDir: data.dir, poolSize, log, clock },
    db: database.db,
    engine,
    installationId: await openInstallationId(new UnitOfWork(database, createAccessRepositories)),
    configuredKey: parseSecretKey(secrets.key),
    hasOlderSchema: pending.length > 0,
    dataDir: data.dir,
    keyFile: getKeyFile({ keyFile: secrets.keyFile, dataDir: data.dir }),
    configFile,
    program,
    clock,
  };
}

/**
 * Acquires the lock of the data folder for backups and key rotation. Throws `backup_in_progress`,
 * `data_dir_not_writable`.
 */
export function acquireBackupLock(dataDir: string): { release(): void } {
  let lock: { release(): void } | undefined;
  try {
    lock = tryLockFile(join(dataDir, BACKUP_LOCK));
  } catch (error) {
    if (error instanceof DomainError) throw error;
    throw new DomainError(
      'conflict',
      'data_dir_not_writable',
      `the data folder ${resolve(dataDir)} is not writable for this user${formatUserId()} (${getCode(error)}): a backup needs a lock file there; run it as the user of the server (sudo -u plantroom)`,
      { cause: error },
    );
  }
  if (lock) return lock;
  throw new DomainError(
    'conflict',
    'backup_in_progress',
    `another backup or key rotation of ${resolve(dataDir)} is running: wait until it has finished`,
  );
}

function backupNotFound({ data, database }: Config): DomainError {
  const location = database.url === '' ? `in ${resolve(data.dir)}` : 'at the configured address';
  return new DomainError(
    'not_found',
    'backup_not_found',
    `no Plantroom database ${location}: set the data folder of the server with --data-dir, or its configuration with --config`,
  );
}

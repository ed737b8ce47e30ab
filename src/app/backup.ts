import { existsSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { accessRepositories, CommandLineAudit, openInstallationId } from '../access';
import { asVariables, configurationInvalid, type Config } from '../config';
import { keyFileOf } from '../connections';
import { type DatabaseFacts, findFileLock, SQLITE_FILE, UnitOfWork, type Database } from '../database';
import { DomainError } from '../kernel/errors';
import { findKeyIn } from '../kernel/findKeyIn';
import { ownCommand } from '../kernel/thisProgram';
import { codeOf } from '../kernel/thrown';
import { userIdText } from '../kernel/userIdText';
import { BACKUP_LOCK, type BackupManifest, type BackupOrder, BackupSchedule, type BackupScheduleOptions, type BackupSource, type MadeBackup, makeBackup, scheduleMistake } from '../operations';
import { openConfigured, type Outside } from './core';

/** What `plantroom backup` makes a backup by. */
export interface BackUpOptions extends BackupOrder {
  /** The plantroom.yaml that is used; undefined: none. */
  readonly configFile: string | undefined;
  readonly program: BackupManifest['program'];
}

/** The folder of backups where the configuration names none: in the data folder. */
export function backupFolderOf({ backup, data }: Pick<Config, 'backup' | 'data'>): string {
  return backup.dir === '' ? resolve(data.dir, 'backups') : backup.dir;
}

/**
 * Makes a backup beside a running server or without one, one at a time; a backup holds every secret, so it is in the audit trail of every
 * organization. Throws `backup_nothing`, `backup_running`, and the errors of makeBackup.
 */
export async function backUp(config: Config, outside: Outside, options: BackUpOptions): Promise<MadeBackup> {
  if (config.database.url === '' && !existsSync(join(config.data.dir, SQLITE_FILE))) throw nothingToBackUp(config);
  const lock = takeBackupTurn(config.data.dir);
  try {
    const database = await openConfigured(config, outside);
    try {
      return await audited(database, await sourceOf(config, database, outside, options), outside, options);
    } finally {
      await database.close();
    }
  } finally {
    lock.release();
  }
}

/** Throws `configuration_invalid` for a schedule that no time fits. */
export function checkBackupSchedule({ backup }: Config): void {
  const mistake = scheduleMistake(backup.schedule);
  if (mistake !== undefined) throw configurationInvalid([`backup.schedule (PLANTROOM_BACKUP_SCHEDULE) is ${JSON.stringify(backup.schedule)}: ${mistake}`]);
}

/** Makes backups of a server by its configuration: each in a process of its own, which has the same configuration. */
export function backupSchedule(config: Config, outside: Outside & Pick<BackupScheduleOptions, 'isClockDoubted'>, installationId: string): BackupSchedule {
  const inherited = Object.entries(process.env).filter(([name]) => !name.startsWith('PLANTROOM_'));
  const env = { ...Object.fromEntries(inherited), ...asVariables(config) };
  const args = ['backup', '--rotate', '--json', ...(outside.configFile === undefined ? [] : ['--config', outside.configFile])];
  return new BackupSchedule({ schedule: config.backup.schedule, dir: backupFolderOf(config), dataDir: config.data.dir, installationId, command: { ...ownCommand(args), env }, ...outside });
}

async function audited(database: Database, source: BackupSource, outside: Outside, order: BackupOrder): Promise<MadeBackup> {
  if (source.isOlder) return withWarning(await makeBackup(source, order), 'the schema of the database is older than the program, so the audit trail does not tell of this backup');
  const refused: DomainError[] = [];
  const made = await new CommandLineAudit({ database, ...outside }).changeOfAll('backup', { resource: 'backups' }, async (begin) => {
    await begin().catch((error: unknown) => {
      if (!(error instanceof DomainError) || error.kind !== 'unavailable') throw error;
      refused.push(error); // a full disk is when a backup to another one is needed most
    });
    return await makeBackup(source, order);
  });
  return refused.reduce((result, { message }) => withWarning(result, `the audit trail does not tell of this backup: ${message}`), made);
}

function withWarning(made: MadeBackup, warning: string): MadeBackup {
  return { ...made, warnings: [...made.warnings, warning] };
}

async function sourceOf(config: Config, database: Database, { log, clock }: Outside, { configFile, program }: BackUpOptions): Promise<BackupSource> {
  const { engine, schema, pending }: DatabaseFacts = await database.describe();
  if (schema === '') throw nothingToBackUp(config);
  const { data, secrets, database: { url, pool } } = config;
  return {
    open: { url, dataDir: data.dir, poolSize: pool, log, clock },
    db: database.db,
    engine,
    installationId: await openInstallationId(new UnitOfWork(database, accessRepositories)),
    givenKey: findKeyIn(secrets.key),
    isOlder: pending.length > 0,
    dataDir: data.dir,
    keyFile: keyFileOf({ keyFile: secrets.keyFile, dataDir: data.dir }),
    configFile,
    program,
    clock,
  };
}

/** Whoever makes a backup, or changes what must not change meanwhile, has the data folder's turn for it. Throws `backup_running`, `data_folder_not_writable`. */
export function takeBackupTurn(dataDir: string): { release(): void } {
  let lock: { release(): void } | undefined;
  try {
    lock = findFileLock(join(dataDir, BACKUP_LOCK));
  } catch (error) {
    if (error instanceof DomainError) throw error;
    throw new DomainError('conflict', 'data_folder_not_writable', `the data folder ${resolve(dataDir)} cannot be written by this user${userIdText()} (${codeOf(error)}), which a backup needs so that only one is made at a time; run it as the user of the server (sudo -u plantroom)`, { cause: error });
  }
  if (lock) return lock;
  throw new DomainError('conflict', 'backup_running', `a backup of ${resolve(dataDir)} is being made, or its key for secrets is being changed; wait for its end`);
}

function nothingToBackUp({ data, database }: Config): DomainError {
  const where = database.url === '' ? `in ${resolve(data.dir)}` : 'at the address of the configuration';
  return new DomainError('not_found', 'backup_nothing', `there is no database of Plantroom ${where}; name the data folder of the server with --data-dir, or its configuration with --config`);
}

import { existsSync, statSync } from 'node:fs';
import { basename, dirname, resolve } from 'node:path';
import { backUp, getBackupFolder, type BackUpOptions } from '../../server';
import type { Config } from '../../config';
import { systemClock } from '../../kernel/clock';
import { lowerPriority } from '../../kernel/lowerPriority';
import { type BackupResult, rotateBackups } from '../../backup';
import { AlreadyReportedError, UsageError } from '../exit';
import { createCommandLog } from '../log';
import { getConfig, type ConfigFlags } from '../options';
import { note, printJson, showRecord } from '../output';
import { abortOnStopSignal } from '../server/stopSignals';
import { getProgramVersion } from '../version';
import { readPassphrase } from './passphrase';
import { StepProgress } from './stepProgress';

/** Flags of `plantroom backup`. */
export interface BackupFlags extends ConfigFlags {
  readonly output?: string;
  readonly passphraseFile?: string;
  readonly rotate?: boolean;
}

/** Implements `plantroom backup`. The exit code is 1 if no backup was created. */
export async function runBackup(flags: BackupFlags): Promise<void> {
  const startedAt = performance.now();
  lowerPriority(); // before the compression and write threads start: threads inherit the priority
  const { config } = getConfig(flags);
  const { folder, name } = resolveTarget(config, flags);
  const passphrase = readPassphrase(flags.passphraseFile ?? config.backup.passphraseFile);
  const { version, commit } = getProgramVersion();
  const backup = await createBackup(
    config,
    { folder, name, passphrase, configFile: findConfigFile(flags), program: { version, commit } },
    flags,
  );
  const removed = flags.rotate === true ? rotateBackups(folder, backup.manifest.installationId, config.backup) : [];
  showBackup(backup, { passphrase, removed, durationMs: Math.round(performance.now() - startedAt) }, flags);
}

/** Creates the backup and shows its progress. A signal stops it without a backup. */
async function createBackup(config: Config, options: BackUpOptions, { json }: BackupFlags): Promise<BackupResult> {
  const progress = new StepProgress(json === true ? { write: () => {} } : process.stderr);
  const stop = abortOnStopSignal();
  try {
    return await backUp(
      config,
      { log: createCommandLog(config.log.level), clock: systemClock },
      { ...options, signal: stop.signal, onProgress: (...step) => progress.reached(...step) },
    );
  } catch (error) {
    if (!stop.signal.aborted) throw error;
    progress.clear();
    note('plantroom: stopped; no backup was created');
    throw new AlreadyReportedError(1);
  } finally {
    progress.clear();
    stop.remove();
  }
}

/** Returns the folder for the backup, and the file name if `--output` names a file. */
function resolveTarget(
  config: Config,
  { output, rotate }: BackupFlags,
): { readonly folder: string; readonly name: string | undefined } {
  if (output === undefined) return { folder: getBackupFolder(config), name: undefined };
  const path = resolve(output);
  if (/[/\\]$/.test(output) || (existsSync(path) && statSync(path).isDirectory()))
    return { folder: path, name: undefined };
  if (rotate === true)
    throw new UsageError(
      `--rotate deletes older backups from a folder, but --output ${output} is a file; name a folder (end it with / if it does not exist yet)`,
    );
  if (!existsSync(dirname(path)))
    throw new UsageError(
      `--output ${output} cannot be written: the folder ${dirname(path)} does not exist; create it, or name a file in another folder`,
    );
  return { folder: dirname(path), name: basename(path) };
}

/** Returns the configuration file in use: the one of `--config`, else plantroom.yaml in the working directory. */
function findConfigFile({ config }: ConfigFlags): string | undefined {
  const file = config ?? 'plantroom.yaml';
  return existsSync(file) ? resolve(file) : undefined;
}

interface BackupSummary {
  readonly passphrase: string | undefined;
  readonly removed: readonly string[];
  readonly durationMs: number;
}

/** Prints the facts of a created backup. Warnings are part of the JSON, but go to stderr otherwise. */
function showBackup(
  { file, bytes, manifest, warnings }: BackupResult,
  { passphrase, removed, durationMs }: BackupSummary,
  { json }: BackupFlags,
): void {
  const { createdAt, schema, engine, installationId, members } = manifest;
  const contentBytes = members.reduce((sum, member) => sum + member.bytes, 0);
  const record = {
    file,
    bytes,
    createdAt,
    encrypted: passphrase !== undefined,
    files: members.length,
    contentBytes,
    schema,
    engine,
    installationId,
    durationMs,
    removed,
    warnings,
  };
  if (json) return printJson(record);
  for (const warning of warnings) note(`plantroom: warning: ${warning}`);
  const { warnings: _printed, ...details } = record;
  showRecord({ ...details, verified: 'read back, all checksums match' }, {});
}

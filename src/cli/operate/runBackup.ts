import { existsSync, statSync } from 'node:fs';
import { basename, dirname, resolve } from 'node:path';
import { backUp, backupFolderOf, type BackUpOptions } from '../../app';
import type { Config } from '../../config';
import { systemClock } from '../../kernel/clock';
import { lowerPriority } from '../../kernel/lowerPriority';
import { type MadeBackup, rotateBackups } from '../../operations';
import { Reported, UsageError } from '../exit';
import { commandLog } from '../log';
import { configOf, type ConfigFlags } from '../options';
import { note, sayJson, showRecord } from '../output';
import { stoppable } from '../server/stopSignals';
import { programVersion } from '../version';
import { passphraseIn } from './passphrase';
import { StepProgress } from './stepProgress';

/** What `plantroom backup` is given. */
export interface BackupFlags extends ConfigFlags {
  readonly output?: string;
  readonly passphraseFile?: string;
  readonly rotate?: boolean;
}

/** `plantroom backup`. Exit code 1 if none was made. */
export async function runBackup(flags: BackupFlags): Promise<void> {
  const began = performance.now();
  lowerPriority(); // before the threads that compress and write: they have the same
  const { config } = configOf(flags);
  const { folder, name } = placeOf(config, flags);
  const passphrase = passphraseIn(flags.passphraseFile ?? config.backup.passphraseFile);
  const { version, commit } = programVersion();
  const made = await make(config, { folder, name, passphrase, configFile: configFileOf(flags), program: { version, commit } }, flags);
  const removed = flags.rotate === true ? rotateBackups(folder, made.manifest.installationId, config.backup) : [];
  show(made, { passphrase, removed, durationMs: Math.round(performance.now() - began) }, flags);
}

async function make(config: Config, options: BackUpOptions, { json }: BackupFlags): Promise<MadeBackup> {
  const progress = new StepProgress(json === true ? { write: () => {} } : process.stderr);
  const stop = stoppable();
  try {
    return await backUp(config, { log: commandLog(config.log.level), clock: systemClock }, { ...options, signal: stop.signal, onProgress: (...step) => progress.reached(...step) });
  } catch (error) {
    if (!stop.signal.aborted) throw error;
    progress.clear();
    note('plantroom: stopped; no backup was made');
    throw new Reported(1);
  } finally {
    progress.clear();
    stop.remove();
  }
}

/** The folder of the backup, and its name where one is given. */
function placeOf(config: Config, { output, rotate }: BackupFlags): { readonly folder: string; readonly name: string | undefined } {
  if (output === undefined) return { folder: backupFolderOf(config), name: undefined };
  const path = resolve(output);
  if (/[/\\]$/.test(output) || (existsSync(path) && statSync(path).isDirectory())) return { folder: path, name: undefined };
  if (rotate === true) throw new UsageError(`--rotate removes older backups from a folder, and --output ${output} is a file; give a folder, with / at its end if it is not there yet`);
  if (!existsSync(dirname(path))) throw new UsageError(`--output ${output} cannot be written: there is no folder ${dirname(path)}; make it first, or give a file in another one`);
  return { folder: dirname(path), name: basename(path) };
}

/** The plantroom.yaml that is read: the one that is named, else the one here. */
function configFileOf({ config }: ConfigFlags): string | undefined {
  const file = config ?? 'plantroom.yaml';
  return existsSync(file) ? resolve(file) : undefined;
}

interface Facts {
  readonly passphrase: string | undefined;
  readonly removed: readonly string[];
  readonly durationMs: number;
}

function show({ file, bytes, manifest, warnings }: MadeBackup, { passphrase, removed, durationMs }: Facts, { json }: BackupFlags): void {
  const { createdAt, schema, engine, installationId, members } = manifest;
  const contentBytes = members.reduce((sum, member) => sum + member.bytes, 0);
  const record = { file, bytes, createdAt, encrypted: passphrase !== undefined, files: members.length, contentBytes, schema, engine, installationId, durationMs, removed, warnings };
  if (json) return sayJson(record);
  for (const warning of warnings) note(`plantroom: warning: ${warning}`);
  const { warnings: _shown, ...shown } = record;
  showRecord({ ...shown, verified: 'read back, all checksums are right' }, {});
}

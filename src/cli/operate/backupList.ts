import { resolve } from 'node:path';
import { getBackupFolder } from '../../server';
import { DomainError } from '../../kernel/errors';
import { type BackupManifest, listBackups, unpackBackup } from '../../backup';
import { AlreadyReportedError } from '../exit';
import { getConfig, type ConfigFlags } from '../options';
import { note, printJson, showRecord, showTable } from '../output';
import { readPassphrase } from './passphrase';
import { StepProgress } from './stepProgress';

/** Flags of `plantroom backup list`. */
export interface ListFlags extends ConfigFlags {
  readonly dir?: string;
  readonly verify?: boolean;
  readonly passphraseFile?: string;
}

/** Flags of `plantroom backup verify`. */
export interface VerifyFlags extends ConfigFlags {
  readonly passphraseFile?: string;
}

const MIB = 1024 * 1024;

/** Implements `plantroom backup list`. The exit code is 1 if `--verify` finds that the newest backup is corrupt. */
export async function runList(flags: ListFlags): Promise<void> {
  const { config } = getConfig(flags);
  const newestFirst = listBackups(flags.dir === undefined ? getBackupFolder(config) : resolve(flags.dir));
  const corruption =
    flags.verify === true && newestFirst[0]
      ? await findCorruption(newestFirst[0].file, readPassphrase(flags.passphraseFile ?? config.backup.passphraseFile))
      : undefined;
  const getResult = (index: number): string | null =>
    flags.verify === true && index === 0 ? (corruption?.reason ?? 'checksums match') : null;
  const rows = newestFirst.map(({ file, createdAt, bytes, isEncrypted, installationId }, index) => ({
    file,
    time: new Date(createdAt).toISOString(),
    bytes,
    encrypted: isEncrypted,
    installationId,
    verified: getResult(index),
  }));
  if (flags.json) printJson(rows);
  else
    showTable(
      rows.map((row) => ({ ...row, size: formatSize(row.bytes) })),
      ['file', 'time', 'size', 'encrypted', 'verified'],
      {},
    );
  if (corruption) {
    note(`plantroom: ${corruption.message}`);
    throw new AlreadyReportedError(1);
  }
}

function formatSize(bytes: number): string {
  return bytes < MIB ? `${Math.ceil(bytes / 1024)} KiB` : `${(bytes / MIB).toFixed(1)} MiB`;
}

/**
 * Reads a backup completely. Returns the error if it is corrupt or the passphrase is wrong; undefined if it is valid.
 */
async function findCorruption(file: string, passphrase: string | undefined): Promise<DomainError | undefined> {
  try {
    await unpackBackup(file, undefined, { passphrase });
    return undefined;
  } catch (error) {
    if (error instanceof DomainError) return error;
    throw error;
  }
}

/** Implements `plantroom backup verify`. The exit code is 1 if the backup is corrupt. */
export async function runVerify(file: string, flags: VerifyFlags): Promise<void> {
  const { config } = getConfig(flags);
  const progress = new StepProgress(flags.json ? { write: () => {} } : process.stderr);
  try {
    const manifest = await unpackBackup(resolve(file), undefined, {
      passphrase: readPassphrase(flags.passphraseFile ?? config.backup.passphraseFile),
      onProgress: (bytes, totalBytes) => progress.reached('verify', bytes, totalBytes),
    });
    progress.clear();
    showRecord(toRecord(file, manifest), flags);
  } finally {
    progress.clear();
  }
}

/** Returns the facts about a verified backup. Its checksums match, because it could be unpacked. */
function toRecord(file: string, { members, program, ...manifest }: BackupManifest): Record<string, unknown> {
  return {
    file: resolve(file),
    checksumsRight: true,
    database: 'not checked; run "plantroom restore --dry-run" to check it',
    ...manifest,
    program: `${program.version} (${program.commit})`,
    files: members.length,
    contentBytes: members.reduce((sum, { bytes }) => sum + bytes, 0),
  };
}

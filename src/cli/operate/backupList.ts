import { resolve } from 'node:path';
import { backupFolderOf } from '../../app';
import { DomainError } from '../../kernel/errors';
import { type BackupManifest, listBackups, unpackBackup } from '../../operations';
import { Reported } from '../exit';
import { configOf, type ConfigFlags } from '../options';
import { note, sayJson, showRecord, showTable } from '../output';
import { Progress } from '../progress';
import { passphraseIn } from './passphrase';

/** What `plantroom backup list` is given. */
export interface ListFlags extends ConfigFlags {
  readonly dir?: string;
  readonly verify?: boolean;
  readonly passphraseFile?: string;
}

/** What `plantroom backup verify` is given. */
export interface VerifyFlags extends ConfigFlags {
  readonly passphraseFile?: string;
}

const MIB = 1024 * 1024;

/** `plantroom backup list`. Exit code 1 if the newest one is to be verified and a checksum in it is wrong. */
export async function runList(flags: ListFlags): Promise<void> {
  const { config } = configOf(flags);
  const backups = listBackups(flags.dir === undefined ? backupFolderOf(config) : resolve(flags.dir));
  const fault = flags.verify === true && backups[0] ? await faultOf(backups[0].file, passphraseIn(flags.passphraseFile ?? config.backup.passphraseFile)) : undefined;
  const stateOf = (at: number): string | undefined => (flags.verify === true && at === 0 ? (fault?.reason ?? 'checksums are right') : undefined);
  const rows = backups.map(({ file, createdAt, bytes, isEncrypted, installationId }, at) => ({ file, time: new Date(createdAt).toISOString(), bytes, encrypted: isEncrypted, installationId, verified: stateOf(at) ?? null }));
  if (flags.json) sayJson(rows);
  else showTable(rows.map((row) => ({ ...row, size: sizeText(row.bytes) })), ['file', 'time', 'size', 'encrypted', 'verified'], {});
  if (fault) {
    note(`plantroom: ${fault.message}`);
    throw new Reported(1);
  }
}

function sizeText(bytes: number): string {
  return bytes < MIB ? `${Math.ceil(bytes / 1024)} KiB` : `${(bytes / MIB).toFixed(1)} MiB`;
}

async function faultOf(file: string, passphrase: string | undefined): Promise<DomainError | undefined> {
  try {
    await unpackBackup(file, undefined, { passphrase });
    return undefined;
  } catch (error) {
    if (error instanceof DomainError) return error;
    throw error;
  }
}

/** `plantroom backup verify`. Exit code 1 if a checksum in it is wrong. */
export async function runVerify(file: string, flags: VerifyFlags): Promise<void> {
  const { config } = configOf(flags);
  const progress = new Progress(0, flags.json ? { write: () => {} } : process.stderr);
  try {
    const manifest = await unpackBackup(resolve(file), undefined, { passphrase: passphraseIn(flags.passphraseFile ?? config.backup.passphraseFile), onProgress: (bytes) => progress.show(`${Math.floor(bytes / MIB)} MiB`) });
    progress.clear();
    showRecord(recordOf(file, manifest), flags);
  } finally {
    progress.clear();
  }
}

function recordOf(file: string, { members, program, ...facts }: BackupManifest): Record<string, unknown> {
  return { file: resolve(file), checksumsRight: true, database: 'not opened; "plantroom restore --dry-run" does', ...facts, program: `${program.version} (${program.commit})`, files: members.length, contentBytes: members.reduce((sum, { bytes }) => sum + bytes, 0) };
}

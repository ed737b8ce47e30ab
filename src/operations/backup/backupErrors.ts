import { DomainError } from '../../kernel/errors';
import { codeOf } from '../../kernel/thrown';

/** The file is no backup, or there is none. `why`: what it is instead. */
export function notBackup(file: string, why: string, cause?: unknown): DomainError {
  return new DomainError('invalid_argument', 'backup_not_one', `${file} is no backup of Plantroom: ${why}; give a file that "plantroom backup" made (plantroom-*.tar.zst or plantroom-*.tar.zst.age)`, { cause });
}

/** The file was a backup once. `member`: where that shows. */
export function damagedBackup(file: string, member: string, why: string, cause?: unknown): DomainError {
  return new DomainError('conflict', 'backup_damaged', `the backup ${file} is damaged: ${member} ${why}; nothing of it can be relied on, so take another one`, { cause, metadata: { member } });
}

/** It is encrypted, and no passphrase was given. */
export function passphraseNeeded(file: string): DomainError {
  return new DomainError('invalid_argument', 'backup_passphrase_needed', `the backup ${file} is encrypted; name the file that holds its passphrase with --passphrase-file`);
}

/** The passphrase does not open it. */
export function passphraseWrong(file: string, cause?: unknown): DomainError {
  return new DomainError('invalid_argument', 'backup_passphrase_wrong', `the passphrase does not open the backup ${file}; give the one that it was made with (the first line of --passphrase-file)`, { cause });
}

/** A newer program made it. */
export function backupTooNew(file: string, format: number, known: number): DomainError {
  return new DomainError('conflict', 'backup_too_new', `the backup ${file} has format ${format}, and this program reads up to ${known}; use the version of Plantroom that made it, or a newer one`);
}

const FULL: Readonly<Record<string, string>> = {
  ENOSPC: 'its disk is full; make room there',
  EDQUOT: 'the quota of its disk is used up; make room there',
  EFBIG: 'it would be larger than a file may be there; raise that limit',
};

/** What went wrong in the folder of backups, in words; any other error as it is. */
export function told(error: unknown, folder: string): unknown {
  const code = codeOf(error);
  if (FULL[code] !== undefined) return new DomainError('unavailable', 'backup_no_room', `the backup could not be written in ${folder}: ${FULL[code]}, or give a folder on another disk`, { cause: error });
  if (!['EACCES', 'EPERM', 'EROFS', 'EIO'].includes(code)) return error;
  return new DomainError('conflict', 'backup_folder_unusable', `the backup could not be written in ${folder} (${code}): let this user write it, and read the files of the data folder, or give another folder`, { cause: error });
}

/** Files of pictures went away during both tries. */
export function sourceChanged(): never {
  throw new DomainError('unavailable', 'backup_source_changed', 'files of the data folder were removed while they were copied, twice; try again when fewer pictures are deleted');
}

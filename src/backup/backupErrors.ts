import { DomainError } from '../kernel/errors';
import { getCode } from '../kernel/errorUtils';

/** Creates the error for a file that is not a backup or does not exist. `reason`: a clause that says why. */
export function backupInvalid(file: string, reason: string, cause?: unknown): DomainError {
  return new DomainError(
    'invalid_argument',
    'backup_invalid',
    `${file} is not a backup of Plantroom: ${reason}. Use a file that "plantroom backup" made (plantroom-*.tar.zst or plantroom-*.tar.zst.age)`,
    { cause },
  );
}

/** Creates the error for a corrupt backup. `member`: where it is corrupt; `finding`: what is wrong there. */
export function backupCorrupt(file: string, member: string, finding: string, cause?: unknown): DomainError {
  return new DomainError(
    'conflict',
    'backup_corrupt',
    `the backup ${file} is corrupt: ${member} ${finding}. It is not usable, so use another one`,
    { cause, metadata: { member } },
  );
}

/** Creates the error for an encrypted backup without a passphrase. */
export function passphraseRequired(file: string): DomainError {
  return new DomainError(
    'invalid_argument',
    'backup_passphrase_required',
    `the backup ${file} is encrypted: name the file with its passphrase with --passphrase-file`,
  );
}

/** Creates the error for a wrong passphrase. */
export function passphraseWrong(file: string, cause?: unknown): DomainError {
  return new DomainError(
    'invalid_argument',
    'backup_passphrase_wrong',
    `wrong passphrase for the backup ${file}: use the one that it was made with (the first line of --passphrase-file)`,
    { cause },
  );
}

/** Creates the error for a backup of a newer program. `format`: its format; `supported`: the newest known format. */
export function backupVersionUnsupported(file: string, format: number, supported: number): DomainError {
  return new DomainError(
    'conflict',
    'backup_version_unsupported',
    `the backup ${file} has format ${format}, and this program reads formats up to ${supported}: use the version of Plantroom that made it, or a newer one`,
  );
}

const DISK_FULL_MESSAGES: Readonly<Record<string, string>> = {
  ENOSPC: 'its disk is full. Free some space there',
  EDQUOT: 'the quota of its disk is used up. Free some space there',
  EFBIG: 'the backup would exceed the maximum file size there. Raise that limit',
};

/**
 * Converts a file system error to the error for the backup folder, which says what to do; any other error is returned
 * unchanged.
 */
export function toBackupError(error: unknown, folder: string): unknown {
  const code = getCode(error);
  if (DISK_FULL_MESSAGES[code] !== undefined) {
    return new DomainError(
      'unavailable',
      'insufficient_space',
      `the backup could not be written to ${folder}: ${DISK_FULL_MESSAGES[code]}, or choose a folder on another disk`,
      { cause: error },
    );
  }
  if (!['EACCES', 'EPERM', 'EROFS', 'EIO'].includes(code)) return error;
  return new DomainError(
    'conflict',
    'backup_folder_unusable',
    `the backup could not be written to ${folder} (${code}): let this user write it and read the files of the data folder, or choose another folder`,
    { cause: error },
  );
}

/** Throws the error for image files that were deleted during both attempts. */
export function throwSourceChanged(): never {
  throw new DomainError(
    'unavailable',
    'backup_source_changed',
    'files of the data folder were deleted while they were copied, twice: try again when fewer images are being deleted',
  );
}

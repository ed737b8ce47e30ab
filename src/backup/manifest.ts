/** The format version of backup files that this program writes. It reads this version and all earlier ones. */
export const BACKUP_FORMAT = 1;

/** The first entry, which lists the content of the backup. */
export const MANIFEST = 'manifest.json';

/** A file in a backup. */
export interface BackupMember {
  /** Relative to the data folder, separated by `/`, for example `media/<organization>/ab/abcd...`. */
  readonly path: string;
  readonly bytes: number;
  /** Lower-case hexadecimal. */
  readonly sha256: string;
}

/** The metadata of a backup. */
export interface BackupManifest {
  readonly format: number;
  /** When the database was copied; ISO 8601, UTC. */
  readonly createdAt: string;
  /** Version and commit of the program that created it. */
  readonly program: { readonly version: string; readonly commit: string };
  /** The newest applied migration of the database. */
  readonly schema: string;
  readonly engine: 'SQLite' | 'PostgreSQL';
  /** A unique id of the database. */
  readonly installationId: string;
  /** All other entries of the file, in order. */
  readonly members: readonly BackupMember[];
}

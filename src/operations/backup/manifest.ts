/** The version of the format of backup files that this program writes; it reads this and all before. */
export const BACKUP_FORMAT = 1;

/** The member that says what is in a backup; it is the first. */
export const MANIFEST = 'manifest.json';

/** One file in a backup. */
export interface BackupMember {
  /** Below the data folder, with `/` between, for example `media/<organization>/ab/abcd...`. */
  readonly path: string;
  readonly bytes: number;
  /** Lower-case hexadecimal. */
  readonly sha256: string;
}

/** What a backup says of itself. */
export interface BackupManifest {
  readonly format: number;
  /** When the database was copied; ISO 8601, UTC. */
  readonly createdAt: string;
  /** Version and commit of the program that made it. */
  readonly program: { readonly version: string; readonly commit: string };
  /** The last migration of the database. */
  readonly schema: string;
  readonly engine: 'SQLite' | 'PostgreSQL';
  /** Names the database among all others. */
  readonly installationId: string;
  /** Everything else that is in the file, in its order. */
  readonly members: readonly BackupMember[];
}

import type { Db, OpenDatabaseOptions } from '../../database';
import type { Clock } from '../../kernel/clock';
import type { SourcePlaces } from './backupSource';
import type { BackupManifest } from './manifest';

/** What a backup is made of. */
export interface BackupSource extends SourcePlaces {
  /** How the database is opened once more. */
  readonly open: OpenDatabaseOptions;
  /** The database as it is now. */
  readonly db: Db;
  readonly engine: BackupManifest['engine'];
  readonly installationId: string;
  /** The key that secrets are sealed with where the configuration gives it; undefined: it is in its file. */
  readonly givenKey: Buffer | undefined;
  /** The schema is older than the program's, so only what has to be is looked at. */
  readonly isOlder: boolean;
  readonly program: BackupManifest['program'];
  readonly clock: Clock;
}

/** What is being done: the database is copied, checksums are computed, the file is written, and read back. */
export type BackupStep = 'copy' | 'checksums' | 'write' | 'verify';

/** What backup is wanted. */
export interface BackupOrder {
  /** The folder it comes to; it is made where only the folder itself is missing. */
  readonly folder: string;
  /** Its name there; undefined: one that says time and installation. */
  readonly name?: string | undefined;
  readonly passphrase?: string | undefined;
  readonly signal?: AbortSignal | undefined;
  /** So many of so many bytes of a step are done. */
  readonly onProgress?: (step: BackupStep, done: number, total: number) => void;
}

/** A backup that was made, and read back. */
export interface MadeBackup {
  readonly file: string;
  readonly bytes: number;
  readonly manifest: BackupManifest;
  /** What a person should know of it: whole sentences. */
  readonly warnings: readonly string[];
}

import type { Db, OpenDatabaseOptions } from '../database';
import type { Clock } from '../kernel/clock';
import type { SourceLocations } from './backupSource';
import type { BackupManifest } from './manifest';

/** The sources of a backup. */
export interface BackupSource extends SourceLocations {
  /** How to open another connection to the database. */
  readonly open: OpenDatabaseOptions;
  /** The open database. */
  readonly db: Db;
  readonly engine: BackupManifest['engine'];
  readonly installationId: string;
  /** The key that seals the secrets, if the configuration contains it; undefined: it is in its file. */
  readonly configuredKey: Buffer | undefined;
  /** The schema is older than the program's, so only the necessary tables are checked. */
  readonly hasOlderSchema: boolean;
  readonly program: BackupManifest['program'];
  readonly clock: Clock;
}

/** The current step: the database is copied, checksums are computed, the file is written, and verified. */
export type BackupStep = 'copy' | 'checksums' | 'write' | 'verify';

/** The requested backup. */
export interface BackupRequest {
  /** Its folder, which is created if only the folder itself is missing. */
  readonly folder: string;
  /** Its file name; undefined: one with the time and the installation. */
  readonly name?: string | undefined;
  readonly passphrase?: string | undefined;
  readonly signal?: AbortSignal | undefined;
  /** Called with the number of processed and total bytes of a step. */
  readonly onProgress?: (step: BackupStep, done: number, total: number) => void;
}

/** A finished and verified backup. */
export interface BackupResult {
  readonly file: string;
  readonly bytes: number;
  readonly manifest: BackupManifest;
  /** Warnings for the administrator, in complete sentences. */
  readonly warnings: readonly string[];
}

import { version } from '../../package.json';

// Set by the build; tests run without it.
declare const PLANTROOM_COMMIT: string | undefined;
declare const PLANTROOM_SQLITE: string | undefined;

/** What this program is. */
export function programVersion(): { version: string; commit: string; node: string; platform: string } {
  return { version, commit: typeof PLANTROOM_COMMIT === 'string' ? PLANTROOM_COMMIT : 'unknown', node: process.versions.node, platform: `${process.platform}-${process.arch}` };
}

/** The version of SQLite that the build took in. */
export const sqliteVersion: string = typeof PLANTROOM_SQLITE === 'string' ? PLANTROOM_SQLITE : 'unknown';

import { version } from '../../package.json';

// Defined by the build; missing in tests.
declare const PLANTROOM_COMMIT: string | undefined;
declare const PLANTROOM_SQLITE: string | undefined;

/** Returns the version of this program, its commit, and the Node version and platform that it runs on. */
export function getProgramVersion(): { version: string; commit: string; node: string; platform: string } {
  return {
    version,
    commit: typeof PLANTROOM_COMMIT === 'string' ? PLANTROOM_COMMIT : 'unknown',
    node: process.versions.node,
    platform: `${process.platform}-${process.arch}`,
  };
}

/** The SQLite version that the build includes. */
export const sqliteVersion: string = typeof PLANTROOM_SQLITE === 'string' ? PLANTROOM_SQLITE : 'unknown';

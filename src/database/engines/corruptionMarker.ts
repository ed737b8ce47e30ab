import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { syncFolder } from '../../kernel/syncFolder';
import { getCode } from '../translate';

/**
 * Records corruption that was noticed in a database file, and when, in a file next to it, until a complete check finds
 * none. A supervisor restarts the server that stopped because of it.
 */
export interface CorruptionMarker {
  readonly found: string;
  /** RFC 3339 format. */
  readonly at: string;
}

/**
 * Writes the marker next to the database file. An existing marker is not replaced: it has the time of the first error.
 * Throws the errors of the file system.
 */
export function writeMarker(file: string, marker: CorruptionMarker): void {
  try {
    writeFileSync(getMarkerFile(file), `${JSON.stringify(marker)}\n`, { flag: 'wx', mode: 0o600, flush: true });
    syncFolder(dirname(file));
  } catch (error) {
    if (getCode(error) !== 'EEXIST') throw error;
  }
}

/** Reads the marker; undefined: no corruption was noticed since the last complete check. */
export function readMarker(file: string): CorruptionMarker | undefined {
  let text: string;
  try {
    text = readFileSync(getMarkerFile(file), 'utf8');
  } catch (error) {
    if (getCode(error) === 'ENOENT') return undefined;
    throw error;
  }
  try {
    const { found, at } = JSON.parse(text) as Partial<CorruptionMarker>;
    return { found: String(found), at: String(at) };
  } catch {
    return { found: 'the marker is empty', at: 'unknown' }; // the disk was full when it was written
  }
}

/** Removes the marker after a complete check found no corruption. */
export function removeMarker(file: string): void {
  rmSync(getMarkerFile(file), { force: true });
}

function getMarkerFile(file: string): string {
  return `${file}.damaged`;
}

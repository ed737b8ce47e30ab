import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { syncFolder } from '../../kernel/syncFolder';
import { codeOf } from '../translate';

/** What was noticed in a database file, and when: beside the file until a look through all of it finds nothing. A supervisor starts a server anew that ended for it. */
export interface DamageMark {
  readonly found: string;
  /** As RFC 3339 writes a time. */
  readonly at: string;
}

/** Lays the mark; the first one stays. Throws what the file system throws. */
export function layMark(file: string, mark: DamageMark): void {
  try {
    writeFileSync(markOf(file), `${JSON.stringify(mark)}\n`, { flag: 'wx', mode: 0o600, flush: true });
    syncFolder(dirname(file));
  } catch (error) {
    if (codeOf(error) !== 'EEXIST') throw error;
  }
}

/** Undefined: no damage was noticed. */
export function readMark(file: string): DamageMark | undefined {
  let text: string;
  try {
    text = readFileSync(markOf(file), 'utf8');
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return undefined;
    throw error;
  }
  try {
    const { found, at } = JSON.parse(text) as Partial<DamageMark>;
    return { found: String(found), at: String(at) };
  } catch {
    return { found: 'the mark says nothing', at: 'unknown' }; // the disk was full when it was laid
  }
}

/** All of the file was looked through, and nothing was found. */
export function removeMark(file: string): void {
  rmSync(markOf(file), { force: true });
}

function markOf(file: string): string {
  return `${file}.damaged`;
}

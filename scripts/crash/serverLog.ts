import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

/** Returns the file for warnings and errors in a server's folder. */
export function getLogFile(folder: string): string {
  return join(folder, 'server.log');
}

/**
 * Reads the error lines of all servers of a folder. There should be none, except for `clock.ahead`: this program moves the
 * clock by days.
 */
export function readErrorLines(folder: string): string[] {
  const file = getLogFile(folder);
  return existsSync(file)
    ? readFileSync(file, 'utf8')
        .split('\n')
        .filter(
          (text) => text.startsWith('{"level":"error"') && !text.startsWith('{"level":"error","event":"clock.ahead"'),
        )
    : [];
}

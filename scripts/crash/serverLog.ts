import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

/** Returns the file for warnings and errors in a server's folder. */
export function getLogFile(folder: string): string {
  return join(folder, 'server.log');
}

/**
 * Reads the error lines of all servers of a folder. There should be none, except for `clock.ahead`: this program moves the
 * clock by days. `expected`: further events that the proof causes itself.
 */
export function readErrorLines(folder: string, expected: readonly string[] = []): string[] {
  const file = getLogFile(folder);
  if (!existsSync(file)) return [];
  const isExpected = (line: string): boolean =>
    ['clock.ahead', ...expected].some((event) => line.startsWith(`{"level":"error","event":"${event}"`));
  return readFileSync(file, 'utf8')
    .split('\n')
    .filter((line) => line.startsWith('{"level":"error"') && !isExpected(line));
}

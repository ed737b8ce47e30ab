import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

/** The file of warnings and errors in a server's folder. */
export function logFile(folder: string): string {
  return join(folder, 'server.log');
}

/** The error lines of all servers that ran on a folder: each says that a person must act, so none belongs here; but this program puts their clock days forward itself. */
export function errorLines(folder: string): string[] {
  const file = logFile(folder);
  return existsSync(file) ? readFileSync(file, 'utf8').split('\n').filter((text) => text.startsWith('{"level":"error"') && !text.startsWith('{"level":"error","event":"clock.ahead"')) : [];
}

import { existsSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { databaseDamaged } from './engines/databaseDamaged';

/** What a server lays beside its database only once that has its tables. */
const TRACES = ['tls', 'media', 'secrets.key', 'run.json'];

/** Throws `database_damaged` if the database file is empty although the folder was used: SQLite would take it for a new one, and the site for lost. */
export function refuseEmptied(dataDir: string, file: string): void {
  const isEmpty = statSync(file, { throwIfNoEntry: false })?.size === 0 && !existsSync(`${file}-wal`);
  const trace = isEmpty ? TRACES.find((name) => existsSync(join(dataDir, name))) : undefined;
  if (trace !== undefined) throw databaseDamaged(file, `it is empty, while ${trace} shows that the folder was used; to begin anew on purpose, give an empty folder`);
}

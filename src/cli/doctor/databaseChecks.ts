import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { redactPassword, type Config } from '../../config';
import { openDatabase, SQLITE_FILE, type Database } from '../../database';
import { DomainError } from '../../kernel/errors';
import { silentLogger } from '../../kernel/logger';
import { formatMessage } from '../../kernel/errorUtils';
import { fail, ok, warn, type Finding } from './check';

/** Checks that the database can be opened, has the schema of this version and is not corrupt. Only reads. */
export async function checkDatabase({ database: { url }, data }: Config): Promise<Finding[]> {
  if (url === '' && !existsSync(join(data.dir, SQLITE_FILE)))
    return [ok('database', 'no database yet; the first start creates a SQLite file in the data folder')];
  let opened: Database | undefined;
  try {
    opened = await openDatabase({ url, dataDir: data.dir, log: silentLogger, readOnly: true, poolSize: 2 });
    return await inspectDatabase(opened);
  } catch (error) {
    return [fail('database', formatMessage(error), getAdvice(error, url))];
  } finally {
    await opened?.close();
  }
}

/** Returns how to fix a database that cannot be opened. */
function getAdvice(error: unknown, url: string): string {
  const reason = error instanceof DomainError ? error.reason : '';
  if (reason === 'restore_unfinished') return 'run "plantroom restore FILE" again; it starts from the beginning';
  if (reason === 'schema_version_unsupported')
    return 'run the version that created the database or a newer one, or roll back as described in docs/upgrade.md';
  return url === ''
    ? 'stop the server, move the data folder elsewhere, and restore the newest backup: "plantroom backup list", then "plantroom restore FILE"'
    : `check PLANTROOM_DATABASE_URL (${redactPassword(url)}) and the PostgreSQL server`;
}

/** Reports the engine and the schema of an open database, and the results of its own checks. */
async function inspectDatabase(opened: Database): Promise<Finding[]> {
  const { engine, version, location, schema, pending } = await opened.describe();
  const found = ok('database', `${engine} ${version}, ${location}`);
  const migrated =
    pending.length === 0
      ? ok('schema', schema)
      : warn(
          'schema',
          `${schema || 'none yet'}; pending migrations: ${pending.join(', ')}`,
          'start the server, or run "plantroom migrate"',
        );
  return [found, migrated, ...(await opened.checks(Date.now()))];
}

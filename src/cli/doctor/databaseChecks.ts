import { redactPassword, type Config } from '../../config';
import type { Database } from '../../database';
import { DomainError } from '../../kernel/errors';
import { formatMessage } from '../../kernel/errorUtils';
import { fail, ok, warn, type Finding } from './check';
import { hasDatabase, readDatabase } from './readDatabase';

/** Checks that the database can be opened, has the schema of this version and is not corrupt. Only reads. */
export async function checkDatabase(config: Config): Promise<Finding[]> {
  if (!hasDatabase(config))
    return [ok('database', 'no database yet; the first start creates a SQLite file in the data folder')];
  try {
    return await readDatabase(config, inspectDatabase);
  } catch (error) {
    return [fail('database', formatMessage(error), getAdvice(error, config.database.url))];
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

import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { withoutPassword, type Config } from '../../config';
import { openDatabase, type Database } from '../../database';
import { DomainError } from '../../kernel/errors';
import { silentLogger } from '../../kernel/logger';
import { messageOf } from '../../kernel/thrown';
import { fail, ok, warn, type Finding } from './check';

/** Whether the database can be opened, is on this program's schema and is sound. Only reads. */
export async function database({ database: { url }, data }: Config): Promise<Finding[]> {
  if (url === '' && !existsSync(join(data.dir, 'plantroom.db'))) return [ok('database', 'there is none yet; the first start makes a SQLite file in the data folder')];
  let opened: Database | undefined;
  try {
    opened = await openDatabase({ url, dataDir: data.dir, log: silentLogger, readOnly: true, poolSize: 2 });
    return await look(opened);
  } catch (error) {
    return [fail('database', messageOf(error), mendOf(error, url))];
  } finally {
    await opened?.close();
  }
}

function mendOf(error: unknown, url: string): string {
  const reason = error instanceof DomainError ? error.reason : '';
  if (reason === 'restore_unfinished') return 'run "plantroom restore FILE" again, which begins anew';
  if (reason === 'schema_too_new') return 'run the version that made it or a newer one, or go back as docs/upgrade.md says';
  return url === '' ? 'stop the server, move the data folder away, and restore the newest backup: "plantroom backup list", then "plantroom restore FILE"' : `check PLANTROOM_DATABASE_URL (${withoutPassword(url)}) and the PostgreSQL server`;
}

async function look(opened: Database): Promise<Finding[]> {
  const { engine, version, location, schema, pending } = await opened.describe();
  const found = ok('database', `${engine} ${version}, ${location}`);
  const isOn = pending.length === 0 ? ok('schema', schema) : warn('schema', `${schema || 'none yet'}; not yet applied: ${pending.join(', ')}`, 'start the server, or run "plantroom migrate"');
  return [found, isOn, ...(await opened.checks(Date.now()))];
}

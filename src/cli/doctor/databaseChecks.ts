import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { withoutPassword, type Config } from '../../config';
import { openDatabase, type Database } from '../../database';
import { silentLogger } from '../../kernel/logger';
import { fail, ok, warn, type Finding } from './check';

const MOST_SKEW_MS = 5000;

/** Whether the database can be opened, is on this program's schema and is sound. Only reads. */
export async function database({ database: { url }, data }: Config): Promise<Finding[]> {
  if (url === '' && !existsSync(join(data.dir, 'plantroom.db'))) return [ok('database', 'there is none yet; the first start makes a SQLite file in the data folder')];
  let opened: Database | undefined;
  try {
    opened = await openDatabase({ url, dataDir: data.dir, log: silentLogger, readOnly: true, poolSize: 2 });
    return await look(opened);
  } catch (error) {
    return [fail('database', (error as Error).message, url === '' ? 'mend the file, or restore a copy of it' : `check PLANTROOM_DATABASE_URL (${withoutPassword(url)}) and the PostgreSQL server`)];
  } finally {
    await opened?.close();
  }
}

async function look(opened: Database): Promise<Finding[]> {
  const { engine, version, location, schema, pending } = await opened.describe();
  const found = ok('database', `${engine} ${version}, ${location}`);
  const isOn = pending.length === 0 ? ok('schema', schema) : warn('schema', `${schema || 'none yet'}; not yet applied: ${pending.join(', ')}`, 'start the server, or run "plantroom migrate"');
  return [found, isOn, ...(engine === 'SQLite' ? await sqlite(opened) : await postgres(opened))];
}

async function sqlite({ db }: Database): Promise<Finding[]> {
  const rows = await db.all<{ quick_check: string }>({ name: 'doctor.quickCheck', sql: () => 'pragma quick_check' }, []);
  const damage = rows.map((row) => row.quick_check).filter((line) => line !== 'ok');
  return [damage.length === 0 ? ok('integrity', 'quick_check found nothing') : fail('integrity', damage.slice(0, 3).join('; '), 'stop the server and restore a copy from before the damage')];
}

async function postgres({ db }: Database): Promise<Finding[]> {
  const extensions = await db.all({ name: 'doctor.trigram', sql: () => "select extname from pg_extension where extname = 'pg_trgm'" }, []);
  const [clock] = await db.all<{ now: number }>({ name: 'doctor.clock', sql: () => 'select (extract(epoch from clock_timestamp()) * 1000)::bigint as now' }, []);
  const skew = Math.round(Math.abs(Date.now() - Number(clock?.now)));
  const trigram = extensions.length > 0 ? ok('pg_trgm', 'present') : warn('pg_trgm', 'missing: searching devices by name reads all of them', 'as a superuser: create extension pg_trgm; in this database');
  const clocks = skew < MOST_SKEW_MS ? ok('database clock', `${skew} ms from this machine`) : warn('database clock', `${skew} ms from this machine`, 'set both clocks by NTP');
  return [trigram, clocks];
}

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { backUp } from '../../src/server';
import { loadConfig } from '../../src/config';
import { DUMP_FILE, restoreDump, countRows, type Database } from '../../src/database';
import { MIGRATIONS } from '../../src/database/migrations';
import { systemClock } from '../../src/kernel/clock';
import { silentLogger } from '../../src/kernel/logger';
import { restoreBackup, unpackBackup } from '../../src/backup';
import { engines, type TestDatabase } from '../support/engines';
import { insertRelease, releases, type Release } from '../support/releasedSchemas';

const [, postgres] = engines() as [unknown, ReturnType<typeof engines>[0]];
const FILLED = releases().at(-1) as Release;
const KNOWN = MIGRATIONS.slice(0, MIGRATIONS.findIndex(({ name }) => name === FILLED.schema) + 1);
/** Tables that a restore writes itself. */
const WRITTEN = /^(executions|execution_events|audit_.*|organization_counters|schema_migrations|settings)$/;

/** Returns every row of every table as texts. */
async function listRows({ db }: Database): Promise<Record<string, string[]>> {
  const rows: Record<string, string[]> = {};
  for (const table of (await countRows(db)).keys())
    rows[table] = ((await db.knex(table).select('*')) as object[]).map((row) => JSON.stringify(row)).toSorted();
  return rows;
}

describe('a backup of PostgreSQL by its own pg_dump and pg_restore', () => {
  const folder = mkdtempSync(join(tmpdir(), 'plantroom-pg-tools-'));
  let [from, unrestored, to]: TestDatabase[] = [];
  let file: string;
  let before: Record<string, string[]>;

  beforeAll(async () => {
    [from, unrestored, to] = [
      await postgres.createEmpty(KNOWN),
      await postgres.createEmpty(KNOWN),
      await postgres.createEmpty(KNOWN),
    ];
    await from.database.migrate();
    await insertRelease(from.database, from.dataDir, FILLED);
    const current = await from.open({ migrations: MIGRATIONS });
    await current.migrate();
    await current.close();
    before = await listRows(from.database);
    const { config } = loadConfig({
      file: false,
      env: {},
      flags: { 'data.dir': from.dataDir, 'database.url': from.url },
    });
    ({ file } = await backUp(
      config,
      { log: silentLogger, clock: systemClock },
      { folder, configFile: undefined, program: { version: '0.0.0', commit: 'test' } },
    ));
  });

  afterAll(async () => {
    for (const db of [from, unrestored, to]) await db?.drop();
    rmSync(folder, { recursive: true, force: true });
  });

  it('restores every row of every table', async () => {
    const unpacked = mkdtempSync(join(folder, 'unpacked-'));
    await unpackBackup(file, unpacked);
    await restoreDump(join(unpacked, DUMP_FILE), unrestored?.url ?? '');
    expect(Object.values(before).filter(({ length }) => length > 0).length).toBeGreaterThan(20);
    const { audit_pending: pending, ...restored } = await listRows((unrestored as TestDatabase).database);
    expect(pending).toEqual([expect.stringContaining('backups')]); // the backup itself has begun
    expect({ ...restored, audit_pending: [] }).toEqual(before);
  });

  it('is restored completely, then no longer marked, and open work is ended', async () => {
    const target = to as TestDatabase;
    const options = {
      file,
      databaseUrl: target.url,
      passphrase: undefined,
      revokesKeys: false,
      clock: systemClock,
      log: silentLogger,
      onProgress: () => {},
      signal: new AbortController().signal,
    };
    const restored = await restoreBackup({ ...options, dataDir: join(folder, 'data') });
    const database = await target.open({ migrations: MIGRATIONS });
    const after = await listRows(database);
    expect(restored.rows).toEqual(await countRows(database.db));
    expect(await database.db.knex('executions').where('final', 0)).toEqual([]);
    for (const [table, rows] of Object.entries(before))
      if (!WRITTEN.test(table)) expect({ table, rows: after[table] }).toEqual({ table, rows });
    expect(after['executions']).toHaveLength(before['executions']?.length ?? 0);
    await database.close();
    await expect(restoreBackup({ ...options, dataDir: join(folder, 'again') })).rejects.toMatchObject({
      reason: 'database_not_empty',
    });
  });
});

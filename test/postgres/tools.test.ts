import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { backUp } from '../../src/app';
import { loadConfig } from '../../src/config';
import { DUMP_FILE, restoreDump, rowCounts, type Database } from '../../src/database';
import { MIGRATIONS } from '../../src/database/migrations';
import { systemClock } from '../../src/kernel/clock';
import { silentLogger } from '../../src/kernel/logger';
import { restoreBackup, unpackBackup } from '../../src/operations';
import { engines, type TestDatabase } from '../support/engines';
import { layRelease, releases, type Release } from '../support/releasedSchemas';

const [, postgres] = engines() as [unknown, ReturnType<typeof engines>[0]];
const FILLED = releases().at(-1) as Release;
const KNOWN = MIGRATIONS.slice(0, MIGRATIONS.findIndex(({ name }) => name === FILLED.schema) + 1);
/** What a restore writes itself. */
const WRITTEN = /^(executions|execution_events|audit_.*|organization_counters|schema_migrations|settings)$/;

/** Every row of every table, as texts. */
async function rowsOf({ db }: Database): Promise<Record<string, string[]>> {
  const rows: Record<string, string[]> = {};
  for (const table of (await rowCounts(db)).keys()) rows[table] = ((await db.knex(table).select('*')) as object[]).map((row) => JSON.stringify(row)).toSorted();
  return rows;
}

describe('a backup of PostgreSQL by its own pg_dump, and pg_restore', () => {
  const folder = mkdtempSync(join(tmpdir(), 'plantroom-pg-tools-'));
  let [from, plain, to]: TestDatabase[] = [];
  let file: string;
  let before: Record<string, string[]>;

  beforeAll(async () => {
    [from, plain, to] = [await postgres.createEmpty(KNOWN), await postgres.createEmpty(KNOWN), await postgres.createEmpty(KNOWN)];
    await from.database.migrate();
    await layRelease(from.database, from.dataDir, FILLED);
    before = await rowsOf(from.database);
    const { config } = loadConfig({ file: false, env: {}, flags: { 'data.dir': from.dataDir, 'database.url': from.url } });
    ({ file } = await backUp(config, { log: silentLogger, clock: systemClock }, { folder, configFile: undefined, program: { version: '0.0.0', commit: 'test' } }));
  });

  afterAll(async () => {
    for (const db of [from, plain, to]) await db?.drop();
    rmSync(folder, { recursive: true, force: true });
  });

  it('brings every row of every table back', async () => {
    const unpacked = mkdtempSync(join(folder, 'unpacked-'));
    await unpackBackup(file, unpacked);
    await restoreDump(join(unpacked, DUMP_FILE), plain?.url ?? '');
    expect(Object.values(before).filter(({ length }) => length > 0).length).toBeGreaterThan(20);
    const { audit_pending: pending, ...restored } = await rowsOf((plain as TestDatabase).database);
    expect(pending).toEqual([expect.stringContaining('backups')]); // the backup itself has begun
    expect({ ...restored, audit_pending: [] }).toEqual(before);
  });

  it('is restored whole, and then no longer marked; what was open is ended', async () => {
    const target = to as TestDatabase;
    const options = { file, databaseUrl: target.url, passphrase: undefined, revokesKeys: false, clock: systemClock, log: silentLogger, onProgress: () => {}, signal: new AbortController().signal };
    const restored = await restoreBackup({ ...options, dataDir: join(folder, 'data') });
    const database = await target.open({ migrations: MIGRATIONS });
    const after = await rowsOf(database);
    expect(restored.rows).toEqual(await rowCounts(database.db));
    expect(await database.db.knex('executions').where('final', 0)).toEqual([]);
    for (const [table, rows] of Object.entries(before)) if (!WRITTEN.test(table)) expect({ table, rows: after[table] }).toEqual({ table, rows });
    expect(after['executions']).toHaveLength(before['executions']?.length ?? 0);
    await database.close();
    await expect(restoreBackup({ ...options, dataDir: join(folder, 'again') })).rejects.toMatchObject({ reason: 'database_not_empty' });
  });
});

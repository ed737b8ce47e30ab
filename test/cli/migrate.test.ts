import { copyFileSync, existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { lockDataFolder } from '../../src/database';
import { MIGRATIONS } from '../../src/database/migrations';
import { plantroomHere } from '../support/commandInProcess';
import { engines, type TestEngine } from '../support/engines';
import { insertRelease, releases, type Release } from '../support/releasedSchemas';

const OLD = releases().at(-2) as Release;
const AT = MIGRATIONS.findIndex(({ name }) => name === OLD.schema) + 1;

describe.each(engines())('plantroom migrate on $name', (engine) => {
  it('rehearses the migration beside a running server, keeps a backup copy, and reports both', async () => {
    const test = await engine.createEmpty(MIGRATIONS.slice(0, AT));
    try {
      await test.database.migrate();
      await insertRelease(test.database, test.dataDir, OLD);
      const run = async (...flags: string[]) =>
        await plantroomHere(['migrate', ...flags, '--data-dir', test.dataDir, '--database-url', test.url]);
      const before = await test.database.db.knex('schema_migrations').orderBy('name');
      const server = await lockDataFolder(test.dataDir);
      const trial = await run('--dry-run', '--json');
      expect(trial).toMatchObject({ code: 0, stderr: '' });
      const pending = MIGRATIONS.slice(AT).map(({ name }) => name);
      const rows = OLD.tables.reduce((sum, table) => sum + table.rows.length, 0);
      const report = JSON.parse(trial.stdout) as {
        elapsedMs: Record<string, number>;
        rows: number;
        bytes: number;
        bytesNeeded: number | null;
      };
      expect(report).toMatchObject({ schema: OLD.schema, pending, succeeds: true });
      expect(Object.keys(report.elapsedMs)).toEqual(pending);
      expect(report.rows).toBeGreaterThanOrEqual(rows);
      expect(report.bytesNeeded === null).toBe(engine.name === 'postgres');
      expect(await test.database.db.knex('schema_migrations').orderBy('name')).toEqual(before);
      expect(await run()).toMatchObject({
        code: 1,
        stderr: expect.stringContaining('stop that server first') as string,
      });
      server.release();
      if (engine.name === 'postgres') {
        const otherServer = await test.open({ dataDir: join(test.dataDir, 'of-another-server') });
        await otherServer.acquireOwnership(() => {});
        expect(await run()).toMatchObject({
          code: 1,
          stderr: expect.stringContaining('another server uses the database') as string,
        });
        await otherServer.close();
      }

      const { code, stdout } = await run('--json');
      const done = JSON.parse(stdout) as { schema: string; applied: string[]; copy: string | null };
      expect({ code, ...done }).toMatchObject({ code: 0, schema: MIGRATIONS.at(-1)?.name, applied: pending });
      await expect(test.open({ migrations: MIGRATIONS.slice(0, AT) })).rejects.toMatchObject({
        reason: 'schema_version_unsupported',
      });
      if (engine.name === 'postgres') return expect(done.copy).toBeNull();
      await test.database.close();
      copyFileSync(done.copy ?? '', join(test.dataDir, 'plantroom.db'));
      const older = await test.open({ migrations: MIGRATIONS.slice(0, AT) });
      expect(await older.db.knex('digital_devices').pluck('name')).toHaveLength(3);
      await older.close();
    } finally {
      await test.drop();
    }
  });
});

describe('plantroom migrate --dry-run', () => {
  it('requires an existing database, and does not create one', async () => {
    const test = await (engines()[0] as TestEngine).createDatabase();
    const nowhere = join(test.dataDir, 'nowhere');
    expect(await plantroomHere(['migrate', '--dry-run', '--data-dir', nowhere])).toMatchObject({
      code: 2,
      stderr: expect.stringContaining(`there is no database in ${nowhere}`) as string,
    });
    expect(existsSync(nowhere)).toBe(false);
    const { code, stdout } = await plantroomHere(['migrate', '--dry-run', '--data-dir', test.dataDir]);
    expect([code, stdout]).toEqual([0, expect.stringMatching(/^pending +-$/m)]);
    expect(readdirSync(test.dataDir).filter((name) => name.startsWith('migration-trial'))).toEqual([]);
    await test.drop();
  });
});

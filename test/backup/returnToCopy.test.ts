import { copyFileSync, existsSync, mkdirSync, readdirSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createAccessRepositories, AuditArchive, bootstrap } from '../../src/access';
import { lockDataFolder, openDatabase, UnitOfWork, type Database, type Migration } from '../../src/database';
import { MIGRATIONS } from '../../src/database/migrations';
import { silentLogger } from '../../src/kernel/logger';
import { rollBackDatabase, isDatabaseCopy, type RestoreOptions } from '../../src/backup';
import { prepare, startExecutionFixture } from '../executions/executionFixture';
import { plantroomHere } from '../support/commandInProcess';
import { engines, type TestDatabase } from '../support/engines';
import { TestClock } from '../support/testClock';

const [sqlite] = engines() as [ReturnType<typeof engines>[0]];
const SCHEMA = MIGRATIONS.at(-1)?.name ?? '';
const next: Migration = {
  name: '9999_next',
  up: async (knex) => await knex.schema.createTable('newer_things', (t) => void t.text('id').primary()),
  down: async () => {},
};

describe('a return to the copy from before a migration', () => {
  let db: TestDatabase;
  let executionId: string;
  let copy: string;
  const clock = new TestClock();

  function options(more: Partial<RestoreOptions> = {}): RestoreOptions {
    return {
      file: copy,
      dataDir: db.dataDir,
      databaseUrl: '',
      passphrase: undefined,
      revokesKeys: false,
      clock,
      log: silentLogger,
      onProgress: () => {},
      signal: new AbortController().signal,
      ...more,
    };
  }

  /** Opens the database with the version that the copy is of. */
  async function withDatabase<T>(work: (database: Database) => Promise<T>): Promise<T> {
    const database = await openDatabase({ url: '', dataDir: db.dataDir, log: silentLogger });
    try {
      return await work(database);
    } finally {
      await database.close();
    }
  }

  async function state(): Promise<unknown> {
    return await withDatabase(
      async ({ db: { knex } }) => await knex('executions').where('id', executionId).first('state', 'detail', 'final'),
    );
  }

  const inFolder = (pattern: RegExp): string[] => readdirSync(db.dataDir).filter((name) => pattern.test(name));
  const file = (): string => join(db.dataDir, 'plantroom.db');

  /** Prepares the data folder as a killed newer version leaves it: the copy contains an open execution. */
  beforeEach(async () => {
    db = await sqlite.createDatabase();
    await bootstrap(new UnitOfWork(db.database, createAccessRepositories), clock);
    await prepare(db.database);
    const fixture = await startExecutionFixture(db.database);
    ({ executionId } = await fixture.execute(await fixture.target({ connectionId: await fixture.connection() })));
    await fixture.stop();
    writeFileSync(join(db.dataDir, 'secrets.key'), 'a key');
    const newer = await db.open({ migrations: [...MIGRATIONS, next] });
    ({ copy = '' } = await newer.migrate());
    await newer.db.knex('newer_things').insert({ id: 'later' });
    await newer.close();
  });

  afterEach(async () => await db.drop());

  it('works as the older version advises, ends what was open, and keeps the newer database and all other files', async () => {
    await db.database.close();
    const refused = (await withDatabase(async () => {}).catch((error: Error) => error)) as Error;
    const command = /plantroom (restore .*?);/.exec(refused.message)?.[1]?.split(' ') ?? [];
    expect(await plantroomHere([...command, '--dry-run', '--json'])).toMatchObject({
      code: 0,
      stdout: expect.stringContaining('"dryRun":true') as string,
    });
    await expect(withDatabase(async () => {})).rejects.toMatchObject({ reason: 'schema_version_unsupported' });
    const { code, stdout } = await plantroomHere([...command, '--json']);
    const result = JSON.parse(stdout) as {
      movedTo: string;
      copy: { createdAt: string };
      schema: object;
      executionsEnded: object;
      keys: unknown[];
    };
    expect({ code, ...result }).toMatchObject({
      code: 0,
      schema: { before: SCHEMA, after: SCHEMA },
      executionsEnded: { enqueued: 1 },
      keys: [expect.objectContaining({ name: 'First key' })],
    });
    expect(copy).toContain(result.copy.createdAt.replaceAll(':', '-'));
    expect(await state()).toEqual({ state: 'unconfirmed', detail: 'restored', final: 1 });
    expect(inFolder(/^secrets.key$|rolling-back|restoring/)).toEqual(['secrets.key']);
    expect(statSync(file()).mode & 0o077).toBe(0);
    await withDatabase(async (database) => {
      for (const id of await database.db.knex('organizations').pluck<string[]>('id'))
        expect((await new AuditArchive(database).verify(id, undefined, () => {})).errors).toEqual([]);
    });
    renameSync(result.movedTo, file());
    const newer = await db.open({ migrations: [...MIGRATIONS, next] });
    expect(await newer.db.knex('newer_things').pluck('id')).toEqual(['later']);
    await newer.close();
  });

  it('moves the log of the newer database too, which SQLite would otherwise use as its own', async () => {
    await db.database.close();
    writeFileSync(`${file()}-wal`, 'of the newer one');
    const { movedTo } = await rollBackDatabase(options());
    expect([existsSync(`${movedTo}-wal`), await state()]).toEqual([true, expect.objectContaining({ final: 1 })]);
  });

  it('lets no server send twice when it was killed at any step, and is completed by a repetition', async () => {
    await db.database.close();
    const half = join(db.dataDir, '.rolling-back');
    mkdirSync(half);
    writeFileSync(join(half, 'plantroom.db'), 'half');
    // as if nothing had happened
    await expect(withDatabase(async () => {})).rejects.toMatchObject({ reason: 'schema_version_unsupported' });
    const root = join(db.dataDir, '.restoring');
    const moved = 'plantroom.db.newer-of-the-killed-one';
    const steps: (() => void)[] = [
      () => {},
      () => renameSync(file(), join(db.dataDir, moved)),
      () => renameSync(join(root, 'plantroom.db'), file()),
    ];
    for (let killedAt = 1; killedAt <= steps.length; killedAt++) {
      mkdirSync(root);
      copyFileSync(copy, join(root, 'plantroom.db'));
      writeFileSync(join(root, 'moved-to'), moved);
      for (const step of steps.slice(0, killedAt)) step();
      await expect(withDatabase(async () => {})).rejects.toMatchObject({ reason: 'restore_unfinished' });
      await rollBackDatabase(options());
      expect(await state()).toMatchObject({ state: 'unconfirmed', final: 1 });
      expect(inFolder(/rolling-back|restoring/)).toEqual([]);
    }
    expect(inFolder(/newer/).length).toBeGreaterThan(1);
  });

  it('rejects folders that it must not change, and leaves everything unchanged', async () => {
    await db.database.close();
    const lock = await lockDataFolder(db.dataDir);
    await expect(rollBackDatabase(options())).rejects.toMatchObject({ reason: 'data_dir_in_use' });
    lock.release();
    const empty = join(db.dataDir, 'empty');
    await expect(rollBackDatabase(options({ dataDir: empty }))).rejects.toMatchObject({
      reason: 'rollback_unavailable',
    });
    await expect(rollBackDatabase(options({ file: file() }))).rejects.toMatchObject({ reason: 'copy_invalid' });
    await expect(rollBackDatabase(options({ databaseUrl: 'postgres://localhost/x' }))).rejects.toMatchObject({
      reason: 'backup_engine_mismatch',
    });
    const newer = join(db.dataDir, 'another.db');
    copyFileSync(file(), newer);
    await expect(rollBackDatabase(options({ file: newer }))).rejects.toMatchObject({
      reason: 'schema_version_unsupported',
    });
    await expect(rollBackDatabase(options({ signal: AbortSignal.abort() }))).rejects.toThrow(/abort/i);
    mkdirSync(join(db.dataDir, '.restoring'));
    await expect(rollBackDatabase(options())).rejects.toMatchObject({ reason: 'restore_unfinished' });
    rmSync(join(db.dataDir, '.restoring'), { recursive: true });
    expect([
      existsSync(empty),
      isDatabaseCopy(__filename),
      isDatabaseCopy(empty),
      inFolder(/rolling-back|newer/),
    ]).toEqual([false, false, false, []]);
    await expect(withDatabase(async () => {})).rejects.toMatchObject({ reason: 'schema_version_unsupported' });
  });
});

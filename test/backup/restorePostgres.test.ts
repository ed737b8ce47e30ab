import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { AuditArchive, createAccessRepositories, bootstrap, type Bootstrapped } from '../../src/access';
import { UnitOfWork } from '../../src/database';
import { MIGRATIONS } from '../../src/database/migrations';
import { silentLogger } from '../../src/kernel/logger';
import { restoreBackup, type RestoreOptions } from '../../src/backup';
import { packBackup } from '../../src/backup/packBackup';
import { prepareDatabase } from '../../src/backup/restore/preparation';
import { engines, type TestDatabase } from '../support/engines';
import { TestClock } from '../support/testClock';
import { CREATED_AT } from './packedBackup';

const [, postgres] = engines() as [unknown, ReturnType<typeof engines>[0]];
const SCHEMA = MIGRATIONS.at(-1)?.name ?? '';
const DUMP = 'what pg_dump wrote';
const MANIFEST = {
  format: 1,
  createdAt: CREATED_AT,
  program: { version: '0.0.0', commit: 'test' },
  schema: SCHEMA,
  engine: 'PostgreSQL',
  installationId: 'x',
  members: [],
} as const;

describe('a restore of PostgreSQL', () => {
  const folder = mkdtempSync(join(tmpdir(), 'plantroom-restore-pg-'));
  const file = join(folder, 'plantroom.tar.zst');
  const clock = new TestClock();
  const path = process.env['PATH'] ?? '';
  let empty: TestDatabase;
  let filled: TestDatabase;
  let first: Bootstrapped;
  let count = 0;

  function options(more: Partial<RestoreOptions> = {}): RestoreOptions {
    count += 1;
    return {
      file,
      dataDir: join(folder, `data-${count}`),
      databaseUrl: empty.url,
      passphrase: undefined,
      revokesKeys: false,
      clock,
      log: silentLogger,
      onProgress: () => {},
      signal: new AbortController().signal,
      ...more,
    };
  }

  /** Installs a script in place of pg_restore, or none for undefined. */
  function installPgRestore(script: string | undefined): void {
    const bin = mkdtempSync(join(folder, 'bin-'));
    if (script !== undefined) writeFileSync(join(bin, 'pg_restore'), `#!/bin/sh\n${script}\n`, { mode: 0o755 });
    process.env['PATH'] = script === undefined ? bin : [bin, path].join(delimiter);
  }

  beforeAll(async () => {
    empty = await postgres.createEmpty(MIGRATIONS);
    filled = await postgres.createDatabase();
    first = (await bootstrap(new UnitOfWork(filled.database, createAccessRepositories), clock)) as Bootstrapped;
    const dump = join(folder, 'plantroom.pgdump');
    writeFileSync(dump, DUMP);
    const members = [
      { path: 'plantroom.pgdump', bytes: DUMP.length, sha256: createHash('sha256').update(DUMP).digest('hex') },
    ];
    await packBackup(file, { ...MANIFEST, members }, () => dump);
  });

  afterEach(() => {
    process.env['PATH'] = path;
  });

  afterAll(async () => {
    await empty.drop();
    await filled.drop();
    rmSync(folder, { recursive: true, force: true });
  });

  it('passes the dump to pg_restore in one transaction, with the address hidden from other users', async () => {
    const [callFile, dumpCopy] = [join(folder, 'said'), join(folder, 'got')];
    installPgRestore(
      `echo "$@" > ${callFile}; env | grep ^PG >> ${callFile}; for last; do :; done; cp "$last" ${dumpCopy}`,
    );
    const marked = await postgres.createEmpty(MIGRATIONS);
    const restoreOptions = options({ databaseUrl: marked.url });
    await expect(restoreBackup(restoreOptions)).rejects.toMatchObject({
      reason: 'backup_corrupt',
      message: expect.stringContaining('its schema is none'),
    }); // nothing was written to the database
    const { port, password, pathname } = new URL(marked.url);
    const [args = '', ...variables] = readFileSync(callFile, 'utf8').trim().split('\n');
    expect(args).toContain('--exit-on-error --single-transaction');
    expect(password !== '' && args.includes(password)).toBe(false);
    expect(variables).toEqual(expect.arrayContaining([`PGPORT=${port}`, `PGDATABASE=${pathname.slice(1)}`]));
    expect(readFileSync(dumpCopy, 'utf8')).toBe(DUMP);
    // The content is unknown, whichever data folder it is used with.
    await expect(marked.open({ dataDir: restoreOptions.dataDir })).rejects.toMatchObject({
      reason: 'restore_unfinished',
      message: expect.not.stringContaining('begin empty'),
    });
    await expect(marked.open()).rejects.toMatchObject({
      reason: 'restore_unfinished',
      message: expect.stringContaining(`into the database 127.0.0.1:${port}${pathname}`),
    });
    installPgRestore('exit 1'); // after a killed restore, whose pg_restore may still commit, only a finished one makes it valid
    await expect(restoreBackup(options({ databaseUrl: marked.url }))).rejects.toMatchObject({
      reason: 'pg_restore_failed',
    });
    await expect(marked.open()).rejects.toMatchObject({ reason: 'restore_unfinished' });
    await marked.drop();
  });

  it('keeps every server off the database from before the dump is loaded until everything is prepared', async () => {
    const filling = await postgres.createEmpty(MIGRATIONS);
    const [startedFile, endFile] = [join(folder, 'begun'), join(folder, 'end')];
    installPgRestore(`touch ${startedFile}; while [ ! -e ${endFile} ]; do sleep 0.02; done`);
    const restoring = restoreBackup(options({ databaseUrl: filling.url }));
    while (!existsSync(startedFile)) await pause(10);
    await expect(filling.open()).rejects.toMatchObject({ reason: 'restore_unfinished' });
    await filling.database.migrate(); // what pg_restore would load
    writeFileSync(endFile, '');
    expect((await restoring).rows.get('organizations')).toBe(0);
    await (await filling.open()).close();
    expect(await filling.database.db.knex.schema.hasTable('plantroom_restore_unfinished')).toBe(false);
    await filling.drop();
  });

  it('reports what to install where pg_restore is missing, and its output where it fails; a server may start as before', async () => {
    for (const [script, reason, message] of [
      [undefined, 'pg_restore_missing', 'postgresql-client'],
      ['echo "version is not supported" >&2; exit 1', 'pg_restore_failed', 'version is not supported'],
    ] as const) {
      installPgRestore(script);
      const restoreOptions = options();
      await expect(restoreBackup(restoreOptions)).rejects.toMatchObject({
        reason,
        message: expect.stringContaining(message),
      });
      expect(existsSync(join(restoreOptions.dataDir, '.restoring'))).toBe(false);
      await (await empty.open()).close();
    }
  });

  it('assumes nothing about a killed pg_restore: its work may still be committed', async () => {
    const doubtful = await postgres.createEmpty(MIGRATIONS);
    installPgRestore('kill -9 $$');
    await expect(restoreBackup(options({ databaseUrl: doubtful.url }))).rejects.toMatchObject({
      reason: 'pg_restore_failed',
    });
    await expect(doubtful.open()).rejects.toMatchObject({ reason: 'restore_unfinished' });
    await doubtful.drop();
  });

  it('requires an empty database, and no server starts on the rest of an interrupted restore', async () => {
    const restoreOptions = options({ databaseUrl: filled.url });
    await expect(restoreBackup(restoreOptions)).rejects.toMatchObject({ reason: 'database_not_empty' });
    expect(existsSync(join(restoreOptions.dataDir, '.restoring'))).toBe(false);
    mkdirSync(join(restoreOptions.dataDir, '.restoring'));
    await expect(restoreBackup(restoreOptions)).rejects.toMatchObject({ reason: 'database_not_empty' });
    expect(existsSync(join(restoreOptions.dataDir, '.restoring'))).toBe(true);
  });

  it('prepares the loaded data as it prepares SQLite: trail, keys, rows', async () => {
    const { database } = filled;
    const prepared = await prepareDatabase({
      database,
      manifest: MANIFEST,
      revokesKeys: true,
      clock,
      log: silentLogger,
      onStep: () => {},
    });
    expect(prepared).toMatchObject({
      schema: { before: SCHEMA, after: SCHEMA },
      keys: [expect.objectContaining({ id: first.apiKey.id, ownerName: 'Administrator' })],
    });
    expect(prepared.rows.get('api_keys')).toBe(1);
    expect(await database.db.knex('api_keys').whereNull('revoked_at')).toEqual([]);
    expect(await database.db.knex('audit_events').where('method', 'restore').pluck('chain')).toEqual([
      first.organization.id,
    ]);
    expect((await new AuditArchive(database).verify(first.organization.id, undefined, () => {})).errors).toEqual([]);
  });
});

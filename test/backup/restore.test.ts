import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  AuditArchive,
  createAccessRepositories,
  bootstrap,
  KeyAdministration,
  OrganizationService,
  UserService,
  type Bootstrapped,
} from '../../src/access';
import { lockDataFolder, openDatabase, countRows, UnitOfWork, type Database } from '../../src/database';
import { MIGRATIONS } from '../../src/database/migrations';
import { silentLogger } from '../../src/kernel/logger';
import { SCOPES } from '../../src/kernel/scopes';
import { dryRunRestore, restoreBackup, type RestoreResult, type RestoreOptions } from '../../src/backup';
import { engines, type TestDatabase } from '../support/engines';
import { TestClock } from '../support/testClock';
import { CREATED_AT, FILES, createPackedBackup } from './packedBackup';

const [sqlite] = engines() as [ReturnType<typeof engines>[0]];
const nothingMissing = async (): Promise<string[]> => [];
const referenceCheckers = {
  gateways: nothingMissing,
  connections: nothingMissing,
  devices: nothingMissing,
  commands: nothingMissing,
};

/** Lists what a restore left in a folder. */
function listRestoredFiles(dataDir: string): string[] {
  return existsSync(dataDir) ? readdirSync(dataDir).filter((name) => name !== 'server.lock') : [];
}

describe('a restore', () => {
  const folder = mkdtempSync(join(tmpdir(), 'plantroom-restore-test-'));
  const clock = new TestClock();
  const backup = join(folder, 'plantroom-2026-03-01T02-30-00Z-x.tar.zst');
  let db: TestDatabase;
  let first: Bootstrapped;
  let count = 0;

  function options(more: Partial<RestoreOptions> = {}): RestoreOptions {
    count += 1;
    return {
      file: backup,
      dataDir: join(folder, `data-${count}`),
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

  function getKeys(database: Database): KeyAdministration {
    const uow = new UnitOfWork(database, createAccessRepositories);
    return new KeyAdministration({
      uow,
      clock,
      users: new UserService({ uow, clock }),
      referenceCheckers,
      keyChanged: () => {},
    });
  }

  async function withRestored<T>(dataDir: string, work: (database: Database) => Promise<T>): Promise<T> {
    const database = await openDatabase({ url: '', dataDir, log: silentLogger, clock });
    try {
      return await work(database);
    } finally {
      await database.close();
    }
  }

  beforeAll(async () => {
    db = await sqlite.createDatabase();
    const uow = new UnitOfWork(db.database, createAccessRepositories);
    first = (await bootstrap(uow, clock)) as Bootstrapped;
    await new OrganizationService({ uow, clock }).create('Second');
    const keyFields = {
      scopes: ['devices:read'],
      connectionIds: [],
      allConnections: false,
      ownerUserId: undefined,
      isAdmin: true,
      expiresAt: undefined,
    };
    const keys = getKeys(db.database);
    await keys.create(first.organization.id, { ...keyFields, name: 'expired', expiresAt: clock.now() + 1 });
    await keys.create(first.organization.id, { ...keyFields, name: 'admin' });
    const { apiKey } = await keys.create(first.organization.id, { ...keyFields, name: 'revoked' });
    await keys.revoke(first.organization.id, apiKey.id);
    clock.advance(10);
    await createPackedBackup(db, backup);
  });

  afterAll(async () => {
    await db.drop();
    rmSync(folder, { recursive: true, force: true });
  });

  it('restores the database and the files, and nothing else, and its report is accurate', async () => {
    const restoreOptions = options();
    const restored: RestoreResult = await restoreBackup(restoreOptions);
    expect(listRestoredFiles(restoreOptions.dataDir).toSorted()).toEqual([
      'media',
      'plantroom.db',
      'plantroom.restored.yaml',
      'secrets.key',
      'secrets.key.next',
      'tls',
    ]);
    for (const [path, content] of Object.entries(FILES))
      expect(
        readFileSync(join(restoreOptions.dataDir, path.replace('plantroom.yaml', 'plantroom.restored.yaml')), 'utf8'),
      ).toBe(content);
    expect(restored.configuration).toBe(join(restoreOptions.dataDir, 'plantroom.restored.yaml'));
    expect([
      statSync(restoreOptions.dataDir).mode & 0o777,
      statSync(join(restoreOptions.dataDir, 'secrets.key')).mode & 0o777,
      statSync(join(restoreOptions.dataDir, 'plantroom.db')).mode & 0o077,
    ]).toEqual([0o700, 0o600, 0]);
    expect(restored.schema).toEqual({ before: MIGRATIONS.at(-1)?.name, after: MIGRATIONS.at(-1)?.name });
    await withRestored(restoreOptions.dataDir, async (database) =>
      expect(restored.rows).toEqual(await countRows(database.db)),
    );
  });

  it('is recorded in the audit trail of every organization, with the time of the backup, and the trail is consistent', async () => {
    const restoreOptions = options();
    await restoreBackup(restoreOptions);
    await withRestored(restoreOptions.dataDir, async (database) => {
      const archive = new AuditArchive(database);
      const events = await database.db.knex('audit_events').where('method', 'restore');
      const organizations = await database.db.knex('organizations').select('id');
      expect(events.map(({ chain }: { chain: string }) => chain).toSorted()).toEqual(
        organizations.map(({ id }: { id: string }) => id).toSorted(),
      );
      for (const event of events)
        expect(event).toMatchObject({
          actor: 'command_line',
          outcome: 'succeeded',
          fields: JSON.stringify([`backupCreatedAt=${CREATED_AT}`]),
        });
      for (const { id } of organizations as { id: string }[])
        expect((await archive.verify(id, undefined, () => {})).errors).toEqual([]);
    });
  });

  it('lists the keys that work again, with details of their owners, and no others', async () => {
    const { keys } = await restoreBackup(options());
    const ownerNames = { organizationName: 'Plantroom', ownerName: 'Administrator' };
    expect(keys).toEqual([
      expect.objectContaining({ name: 'admin', isAdmin: true, scopes: ['devices:read'], ...ownerNames }),
      expect.objectContaining({ name: 'First key', prefix: first.apiKey.prefix, isAdmin: false, ...ownerNames }),
    ]);
  });

  it('revokes these keys on request, each with an audit event, and a new key can be created afterwards', async () => {
    const restoreOptions = options({ revokesKeys: true });
    const { keys } = await restoreBackup(restoreOptions);
    expect(keys).toHaveLength(2);
    await withRestored(restoreOptions.dataDir, async (database) => {
      const now = await getKeys(database).list(first.organization.id);
      expect(
        now.filter(({ revokedAt, expiresAt }) => revokedAt === undefined && (expiresAt ?? Infinity) > clock.now()),
      ).toEqual([]);
      const events = await database.db.knex('audit_events').where('method', 'keys revoke').pluck<string[]>('resource');
      expect(events.toSorted()).toEqual(keys.map(({ id }) => `api-keys/${id}`).toSorted());
      const created = await getKeys(database).create(first.organization.id, {
        name: 'operator',
        scopes: SCOPES,
        connectionIds: [],
        allConnections: true,
        ownerUserId: undefined,
        isAdmin: true,
        expiresAt: undefined,
      });
      expect(created.key).toMatch(/^plr_/);
    });
  });

  it('migrates an old schema before it installs the database', async () => {
    const old = await sqlite.createEmpty(MIGRATIONS.slice(0, 4));
    await old.database.migrate();
    await old.database.db
      .knex('organizations')
      .insert({ id: 'org-1', name: 'Old', name_folded: 'old', created_at: 1, updated_at: 1 });
    const file = join(folder, 'old.tar.zst');
    await createPackedBackup(old, file);
    await old.drop();
    const restoreOptions = options({ file });
    const { schema } = await restoreBackup(restoreOptions);
    expect(schema).toEqual({ before: MIGRATIONS[3]?.name, after: MIGRATIONS.at(-1)?.name });
    expect(listRestoredFiles(restoreOptions.dataDir)).not.toContain('backups');
    await withRestored(restoreOptions.dataDir, async (database) =>
      expect(await database.db.knex('organizations').pluck('name')).toEqual(['Old']),
    );
  });

  it('opens an encrypted backup, and reports a wrong passphrase', async () => {
    const file = join(folder, 'secret.tar.zst.age');
    await createPackedBackup(db, file, {}, 'correct horse');
    await restoreBackup(options({ file, passphrase: 'correct horse' }));
    const restoreOptions = options({ file, passphrase: 'wrong' });
    await expect(restoreBackup(restoreOptions)).rejects.toMatchObject({ reason: 'backup_passphrase_wrong' });
    await expect(restoreBackup({ ...restoreOptions, passphrase: undefined })).rejects.toMatchObject({
      reason: 'backup_passphrase_required',
    });
    expect(existsSync(restoreOptions.dataDir)).toBe(false);
  });

  it('rejects folders that it must not change, and leaves them unchanged', async () => {
    const restoreOptions = options();
    mkdirSync(restoreOptions.dataDir);
    writeFileSync(join(restoreOptions.dataDir, 'plantroom.db'), 'mine');
    await expect(restoreBackup(restoreOptions)).rejects.toMatchObject({
      reason: 'data_dir_not_empty',
      message: expect.stringContaining('contains plantroom.db'),
    });
    expect([
      readdirSync(restoreOptions.dataDir),
      readFileSync(join(restoreOptions.dataDir, 'plantroom.db'), 'utf8'),
    ]).toEqual([['plantroom.db'], 'mine']);
    const inUse = options();
    const lock = await lockDataFolder(inUse.dataDir);
    await expect(restoreBackup(inUse)).rejects.toMatchObject({ reason: 'data_dir_in_use' });
    lock.release();
    await expect(restoreBackup(options({ databaseUrl: 'postgres://localhost/x' }))).rejects.toMatchObject({
      reason: 'backup_engine_mismatch',
    });
    const file = join(folder, 'newer.tar.zst');
    await createPackedBackup(db, file, { schema: '9999_not_yet' });
    await expect(restoreBackup(options({ file }))).rejects.toMatchObject({ reason: 'schema_version_unsupported' });
    await expect(restoreBackup(options({ file: __filename }))).rejects.toMatchObject({ reason: 'backup_invalid' });
  });

  it('ignores files of the site and of its file system in the folder, and the backup itself', async () => {
    const restoreOptions = options();
    for (const name of ['lost+found', 'backups', '.runtime'])
      mkdirSync(join(restoreOptions.dataDir, name), { recursive: true });
    writeFileSync(join(restoreOptions.dataDir, 'plantroom.yaml'), 'mine');
    const file = join(restoreOptions.dataDir, 'the-backup.tar.zst');
    writeFileSync(file, readFileSync(backup));
    await restoreBackup({ ...restoreOptions, file });
    expect(readFileSync(join(restoreOptions.dataDir, 'plantroom.yaml'), 'utf8')).toBe('mine');
  });

  it('prevents a start after an interruption, and the next restore starts over', async () => {
    const restoreOptions = options();
    const staging = join(restoreOptions.dataDir, '.restoring');
    mkdirSync(join(staging, 'data'), { recursive: true });
    writeFileSync(join(staging, 'data', 'plantroom.db'), 'half');
    writeFileSync(join(staging, 'placing.json'), JSON.stringify(['media', 'plantroom.db']));
    mkdirSync(join(restoreOptions.dataDir, 'media'));
    writeFileSync(join(restoreOptions.dataDir, 'media', 'half'), 'half');
    await expect(openDatabase({ url: '', dataDir: restoreOptions.dataDir, log: silentLogger })).rejects.toMatchObject({
      reason: 'restore_unfinished',
    });
    await restoreBackup(restoreOptions);
    expect(listRestoredFiles(restoreOptions.dataDir)).not.toContain('.restoring');
    expect(existsSync(join(restoreOptions.dataDir, 'media', 'half'))).toBe(false);
  });

  it('does not prevent a start when it was killed while it cleaned up, and the next restore cleans up', async () => {
    const restoreOptions = options();
    mkdirSync(join(restoreOptions.dataDir, '.restoring-removed', 'data'), { recursive: true });
    await restoreBackup(restoreOptions);
    expect(listRestoredFiles(restoreOptions.dataDir)).not.toContain('.restoring-removed');
  });

  it('restores nothing when it is stopped', async () => {
    const restoreOptions = options({ signal: AbortSignal.abort() });
    await expect(restoreBackup(restoreOptions)).rejects.toThrow(/abort/i);
    expect(listRestoredFiles(restoreOptions.dataDir)).toEqual([]);
  });

  it('leaves no trace of a rehearsal', async () => {
    const restoreOptions = options();
    const { prepared } = await dryRunRestore(restoreOptions);
    expect(prepared?.keys).toHaveLength(2);
    expect(existsSync(restoreOptions.dataDir)).toBe(false);
  });

  it('never restores anything but what was backed up, for any flipped byte of the file', async () => {
    const backupBytes = readFileSync(backup);
    const restoreOptions = options();
    const expected = (await restoreBackup(options())).rows;
    let seed = 20_260_301;
    const next = (below: number): number => (seed = (seed * 1_103_515_245 + 12_345) % 2_147_483_648) % below;
    const outcomes = new Set<string>();
    for (let flip = 0; flip < 200; flip++) {
      const bytes = Buffer.from(backupBytes);
      const at = flip < 40 ? next(64) : next(bytes.length);
      bytes[at] = (bytes[at] ?? 0) ^ (1 << next(8));
      const file = join(folder, 'flipped.tar.zst');
      writeFileSync(file, bytes);
      const outcome = await restoreBackup({ ...restoreOptions, file }).then(
        ({ rows }) => ({ rows }),
        ({ reason = 'none' }: { reason?: string }) => ({ reason }),
      );
      if ('rows' in outcome) {
        expect(outcome.rows).toEqual(expected); // a byte without meaning
        rmSync(restoreOptions.dataDir, { recursive: true });
      } else {
        // The last three come from flips in the head, which is trusted until the complete file is compared.
        expect([
          'backup_corrupt',
          'backup_invalid',
          'schema_version_unsupported',
          'backup_version_unsupported',
          'insufficient_space',
        ]).toContain(outcome.reason);
        expect(listRestoredFiles(restoreOptions.dataDir)).toEqual([]);
      }
      outcomes.add('rows' in outcome ? 'restored' : outcome.reason);
    }
    expect(outcomes).toContain('backup_corrupt');
  });
});

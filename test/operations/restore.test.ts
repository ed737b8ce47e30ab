import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { AuditArchive, accessRepositories, bootstrap, KeyAdministration, OrganizationService, UserService, type Bootstrapped } from '../../src/access';
import { lockDataFolder, openDatabase, rowCounts, UnitOfWork, type Database } from '../../src/database';
import { MIGRATIONS } from '../../src/database/migrations';
import { silentLogger } from '../../src/kernel/logger';
import { SCOPES } from '../../src/kernel/scopes';
import { rehearseRestore, restoreBackup, type Restored, type RestoreOptions } from '../../src/operations';
import { engines, type TestDatabase } from '../support/engines';
import { TestClock } from '../support/testClock';
import { CREATED_AT, FILES, packedBackup } from './packedBackup';

const [sqlite] = engines() as [ReturnType<typeof engines>[0]];
const nothingMissing = async (): Promise<string[]> => [];
const missing = { gateways: nothingMissing, connections: nothingMissing, devices: nothingMissing, commands: nothingMissing };

/** What a restore left in a folder. */
function placed(dataDir: string): string[] {
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
    return { file: backup, dataDir: join(folder, `data-${count}`), databaseUrl: '', passphrase: undefined, revokesKeys: false, clock, log: silentLogger, onProgress: () => {}, signal: new AbortController().signal, ...more };
  }

  function keysOf(database: Database): KeyAdministration {
    const uow = new UnitOfWork(database, accessRepositories);
    return new KeyAdministration({ uow, clock, users: new UserService({ uow, clock }), missing, keyChanged: () => {} });
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
    const uow = new UnitOfWork(db.database, accessRepositories);
    first = (await bootstrap(uow, clock)) as Bootstrapped;
    await new OrganizationService({ uow, clock }).create('Second');
    const wanted = { scopes: ['devices:read'], connectionIds: [], allConnections: false, ownerUserId: undefined, isAdmin: true, expiresAt: undefined };
    const keys = keysOf(db.database);
    await keys.create(first.organization.id, { ...wanted, name: 'expired', expiresAt: clock.now() + 1 });
    await keys.create(first.organization.id, { ...wanted, name: 'admin' });
    const { apiKey } = await keys.create(first.organization.id, { ...wanted, name: 'revoked' });
    await keys.revoke(first.organization.id, apiKey.id);
    clock.advance(10);
    await packedBackup(db, backup);
  });

  afterAll(async () => {
    await db.drop();
    rmSync(folder, { recursive: true, force: true });
  });

  it('brings back the database and the files, and nothing else; what it says is what is there', async () => {
    const asked = options();
    const restored: Restored = await restoreBackup(asked);
    expect(placed(asked.dataDir).toSorted()).toEqual(['media', 'plantroom.db', 'plantroom.restored.yaml', 'secrets.key', 'secrets.key.next', 'tls']);
    for (const [path, content] of Object.entries(FILES)) expect(readFileSync(join(asked.dataDir, path.replace('plantroom.yaml', 'plantroom.restored.yaml')), 'utf8')).toBe(content);
    expect(restored.configuration).toBe(join(asked.dataDir, 'plantroom.restored.yaml'));
    expect([statSync(asked.dataDir).mode & 0o777, statSync(join(asked.dataDir, 'secrets.key')).mode & 0o777, statSync(join(asked.dataDir, 'plantroom.db')).mode & 0o077]).toEqual([0o700, 0o600, 0]);
    expect(restored.schema).toEqual({ before: MIGRATIONS.at(-1)?.name, after: MIGRATIONS.at(-1)?.name });
    await withRestored(asked.dataDir, async (database) => expect(restored.rows).toEqual(await rowCounts(database.db)));
  });

  it('is in the audit trail of every organization, with the time of the backup, and the trail fits together', async () => {
    const asked = options();
    await restoreBackup(asked);
    await withRestored(asked.dataDir, async (database) => {
      const archive = new AuditArchive(database);
      const events = await database.db.knex('audit_events').where('method', 'restore');
      const organizations = await database.db.knex('organizations').select('id');
      expect(events.map(({ chain }: { chain: string }) => chain).toSorted()).toEqual(organizations.map(({ id }: { id: string }) => id).toSorted());
      for (const event of events) expect(event).toMatchObject({ actor: 'command_line', outcome: 'succeeded', fields: JSON.stringify([`backupCreatedAt=${CREATED_AT}`]) });
      for (const { id } of organizations as { id: string }[]) expect((await archive.check(id, undefined, () => {})).faults).toEqual([]);
    });
  });

  it('names the keys that work again, with what tells whose they are, and no others', async () => {
    const { keys } = await restoreBackup(options());
    const whose = { organizationName: 'Plantroom', ownerName: 'Administrator' };
    expect(keys).toEqual([expect.objectContaining({ name: 'admin', isAdmin: true, scopes: ['devices:read'], ...whose }), expect.objectContaining({ name: 'First key', prefix: first.apiKey.prefix, isAdmin: false, ...whose })]);
  });

  it('revokes them where that is wanted, each in the trail; a new key can be made then', async () => {
    const asked = options({ revokesKeys: true });
    const { keys } = await restoreBackup(asked);
    expect(keys).toHaveLength(2);
    await withRestored(asked.dataDir, async (database) => {
      const now = await keysOf(database).list(first.organization.id);
      expect(now.filter(({ revokedAt, expiresAt }) => revokedAt === undefined && (expiresAt ?? Infinity) > clock.now())).toEqual([]);
      const events = await database.db.knex('audit_events').where('method', 'keys revoke').pluck<string[]>('resource');
      expect(events.toSorted()).toEqual(keys.map(({ id }) => `api-keys/${id}`).toSorted());
      const made = await keysOf(database).create(first.organization.id, { name: 'operator', scopes: SCOPES, connectionIds: [], allConnections: true, ownerUserId: undefined, isAdmin: true, expiresAt: undefined });
      expect(made.key).toMatch(/^plr_/);
    });
  });

  it('brings an old schema up to date before it gets its place', async () => {
    const old = await sqlite.createEmpty(MIGRATIONS.slice(0, 4));
    await old.database.migrate();
    await old.database.db.knex('organizations').insert({ id: 'org-1', name: 'Old', name_folded: 'old', created_at: 1, updated_at: 1 });
    const file = join(folder, 'old.tar.zst');
    await packedBackup(old, file);
    await old.drop();
    const asked = options({ file });
    const { schema } = await restoreBackup(asked);
    expect(schema).toEqual({ before: MIGRATIONS[3]?.name, after: MIGRATIONS.at(-1)?.name });
    expect(placed(asked.dataDir)).not.toContain('backups');
    await withRestored(asked.dataDir, async (database) => expect(await database.db.knex('organizations').pluck('name')).toEqual(['Old']));
  });

  it('opens an encrypted backup, and says when the passphrase does not', async () => {
    const file = join(folder, 'secret.tar.zst.age');
    await packedBackup(db, file, {}, 'correct horse');
    await restoreBackup(options({ file, passphrase: 'correct horse' }));
    const asked = options({ file, passphrase: 'wrong' });
    await expect(restoreBackup(asked)).rejects.toMatchObject({ reason: 'backup_passphrase_wrong' });
    await expect(restoreBackup({ ...asked, passphrase: undefined })).rejects.toMatchObject({ reason: 'backup_passphrase_needed' });
    expect(existsSync(asked.dataDir)).toBe(false);
  });

  it('refuses what it must not touch, and leaves it as it was', async () => {
    const asked = options();
    mkdirSync(asked.dataDir);
    writeFileSync(join(asked.dataDir, 'plantroom.db'), 'mine');
    await expect(restoreBackup(asked)).rejects.toMatchObject({ reason: 'data_folder_not_empty', message: expect.stringContaining('holds plantroom.db') });
    expect([readdirSync(asked.dataDir), readFileSync(join(asked.dataDir, 'plantroom.db'), 'utf8')]).toEqual([['plantroom.db'], 'mine']);
    const inUse = options();
    const lock = await lockDataFolder(inUse.dataDir);
    await expect(restoreBackup(inUse)).rejects.toMatchObject({ reason: 'data_folder_in_use' });
    lock.release();
    await expect(restoreBackup(options({ databaseUrl: 'postgres://localhost/x' }))).rejects.toMatchObject({ reason: 'backup_of_other_engine' });
    const file = join(folder, 'newer.tar.zst');
    await packedBackup(db, file, { schema: '9999_not_yet' });
    await expect(restoreBackup(options({ file }))).rejects.toMatchObject({ reason: 'schema_too_new' });
    await expect(restoreBackup(options({ file: __filename }))).rejects.toMatchObject({ reason: 'backup_not_one' });
  });

  it('minds neither what a site and its file system put into the folder, nor the backup itself', async () => {
    const asked = options();
    for (const name of ['lost+found', 'backups', '.runtime']) mkdirSync(join(asked.dataDir, name), { recursive: true });
    writeFileSync(join(asked.dataDir, 'plantroom.yaml'), 'mine');
    const file = join(asked.dataDir, 'the-backup.tar.zst');
    writeFileSync(file, readFileSync(backup));
    await restoreBackup({ ...asked, file });
    expect(readFileSync(join(asked.dataDir, 'plantroom.yaml'), 'utf8')).toBe('mine');
  });

  it('that was interrupted lets no server start, and the next one begins anew', async () => {
    const asked = options();
    const staging = join(asked.dataDir, '.restoring');
    mkdirSync(join(staging, 'data'), { recursive: true });
    writeFileSync(join(staging, 'data', 'plantroom.db'), 'half');
    writeFileSync(join(staging, 'placing.json'), JSON.stringify(['media', 'plantroom.db']));
    mkdirSync(join(asked.dataDir, 'media'));
    writeFileSync(join(asked.dataDir, 'media', 'half'), 'half');
    await expect(openDatabase({ url: '', dataDir: asked.dataDir, log: silentLogger })).rejects.toMatchObject({ reason: 'restore_unfinished' });
    await restoreBackup(asked);
    expect(placed(asked.dataDir)).not.toContain('.restoring');
    expect(existsSync(join(asked.dataDir, 'media', 'half'))).toBe(false);
  });

  it('that was killed while it tidied up keeps no server from starting, and the next one tidies up', async () => {
    const asked = options();
    mkdirSync(join(asked.dataDir, '.restoring-removed', 'data'), { recursive: true });
    await restoreBackup(asked);
    expect(placed(asked.dataDir)).not.toContain('.restoring-removed');
  });

  it('that is stopped restores nothing', async () => {
    const asked = options({ signal: AbortSignal.abort() });
    await expect(restoreBackup(asked)).rejects.toThrow(/abort/i);
    expect(placed(asked.dataDir)).toEqual([]);
  });

  it('is rehearsed without a trace', async () => {
    const asked = options();
    const { prepared } = await rehearseRestore(asked);
    expect(prepared?.keys).toHaveLength(2);
    expect(existsSync(asked.dataDir)).toBe(false);
  });

  it('never brings back something else than what was backed up, whichever bytes of the file were flipped', async () => {
    const whole = readFileSync(backup);
    const asked = options();
    const expected = (await restoreBackup(options())).rows;
    let seed = 20_260_301;
    const next = (below: number): number => (seed = (seed * 1_103_515_245 + 12_345) % 2_147_483_648) % below;
    const outcomes = new Set<string>();
    for (let flip = 0; flip < 200; flip++) {
      const bytes = Buffer.from(whole);
      const at = flip < 40 ? next(64) : next(bytes.length);
      bytes[at] = (bytes[at] ?? 0) ^ (1 << next(8));
      const file = join(folder, 'flipped.tar.zst');
      writeFileSync(file, bytes);
      const outcome = await restoreBackup({ ...asked, file }).then(({ rows }) => ({ rows }), ({ reason = 'none' }: { reason?: string }) => ({ reason }));
      if ('rows' in outcome) {
        expect(outcome.rows).toEqual(expected); // a byte that carries nothing
        rmSync(asked.dataDir, { recursive: true });
      } else {
        // The last three: the flip is in the head, which is believed until the whole is compared.
        expect(['backup_damaged', 'backup_not_one', 'schema_too_new', 'backup_too_new', 'restore_no_space']).toContain(outcome.reason);
        expect(placed(asked.dataDir)).toEqual([]);
      }
      outcomes.add('rows' in outcome ? 'restored' : outcome.reason);
    }
    expect(outcomes).toContain('backup_damaged');
  });
});

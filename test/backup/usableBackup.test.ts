import { createHash } from 'node:crypto';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DomainError } from '../../src/kernel/errors';
import { BACKUP_FORMAT, formatBackupName, packBackup, withBackupHint } from '../../src/backup';
import { engines, type TestDatabase, type TestEngine } from '../support/engines';
import { createPackedBackup } from './packedBackup';

const getFile = (dir: string, day: number, site: string): string =>
  join(dir, formatBackupName(Date.UTC(2026, 10, day), site, false));

describe('the backup that is proposed for a corrupt database', () => {
  const [sqlite] = engines() as [TestEngine];
  const folder = mkdtempSync(join(tmpdir(), 'plantroom-good-'));
  const dataDir = join(folder, 'data');
  let test: TestDatabase;
  beforeAll(async () => {
    test = await sqlite.createDatabase();
    mkdirSync(join(dataDir, 'media'), { recursive: true });
  });
  afterEach(() => rmSync(join(dataDir, 'media/installation'), { force: true }));
  afterAll(async () => {
    await test.drop();
    rmSync(folder, { recursive: true, force: true });
  });

  const getHint = async (dir: string): Promise<string> =>
    ((await withBackupHint(new DomainError('unavailable', 'database_corrupt', 'damaged'), dir, dataDir)) as Error)
      .message;
  const emptyFolder = (name: string): string => {
    mkdirSync(join(folder, name));
    return join(folder, name);
  };

  it('belongs to this installation, and none is proposed if the installation is unknown', async () => {
    const dir = emptyFolder('shared');
    await createPackedBackup(test, join(folder, 'packed'));
    const [ownBackup, foreignBackup] = [getFile(dir, 1, 'ours'), getFile(dir, 2, 'others')];
    for (const file of [ownBackup, foreignBackup]) writeFileSync(file, readFileSync(join(folder, 'packed')));
    const hintWithoutId = await getHint(dir);
    expect([hintWithoutId, hintWithoutId.includes('plantroom restore')]).toEqual([
      expect.stringContaining('belong to several installations'),
      false,
    ]);
    writeFileSync(join(dataDir, 'media/installation'), 'ours\n');
    expect(await getHint(dir)).toMatch(
      new RegExp(`all its checksums are right, and its database is intact: .*plantroom restore ${ownBackup}$`),
    );
    expect(readdirSync(dir)).toHaveLength(2);
  });

  it('has no corrupt database, even if its bytes match those that were backed up', async () => {
    const dir = emptyFolder('copied');
    const database = join(folder, 'damaged.db');
    const content = readFileSync(join(test.dataDir, 'plantroom.db')).fill(0xa5, 4096 * 4, 4096 * 12);
    writeFileSync(database, content);
    const members = [
      { path: 'plantroom.db', bytes: content.length, sha256: createHash('sha256').update(content).digest('hex') },
    ];
    const file = getFile(dir, 1, 'ours');
    await packBackup(
      file,
      {
        format: BACKUP_FORMAT,
        createdAt: '2026-11-01T00:00:00Z',
        program: { version: '0', commit: '' },
        schema: '',
        engine: 'SQLite',
        installationId: 'ours',
        members,
      },
      () => database,
    );
    expect(await getHint(dir)).toContain('every backup of this installation');
    expect(readdirSync(dir)).toHaveLength(1);
  });
});

import { createHash } from 'node:crypto';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DomainError } from '../../src/kernel/errors';
import { BACKUP_FORMAT, backupName, packBackup, withGoodBackup } from '../../src/operations';
import { engines, type TestDatabase, type TestEngine } from '../support/engines';
import { packedBackup } from './packedBackup';

const fileOf = (dir: string, day: number, site: string): string => join(dir, backupName(Date.UTC(2026, 10, day), site, false));

describe('the backup that is named where a database is damaged', () => {
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

  const advised = async (dir: string): Promise<string> => ((await withGoodBackup(new DomainError('unavailable', 'database_damaged', 'damaged'), dir, dataDir)) as Error).message;
  const emptyFolder = (name: string): string => {
    mkdirSync(join(folder, name));
    return join(folder, name);
  };

  it('is of this installation, and none where nobody knows which one that is', async () => {
    const dir = emptyFolder('shared');
    await packedBackup(test, join(folder, 'packed'));
    const [ours, others] = [fileOf(dir, 1, 'ours'), fileOf(dir, 2, 'others')];
    for (const file of [ours, others]) writeFileSync(file, readFileSync(join(folder, 'packed')));
    const unclear = await advised(dir);
    expect([unclear, unclear.includes('plantroom restore')]).toEqual([expect.stringContaining('of more than one installation'), false]);
    writeFileSync(join(dataDir, 'media/installation'), 'ours\n');
    expect(await advised(dir)).toMatch(new RegExp(`all its checksums are right, and its database is whole; .*plantroom restore ${ours}$`));
    expect(readdirSync(dir)).toHaveLength(2);
  });

  it('is none whose database is damaged, though its bytes are those that were backed up', async () => {
    const dir = emptyFolder('copied');
    const database = join(folder, 'damaged.db');
    const content = readFileSync(join(test.dataDir, 'plantroom.db')).fill(0xa5, 4096 * 4, 4096 * 12);
    writeFileSync(database, content);
    const members = [{ path: 'plantroom.db', bytes: content.length, sha256: createHash('sha256').update(content).digest('hex') }];
    const file = fileOf(dir, 1, 'ours');
    await packBackup(file, { format: BACKUP_FORMAT, createdAt: '2026-11-01T00:00:00Z', program: { version: '0', commit: '' }, schema: '', engine: 'SQLite', installationId: 'ours', members }, () => database);
    expect(await advised(dir)).toContain('every backup of this installation');
    expect(readdirSync(dir)).toHaveLength(1);
  });
});

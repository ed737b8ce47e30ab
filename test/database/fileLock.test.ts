import { chmodSync, chownSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { tryLockFile, lockDataFolder } from '../../src/database';

const SERVICE = 10_001;
const isRoot = process.geteuid?.() === 0;

describe('a lock in the folder of another user', () => {
  let folder: string;
  beforeEach(() => (folder = mkdtempSync(join(tmpdir(), 'plantroom-lock-'))));
  afterEach(() => rmSync(folder, { recursive: true, force: true }));

  (isRoot ? it : it.skip)(
    'belongs to that user when root made it, so that a service goes on after a command by sudo',
    async () => {
      chownSync(folder, SERVICE, SERVICE);
      tryLockFile(join(folder, 'backup.lock'))?.release();
      const lock = await lockDataFolder(folder);
      expect(['backup.lock', 'server.lock', 'server.pid'].map((name) => statSync(join(folder, name)).uid)).toEqual([
        SERVICE,
        SERVICE,
        SERVICE,
      ]);
      lock.release();
    },
  );

  (isRoot ? it.skip : it)('is refused where it can only be read: it would keep nobody away', async () => {
    for (const name of ['backup.lock', 'server.lock']) {
      writeFileSync(join(folder, name), '');
      chmodSync(join(folder, name), 0o444);
    }
    expect(() => tryLockFile(join(folder, 'backup.lock'))).toThrow('EACCES');
    await expect(lockDataFolder(folder)).rejects.toMatchObject({ reason: 'data_dir_not_writable' });
  });
});

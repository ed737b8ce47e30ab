import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DEVICES, getId, getReason, type Site, startSite } from './site';
import { canMount, SmallDisk } from './smallDisk';

(canMount('inFile') ? describe : describe.skip)(
  'on a disk that fails and can only be read from then on (needs root, mount and ext4)',
  () => {
    it('answers reads, and rejects changes until the disk is writable again', async () => {
      const disk = SmallDisk.inFile(32);
      const site: Site = await startSite(join(disk.root, 'data'));
      try {
        const id = getId(await site.call(`${DEVICES}/CreateDigitalDevice`, { name: 'Valve' }));
        disk.fail();
        expect(getReason(await site.call(`${DEVICES}/CreateDigitalDevice`, { name: 'Another' }))).toMatch(
          /^(storage_read_only|database_unavailable)$/,
        );
        const refused = await site.call(`${DEVICES}/CreateDigitalDevice`, { name: 'Another' });
        expect(refused.status).toBe(503);
        expect(getReason(refused)).toBe('storage_read_only');
        expect((await site.call(`${DEVICES}/GetDigitalDevice`, { id })).status).toBe(200);
        expect(site.log.of('disk.read_only')).toHaveLength(1);
      } finally {
        await site.stop();
        disk.remove();
      }
    });
  },
);

(canMount('inMemory') ? describe : describe.skip)('in a folder that can only be read (needs root and mount)', () => {
  it('does not start, and reports what to do', async () => {
    const dataDir = mkdtempSync(join(tmpdir(), 'plantroom-readonly-'));
    execFileSync('mount', ['--bind', dataDir, dataDir]);
    execFileSync('mount', ['-o', 'remount,ro,bind', dataDir]);
    try {
      await expect(startSite(dataDir)).rejects.toMatchObject({
        reason: 'data_dir_not_writable',
        message: expect.stringContaining('mounted read-only') as string,
      });
    } finally {
      execFileSync('umount', [dataDir]);
      rmSync(dataDir, { recursive: true, force: true });
    }
  });
});

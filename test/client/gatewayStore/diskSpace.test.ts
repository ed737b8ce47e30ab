import { existsSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DiskSpace, findDisk } from '../../../src/client/gateway/store/diskSpace';

// A file system that reports no size, as some drives do.
(existsSync('/proc/self') ? describe : describe.skip)('a disk that does not report its size', () => {
  it('is treated neither as full nor as small', () => {
    const fixture = new DiskSpace('/proc/gateway.db');
    expect(findDisk('/proc/gateway.db')).toBeUndefined();
    expect(() => fixture.assertSpaceFor(1000, () => 0)).not.toThrow();
    expect(fixture.isSmall).toBe(false);
  });
});

describe('a disk that reports its size', () => {
  it('is full for data that it cannot hold', () => {
    const fixture = new DiskSpace(join(tmpdir(), 'gateway.db'));
    expect(() => fixture.assertSpaceFor(2 ** 60, () => 0)).toThrow(expect.objectContaining({ reason: 'store_full' }));
    expect(() => fixture.assertSpaceFor(2 ** 60, () => 2 ** 62)).not.toThrow();
  });
});

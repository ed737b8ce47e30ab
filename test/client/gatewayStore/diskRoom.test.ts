import { existsSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DiskRoom, findDisk } from '../../../src/client/gateway/store/diskRoom';

// A file system that tells no size, as some drives do not.
(existsSync('/proc/self') ? describe : describe.skip)('a disk that does not tell how large it is', () => {
  it('is not taken for full, nor for a small one', () => {
    const room = new DiskRoom('/proc/gateway.db');
    expect(findDisk('/proc/gateway.db')).toBeUndefined();
    expect(() => room.requireFor(1000, () => 0)).not.toThrow();
    expect(room.isSmall).toBe(false);
  });
});

describe('a disk that tells', () => {
  it('is full for what it cannot hold', () => {
    const room = new DiskRoom(join(tmpdir(), 'gateway.db'));
    expect(() => room.requireFor(2 ** 60, () => 0)).toThrow(expect.objectContaining({ reason: 'store_full' }));
    expect(() => room.requireFor(2 ** 60, () => 2 ** 62)).not.toThrow();
  });
});

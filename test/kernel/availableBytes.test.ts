import { existsSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { getAvailableBytes } from '../../src/kernel/availableBytes';

describe('free disk space', () => {
  it('is returned in bytes', () => {
    expect(getAvailableBytes(tmpdir())).toBeGreaterThan(0);
  });

  (existsSync('/proc/self') ? it : it.skip)('is unknown, not 0, for a file system that does not report it', () => {
    expect(getAvailableBytes('/proc')).toBeUndefined();
  });

  it('cannot be read for a folder that does not exist', () => {
    expect(() => getAvailableBytes('/no/such/folder')).toThrow('ENOENT');
  });
});

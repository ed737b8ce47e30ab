import { existsSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { freeBytes } from '../../src/kernel/freeBytes';

describe('the room of a disk', () => {
  it('is told in bytes', () => {
    expect(freeBytes(tmpdir())).toBeGreaterThan(0);
  });

  (existsSync('/proc/self') ? it : it.skip)('is not known of one that does not tell, which is not none', () => {
    expect(freeBytes('/proc')).toBeUndefined();
  });

  it('cannot be asked of a folder that is not there', () => {
    expect(() => freeBytes('/no/such/folder')).toThrow('ENOENT');
  });
});

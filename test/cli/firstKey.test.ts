import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Bootstrapped } from '../../src/access';
import { createFirstKeyWriter } from '../../src/cli/server/firstKey';

const createBootstrapped = (key: string): Bootstrapped =>
  ({ organization: { id: 'o1' }, key }) as unknown as Bootstrapped;

describe('the first key file', () => {
  let folder: string;
  let file: string;
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'plantroom-key-'));
    file = join(folder, 'key.json');
  });
  afterEach(() => rmSync(folder, { recursive: true, force: true }));

  it('contains the newest key and is readable only by its user, also if an empty file existed before', () => {
    writeFileSync(file, '');
    const write = createFirstKeyWriter(file);
    write(createBootstrapped('of a transaction that was rolled back'));
    write(createBootstrapped('plr_secret'));
    expect(JSON.parse(readFileSync(file, 'utf8'))).toEqual({ organizationId: 'o1', apiKey: 'plr_secret' });
    expect(statSync(file).mode & 0o777).toBe(0o600);
    expect(readdirSync(folder)).toEqual(['key.json']);
  });

  it('never replaces a file with content, nor a folder', () => {
    writeFileSync(file, 'the key of another installation');
    expect(() => createFirstKeyWriter(file)(createBootstrapped('plr_secret'))).toThrow(
      expect.objectContaining({ reason: 'key_file_exists' }),
    );
    expect(readFileSync(file, 'utf8')).toBe('the key of another installation');
    mkdirSync(join(folder, 'folder'));
    expect(() => createFirstKeyWriter(join(folder, 'folder'))(createBootstrapped('plr_secret'))).toThrow(
      expect.objectContaining({
        reason: 'key_file_not_writable',
        message: expect.stringContaining('EISDIR') as string,
      }),
    );
    expect(readdirSync(folder)).toEqual(['folder', 'key.json']);
  });
});

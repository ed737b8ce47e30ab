import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Bootstrapped } from '../../src/access';
import { openFirstKeyFile } from '../../src/cli/server/firstKey';

const made = { organization: { id: 'o1' }, key: 'pr_secret' } as unknown as Bootstrapped;

describe('the file of the first key', () => {
  let folder: string;
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'plantroom-key-'));
  });
  afterEach(() => rmSync(folder, { recursive: true, force: true }));

  it('holds the key for this user alone, also where an empty file was laid ready', () => {
    const file = join(folder, 'key.json');
    writeFileSync(file, '');
    openFirstKeyFile(file).keep(made);
    expect(JSON.parse(readFileSync(file, 'utf8'))).toEqual({ organizationId: 'o1', apiKey: 'pr_secret' });
    expect(statSync(file).mode & 0o777).toBe(0o600);
    expect(readdirSync(folder)).toEqual(['key.json']);
  });

  it('never replaces a file that holds something', () => {
    const file = join(folder, 'key.json');
    writeFileSync(file, 'the key of another installation');
    expect(() => openFirstKeyFile(file).keep(made)).toThrow(expect.objectContaining({ reason: 'key_file_not_writable', message: expect.stringContaining('EEXIST') as string }));
    expect(readFileSync(file, 'utf8')).toBe('the key of another installation');
    expect(readdirSync(folder)).toEqual(['key.json']);
  });

  it('leaves nothing where no key was made', () => {
    const file = join(folder, 'key.json');
    openFirstKeyFile(file).discard();
    expect(existsSync(file)).toBe(false);
    expect(readdirSync(folder)).toEqual([]);
  });
});

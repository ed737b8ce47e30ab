import { createHash, randomBytes } from 'node:crypto';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { zstdCompressSync, zstdDecompressSync } from 'node:zlib';
import { pack } from 'tar-stream';
import { type BackupManifest, packBackup, readManifest, unpackBackup } from '../../src/operations';

let folder: string;
let plain: string;
let encrypted: string;
const contents: Record<string, Buffer> = {
  'plantroom.db': randomBytes(300_000),
  'tls/ca.pem': Buffer.from('a certificate'),
  [`media/${'o'.repeat(36)}/ab/${'ab'.repeat(32)}`]: Buffer.alloc(200_000, 'repeats itself'),
  'secrets.key': Buffer.alloc(0),
};
const manifest: BackupManifest = {
  format: 1,
  createdAt: '2026-11-22T02:30:00.000Z',
  program: { version: '0.0.0', commit: 'unknown' },
  schema: '0006_device_profiles',
  engine: 'SQLite',
  installationId: 'installation-1',
  members: Object.entries(contents).map(([path, content]) => ({ path, bytes: content.length, sha256: createHash('sha256').update(content).digest('hex') })),
};
const source = (path: string): string => join(folder, 'data', path);

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'archive-'));
  for (const [path, content] of Object.entries(contents)) {
    mkdirSync(dirname(source(path)), { recursive: true });
    writeFileSync(source(path), content);
  }
  [plain, encrypted] = [join(folder, 'plain'), join(folder, 'encrypted')];
  await packBackup(plain, manifest, source);
  await packBackup(encrypted, manifest, source, { passphrase: 'open sesame' });
});
afterAll(() => rmSync(folder, { recursive: true }));

/** A tar of these members, compressed, as a file. */
async function fileOf(...members: readonly (readonly [header: { name: string; type?: 'symlink' | 'file' | 'link'; linkname?: string }, content: string | Buffer])[]): Promise<string> {
  const tar = pack();
  for (const [header, content] of members) {
    if (header.type === 'symlink' || header.type === 'link') tar.entry(header);
    else tar.entry(header, content);
  }
  tar.finalize();
  const parts: Buffer[] = [];
  for await (const part of tar as AsyncIterable<Buffer>) parts.push(part);
  return file(zstdCompressSync(Buffer.concat(parts)));
}

function file(content: Buffer | string): string {
  const name = join(folder, randomBytes(8).toString('hex'));
  writeFileSync(name, content);
  return name;
}

const said = (members: readonly (readonly [path: string, content: string])[], more: object = {}): string =>
  JSON.stringify({ ...manifest, members: members.map(([path, content]) => ({ path, bytes: content.length, sha256: createHash('sha256').update(content).digest('hex') })), ...more });

describe('a backup file', () => {
  it.each([['plain', () => plain, undefined], ['encrypted', () => encrypted, 'open sesame']] as const)('gives back, %s, what was put in', async (name, of, passphrase) => {
    const target = join(folder, `out-${name}`);
    const steps: number[] = [];
    expect(await readManifest(of(), passphrase)).toEqual(manifest);
    expect(await unpackBackup(of(), target, { passphrase, onProgress: (bytes) => steps.push(bytes) })).toEqual(manifest);
    for (const [path, content] of Object.entries(contents)) {
      expect(readFileSync(join(target, path)).equals(content)).toBe(true);
      expect(statSync(join(target, path)).mode & 0o777).toBe(0o600);
    }
    expect(statSync(join(target, 'tls')).mode & 0o777).toBe(0o700);
    expect(steps.at(-1)).toBe(manifest.members.reduce((sum, { bytes }) => sum + bytes, 0));
    expect(statSync(of()).mode & 0o777).toBe(0o600);
  });

  it('wants its passphrase', async () => {
    await expect(readManifest(encrypted)).rejects.toMatchObject({ reason: 'backup_passphrase_needed' });
    await expect(unpackBackup(encrypted, undefined, { passphrase: 'open barley' })).rejects.toMatchObject({ reason: 'backup_passphrase_wrong' });
    expect(await readManifest(plain, 'not needed')).toEqual(manifest);
  });

  it('is not written over', async () => {
    await expect(packBackup(plain, manifest, source)).rejects.toMatchObject({ code: 'EEXIST' });
    await expect(unpackBackup(plain, join(folder, 'data'))).rejects.toMatchObject({ code: 'EEXIST' });
  });

  it('is read when a later program made its members, and not when its format is later', async () => {
    expect(await readManifest(await fileOf([{ name: 'manifest.json' }, said([], { added: 'later' })]))).toMatchObject({ members: [] });
    await expect(readManifest(await fileOf([{ name: 'manifest.json' }, said([], { format: 2 })]))).rejects.toMatchObject({ reason: 'backup_too_new' });
  });

  it.each([
    ['nothing', () => file('')],
    ['a text', () => file('once upon a time, there was no backup')],
    ['no file', () => join(folder, 'none')],
    ['a folder', () => folder],
    ['another tar', async () => await fileOf([{ name: 'readme' }, 'of something else'])],
    ['one that would take 1 TiB to open', () => file(readFileSync(encrypted).toString('latin1').replace(/(scrypt \S+) \d+/, '$1 30'))],
  ])('is not %s', async (_what, of) => {
    await expect(unpackBackup(await of(), undefined, { passphrase: 'x' })).rejects.toMatchObject({ reason: 'backup_not_one' });
  });
});

describe('a damaged backup', () => {
  const whole = [['tls/a', 'first'], ['tls/b', 'second']] as const;
  const head = [{ name: 'manifest.json' }, said(whole)] as const;

  it.each<[string, () => string | Promise<string>, string]>([
    ['that lacks its end', () => file(readFileSync(plain).subarray(0, -5)), ''],
    ['that lacks its second half', () => file(readFileSync(plain).subarray(0, 150_000)), 'plantroom.db'],
    ['whose tar ends early', () => file(zstdCompressSync(zstdDecompressSync(readFileSync(plain)).subarray(0, 100_000))), 'plantroom.db'],
    ['with something behind it', () => file(Buffer.concat([readFileSync(plain), Buffer.from('more')])), 'its end'],
    ['with another one behind it', () => file(Buffer.concat([readFileSync(plain), readFileSync(plain)])), 'its end'],
    ['with other content', async () => await fileOf(head, [{ name: 'tls/a' }, 'FIRST'], [{ name: 'tls/b' }, 'second']), 'tls/a'],
    ['with a longer member', async () => await fileOf(head, [{ name: 'tls/a' }, 'first of all'], [{ name: 'tls/b' }, 'second']), 'tls/a'],
    ['that lacks a member', async () => await fileOf(head, [{ name: 'tls/a' }, 'first']), 'tls/b'],
    ['with a member twice', async () => await fileOf(head, [{ name: 'tls/a' }, 'first'], [{ name: 'tls/a' }, 'first'], [{ name: 'tls/b' }, 'second']), 'tls/b'],
    ['with a member more', async () => await fileOf(head, [{ name: 'tls/a' }, 'first'], [{ name: 'tls/b' }, 'second'], [{ name: 'tls/c' }, 'third']), 'tls/c'],
    ['with a link', async () => await fileOf(head, [{ name: 'tls/a', type: 'symlink', linkname: '/etc/passwd' }, ''], [{ name: 'tls/b' }, 'second']), 'tls/a'],
    ['whose manifest is no JSON', async () => await fileOf([{ name: 'manifest.json' }, '{"format": 1,']), 'manifest.json'],
    ['whose manifest names a member twice', async () => await fileOf([{ name: 'manifest.json' }, said([whole[0], whole[0]])]), 'manifest.json'],
    ...['../a', '/etc/passwd', 'tls/../../a', 'tls//a', 'tls/.', 'media/a\\b', 'server.lock', 'tls', 'media/.hidden', 'manifest.json', 'tls/a\u0000b'].map(
      (path): [string, () => Promise<string>, string] => [`with a member ${JSON.stringify(path)}`, async () => await fileOf([{ name: 'manifest.json' }, said([[path, 'x']])], [{ name: path.replaceAll('\u0000', '') }, 'x']), 'manifest.json'],
    ),
  ])('%s is told from a whole one', async (_what, of, member) => {
    const target = join(folder, randomBytes(4).toString('hex'));
    await expect(unpackBackup(await of(), target)).rejects.toMatchObject({ reason: 'backup_damaged', metadata: { member: expect.stringContaining(member) as string } });
    expect(readdirSync(folder)).not.toContain('a');
  });

  it('shows by any flipped bit, plain or encrypted', async () => {
    for (const [of, passphrase] of [[plain, undefined], [encrypted, 'open sesame']] as const) {
      const bytes = readFileSync(of);
      for (let at = 6; at < bytes.length; at += Math.ceil(bytes.length / (passphrase === undefined ? 40 : 3))) {
        const flipped = Buffer.from(bytes);
        flipped[at] = (flipped[at] ?? 0) ^ 4;
        await expect(unpackBackup(file(flipped), undefined, { passphrase })).rejects.toMatchObject({ reason: expect.stringMatching(/^backup_(damaged|not_one|passphrase_wrong)$/) as string });
      }
    }
  });

  it('that would unpack to more than it says is left early', async () => {
    const bomb = zstdCompressSync(Buffer.concat([zstdDecompressSync(readFileSync(await fileOf(head, [{ name: 'tls/a' }, 'first'], [{ name: 'tls/b' }, 'second']))), Buffer.alloc(8 * 1024 * 1024)]));
    expect(bomb.length).toBeLessThan(2000);
    await expect(unpackBackup(file(bomb), undefined)).rejects.toMatchObject({ reason: 'backup_damaged', message: expect.stringContaining('longer than it says') as string });
  });

  it('is left when the caller does not want it any more', async () => {
    const abort = new AbortController();
    await expect(unpackBackup(plain, undefined, { signal: abort.signal, onProgress: () => abort.abort() })).rejects.toMatchObject({ name: 'AbortError' });
  });
});

import { createHash, randomBytes } from 'node:crypto';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { zstdCompressSync, zstdDecompressSync } from 'node:zlib';
import { pack } from 'tar-stream';
import { type BackupManifest, packBackup, readManifest, unpackBackup } from '../../src/backup';

let folder: string;
let plainFile: string;
let encryptedFile: string;
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
  members: Object.entries(contents).map(([path, content]) => ({
    path,
    bytes: content.length,
    sha256: createHash('sha256').update(content).digest('hex'),
  })),
};
const source = (path: string): string => join(folder, 'data', path);

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'archive-'));
  for (const [path, content] of Object.entries(contents)) {
    mkdirSync(dirname(source(path)), { recursive: true });
    writeFileSync(source(path), content);
  }
  [plainFile, encryptedFile] = [join(folder, 'plain'), join(folder, 'encrypted')];
  await packBackup(plainFile, manifest, source);
  await packBackup(encryptedFile, manifest, source, { passphrase: 'open sesame' });
});
afterAll(() => rmSync(folder, { recursive: true }));

/** Creates a file with a compressed tar of these members. */
async function getFile(
  ...members: readonly (readonly [
    header: { name: string; type?: 'symlink' | 'file' | 'link'; linkname?: string },
    content: string | Buffer,
  ])[]
): Promise<string> {
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

const buildManifest = (members: readonly (readonly [path: string, content: string])[], more: object = {}): string =>
  JSON.stringify({
    ...manifest,
    members: members.map(([path, content]) => ({
      path,
      bytes: content.length,
      sha256: createHash('sha256').update(content).digest('hex'),
    })),
    ...more,
  });

describe('a backup file', () => {
  it.each([
    ['plain', () => plainFile, undefined],
    ['encrypted', () => encryptedFile, 'open sesame'],
  ] as const)('returns, %s, what was put in', async (name, of, passphrase) => {
    const target = join(folder, `out-${name}`);
    const steps: number[] = [];
    expect(await readManifest(of(), passphrase)).toEqual(manifest);
    expect(await unpackBackup(of(), target, { passphrase, onProgress: (bytes) => steps.push(bytes) })).toEqual(
      manifest,
    );
    for (const [path, content] of Object.entries(contents)) {
      expect(readFileSync(join(target, path)).equals(content)).toBe(true);
      expect(statSync(join(target, path)).mode & 0o777).toBe(0o600);
    }
    expect(statSync(join(target, 'tls')).mode & 0o777).toBe(0o700);
    expect(steps.at(-1)).toBe(manifest.members.reduce((sum, { bytes }) => sum + bytes, 0));
    expect(statSync(of()).mode & 0o777).toBe(0o600);
  });

  it('requires its passphrase', async () => {
    await expect(readManifest(encryptedFile)).rejects.toMatchObject({ reason: 'backup_passphrase_required' });
    await expect(unpackBackup(encryptedFile, undefined, { passphrase: 'open barley' })).rejects.toMatchObject({
      reason: 'backup_passphrase_wrong',
    });
    expect(await readManifest(plainFile, 'not needed')).toEqual(manifest);
  });

  it('is not overwritten', async () => {
    await expect(packBackup(plainFile, manifest, source)).rejects.toMatchObject({ code: 'EEXIST' });
    await expect(unpackBackup(plainFile, join(folder, 'data'))).rejects.toMatchObject({ code: 'EEXIST' });
  });

  it('is read when a later program created its members, but not when its format is newer', async () => {
    expect(
      await readManifest(await getFile([{ name: 'manifest.json' }, buildManifest([], { added: 'later' })])),
    ).toMatchObject({
      members: [],
    });
    await expect(
      readManifest(await getFile([{ name: 'manifest.json' }, buildManifest([], { format: 2 })])),
    ).rejects.toMatchObject({ reason: 'backup_version_unsupported' });
  });

  it.each([
    ['nothing', () => file('')],
    ['a text', () => file('once upon a time, there was no backup')],
    ['a missing file', () => join(folder, 'none')],
    ['a folder', () => folder],
    ['another tar', async () => await getFile([{ name: 'readme' }, 'of something else'])],
    [
      'one that would need 1 TiB to open',
      () =>
        file(
          readFileSync(encryptedFile)
            .toString('latin1')
            .replace(/(scrypt \S+) \d+/, '$1 30'),
        ),
    ],
  ])('is not %s', async (_what, of) => {
    await expect(unpackBackup(await of(), undefined, { passphrase: 'x' })).rejects.toMatchObject({
      reason: 'backup_invalid',
    });
  });
});

describe('a corrupt backup', () => {
  const members = [
    ['tls/a', 'first'],
    ['tls/b', 'second'],
  ] as const;
  const head = [{ name: 'manifest.json' }, buildManifest(members)] as const;

  it.each<[string, () => string | Promise<string>, string]>([
    ['without its end', () => file(readFileSync(plainFile).subarray(0, -5)), ''],
    ['without its second half', () => file(readFileSync(plainFile).subarray(0, 150_000)), 'plantroom.db'],
    [
      'whose tar ends early',
      () => file(zstdCompressSync(zstdDecompressSync(readFileSync(plainFile)).subarray(0, 100_000))),
      'plantroom.db',
    ],
    ['with trailing data', () => file(Buffer.concat([readFileSync(plainFile), Buffer.from('more')])), 'its end'],
    [
      'with another one appended',
      () => file(Buffer.concat([readFileSync(plainFile), readFileSync(plainFile)])),
      'its end',
    ],
    [
      'with other content',
      async () => await getFile(head, [{ name: 'tls/a' }, 'FIRST'], [{ name: 'tls/b' }, 'second']),
      'tls/a',
    ],
    [
      'with a longer member',
      async () => await getFile(head, [{ name: 'tls/a' }, 'first of all'], [{ name: 'tls/b' }, 'second']),
      'tls/a',
    ],
    ['without one of its members', async () => await getFile(head, [{ name: 'tls/a' }, 'first']), 'tls/b'],
    [
      'with a duplicate member',
      async () =>
        await getFile(head, [{ name: 'tls/a' }, 'first'], [{ name: 'tls/a' }, 'first'], [{ name: 'tls/b' }, 'second']),
      'tls/b',
    ],
    [
      'with an additional member',
      async () =>
        await getFile(head, [{ name: 'tls/a' }, 'first'], [{ name: 'tls/b' }, 'second'], [{ name: 'tls/c' }, 'third']),
      'tls/c',
    ],
    [
      'with a link',
      async () =>
        await getFile(
          head,
          [{ name: 'tls/a', type: 'symlink', linkname: '/etc/passwd' }, ''],
          [{ name: 'tls/b' }, 'second'],
        ),
      'tls/a',
    ],
    [
      'whose manifest is not JSON',
      async () => await getFile([{ name: 'manifest.json' }, '{"format": 1,']),
      'manifest.json',
    ],
    [
      'whose manifest names a member twice',
      async () => await getFile([{ name: 'manifest.json' }, buildManifest([members[0], members[0]])]),
      'manifest.json',
    ],
    ...[
      '../a',
      '/etc/passwd',
      'tls/../../a',
      'tls//a',
      'tls/.',
      'media/a\\b',
      'server.lock',
      'tls',
      'media/.hidden',
      'manifest.json',
      'tls/a\u0000b',
    ].map((path): [string, () => Promise<string>, string] => [
      `with a member ${JSON.stringify(path)}`,
      async () =>
        await getFile(
          [{ name: 'manifest.json' }, buildManifest([[path, 'x']])],
          [{ name: path.replaceAll('\u0000', '') }, 'x'],
        ),
      'manifest.json',
    ]),
  ])('%s is detected', async (_what, of, member) => {
    const target = join(folder, randomBytes(4).toString('hex'));
    await expect(unpackBackup(await of(), target)).rejects.toMatchObject({
      reason: 'backup_corrupt',
      metadata: { member: expect.stringContaining(member) as string },
    });
    expect(readdirSync(folder)).not.toContain('a');
  });

  it('is detected by any flipped bit, plain or encrypted', async () => {
    for (const [of, passphrase] of [
      [plainFile, undefined],
      [encryptedFile, 'open sesame'],
    ] as const) {
      const bytes = readFileSync(of);
      for (let at = 6; at < bytes.length; at += Math.ceil(bytes.length / (passphrase === undefined ? 40 : 3))) {
        const flipped = Buffer.from(bytes);
        flipped[at] = (flipped[at] ?? 0) ^ 4;
        await expect(unpackBackup(file(flipped), undefined, { passphrase })).rejects.toMatchObject({
          reason: expect.stringMatching(/^backup_(corrupt|invalid|passphrase_wrong)$/) as string,
        });
      }
    }
  });

  it('is not unpacked beyond its declared size', async () => {
    const bomb = zstdCompressSync(
      Buffer.concat([
        zstdDecompressSync(
          readFileSync(await getFile(head, [{ name: 'tls/a' }, 'first'], [{ name: 'tls/b' }, 'second'])),
        ),
        Buffer.alloc(8 * 1024 * 1024),
      ]),
    );
    expect(bomb.length).toBeLessThan(2000);
    await expect(unpackBackup(file(bomb), undefined)).rejects.toMatchObject({
      reason: 'backup_corrupt',
      message: expect.stringContaining('longer than its manifest says') as string,
    });
  });

  it('is not read further when the caller cancels', async () => {
    const abort = new AbortController();
    await expect(
      unpackBackup(plainFile, undefined, { signal: abort.signal, onProgress: () => abort.abort() }),
    ).rejects.toMatchObject({ name: 'AbortError' });
  });
});

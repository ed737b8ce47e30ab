import { createHash } from 'node:crypto';
import { mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import Sqlite from 'better-sqlite3';
import type { BackupManifest } from '../../src/backup/manifest';
import { packBackup } from '../../src/backup/packBackup';
import type { TestDatabase } from '../support/engines';

/** The creation time of every backup in the tests. */
export const CREATED_AT = '2026-03-01T02:30:00.000Z';

/** Files of a data folder besides the database, as path and content. */
export const FILES: Readonly<Record<string, string>> = {
  'media/installation': 'the installation\n',
  'media/org/ab/abcd': 'a picture',
  'tls/ca.pem': 'a certificate',
  'secrets.key': 'a key',
  'secrets.key.next': 'a key that is to take its place',
  'plantroom.yaml': 'grpc:\n  listen: 0.0.0.0:50051\n',
};

/** Packs the SQLite database of a test and FILES into a backup file, as `plantroom backup` does. */
export async function createPackedBackup(
  db: TestDatabase,
  file: string,
  overrides: Partial<BackupManifest> = {},
  passphrase?: string,
): Promise<BackupManifest> {
  const folder = `${file}.members`;
  for (const [path, content] of Object.entries(FILES)) {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    writeFileSync(join(folder, path), content);
  }
  const source = new Sqlite(join(db.dataDir, 'plantroom.db'), { readonly: true });
  source.prepare('vacuum into ?').run(join(folder, 'plantroom.db'));
  source.close();
  const { schema } = await db.database.describe();
  const paths = readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => relative(folder, join(entry.parentPath, entry.name)));
  const members = paths.map((path) => ({
    path,
    bytes: statSync(join(folder, path)).size,
    sha256: createHash('sha256')
      .update(readFileSync(join(folder, path)))
      .digest('hex'),
  }));
  const manifest: BackupManifest = {
    format: 1,
    createdAt: CREATED_AT,
    program: { version: '0.0.0', commit: 'test' },
    schema,
    engine: 'SQLite',
    installationId: 'installation',
    members,
    ...overrides,
  };
  await packBackup(file, manifest, (path) => join(folder, path), { passphrase });
  return manifest;
}

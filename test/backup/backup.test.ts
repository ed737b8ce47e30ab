import { createHash, randomBytes, randomUUID } from 'node:crypto';
import {
  chmodSync,
  closeSync,
  existsSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { backUp } from '../../src/server';
import { loadConfig, type Config } from '../../src/config';
import { openDatabase } from '../../src/database';
import { openFile } from '../../src/database/engines/sqliteConnection';
import { getKeyId } from '../../src/connections/secrets/secretCipher';
import { systemClock } from '../../src/kernel/clock';
import { silentLogger } from '../../src/kernel/logger';
import { listBackups, type BackupResult, unpackBackup } from '../../src/backup';
import { engines, type TestDatabase, type TestEngine } from '../support/engines';

const PROGRAM = { version: '1.2.3', commit: 'abc' };
const outside = { log: silentLogger, clock: systemClock };

/** Replaces pg_dump where none is new enough. Its dump contains its arguments. */
const FAKE_DUMP = `#!/bin/sh
[ "$1" = --version ] && { echo 'pg_dump (PostgreSQL) 99.1'; exit; }
echo "called: $*"; env | grep ^PG
`;
/** Replaces pg_restore, which reads the dump. */
const FAKE_RESTORE = `#!/bin/sh
for file; do :; done
grep -q ^called "$file" || { echo 'it is no archive' >&2; exit 1; }
`;

const paths = ({ manifest }: BackupResult): string[] => manifest.members.map((member) => member.path).toSorted();

describe.each(engines())('a backup on $name', ({ name, createDatabase }) => {
  let test: TestDatabase;
  let config: Config;
  let folder: string;
  let path: string | undefined;

  beforeEach(async () => {
    test = await createDatabase();
    folder = join(test.dataDir, 'kept');
    config = loadConfig({
      file: false,
      env: {},
      flags: { 'data.dir': test.dataDir, 'database.url': test.url.replace('plantroom@', 'plantroom:se%2Fcret@') },
    }).config;
    await test.database.db
      .knex('organizations')
      .insert({ id: 'org-1', name: 'one', name_folded: 'one', created_at: 0, updated_at: 0 });
    for (const [file, content] of [
      ['tls/ca.pem', 'the certificate'],
      ['tls/ca-key.pem', 'the key'],
      ['tls/server.pem.new', 'a draft'],
      ['server.pid', '1'],
      ['run.json', '{}'],
    ] as const)
      write(file, content);
    path = process.env['PATH'];
    if (name === 'postgres') {
      write('bin/pg_dump', FAKE_DUMP);
      write('bin/pg_restore', FAKE_RESTORE);
      for (const program of ['pg_dump', 'pg_restore']) chmodSync(join(test.dataDir, 'bin', program), 0o755);
      process.env['PATH'] = `${join(test.dataDir, 'bin')}:${path}`;
    }
  });
  afterEach(async () => {
    process.env['PATH'] = path;
    await test.drop();
  });

  function write(file: string, content: string | Buffer): void {
    mkdirSync(dirname(join(test.dataDir, file)), { recursive: true });
    writeFileSync(join(test.dataDir, file), content);
  }

  const runBackup = async (more: Partial<Parameters<typeof backUp>[2]> = {}): Promise<BackupResult> =>
    await backUp(config, outside, { folder, configFile: undefined, program: PROGRAM, ...more });

  async function addImage(): Promise<string> {
    const content = randomBytes(5000);
    const sha256 = createHash('sha256').update(content).digest('hex');
    const file = `media/org-1/${sha256.slice(0, 2)}/${sha256}`;
    write(file, content);
    write(`${file}.small`, 'small');
    await test.database.db.knex('media').insert({
      id: randomUUID(),
      organization_id: 'org-1',
      sha256,
      filename: '',
      content_type: 'image/webp',
      size_bytes: 5000,
      thumbnail_bytes: 5,
      width: 1,
      height: 1,
      created_at: 0,
    });
    return file;
  }

  const snapshot = name === 'sqlite' ? 'plantroom.db' : 'plantroom.pgdump';

  it('contains database, images, certificates, key and configuration, and nothing else', async () => {
    const imageId = await addImage();
    write('media/installation', 'x');
    write('media/org-1/ab/of-nobody', 'left over');
    write('secrets.key', randomBytes(32).toString('base64'));
    write('elsewhere/site.yaml', 'log: {level: warn}');
    const backup = await runBackup({ configFile: join(test.dataDir, 'elsewhere/site.yaml') });
    expect(paths(backup)).toEqual([
      'media/installation',
      imageId,
      `${imageId}.small`,
      snapshot,
      'plantroom.yaml',
      'secrets.key',
      'tls/ca-key.pem',
      'tls/ca.pem',
    ]);
    expect(backup.warnings).toEqual([]);
    expect(backup.manifest).toMatchObject({
      format: 1,
      program: PROGRAM,
      engine: name === 'sqlite' ? 'SQLite' : 'PostgreSQL',
      schema: expect.stringMatching(/^\d{4}_/) as string,
    });
    expect(listBackups(folder)).toEqual([
      {
        file: backup.file,
        bytes: backup.bytes,
        createdAt: Math.floor(Date.parse(backup.manifest.createdAt) / 1000) * 1000,
        isEncrypted: false,
        installationId: backup.manifest.installationId,
      },
    ]);
    expect(readdirSync(folder)).toHaveLength(1);
    expect([statSync(folder).mode & 0o777, statSync(backup.file).mode & 0o777]).toEqual([0o700, 0o600]);
    await unpackBackup(backup.file, join(test.dataDir, 'out'));
    expect(readFileSync(join(test.dataDir, 'out', imageId)).equals(readFileSync(join(test.dataDir, imageId)))).toBe(
      true,
    );
  });

  it('is recorded in the audit trail of every organization', async () => {
    await runBackup();
    expect(await test.database.db.knex('audit_pending').select('*')).toEqual([]);
    const sealed = await test.database.db
      .knex('audit_events')
      .where({ method: 'backup' })
      .select('chain', 'actor', 'resource', 'outcome');
    expect(sealed).toEqual([{ chain: 'org-1', actor: 'command_line', resource: 'backups', outcome: 'succeeded' }]);
  });

  it('runs once at a time, and cleans up after a killed one', async () => {
    const first = runBackup();
    await expect(runBackup()).rejects.toMatchObject({ reason: 'backup_in_progress' });
    const { manifest } = await first;
    mkdirSync(join(folder, `.plantroom-backup-${manifest.installationId}`));
    write(`kept/.plantroom-backup-${manifest.installationId}/plantroom.db`, 'half');
    write('kept/.plantroom-backup-of-another/plantroom.db', 'half');
    const second = await runBackup();
    expect(second.file).not.toBe((await first).file);
    expect(readdirSync(folder).filter((file) => file.startsWith('.'))).toEqual(['.plantroom-backup-of-another']);
  });

  it('continues without an image whose file is lost, and reports it', async () => {
    const [lost, kept] = [await addImage(), await addImage()];
    rmSync(join(test.dataDir, lost));
    const backup = await runBackup();
    expect(paths(backup)).toEqual(
      [kept, `${kept}.small`, `${lost}.small`, snapshot, 'tls/ca-key.pem', 'tls/ca.pem'].toSorted(),
    );
    expect(backup.warnings).toEqual([expect.stringContaining(lost)]);
  });

  it('does not report an image that was deleted meanwhile, even the last one', async () => {
    if (name === 'postgres') return; // its copy cannot be observed from here
    rmSync(join(test.dataDir, await addImage()));
    const deleted = openFile(join(test.dataDir, 'plantroom.db'), { busyTimeoutMs: 1000 });
    const backup = await runBackup({
      onProgress: (step) => void (step === 'copy' && queueMicrotask(() => deleted.exec('delete from media'))),
    }); // once the copy is complete
    deleted.close();
    expect([backup.warnings, paths(backup).filter((path) => path.startsWith('media/'))]).toEqual([[], []]);
  });

  it('reports when the key of the secrets is lost or stored elsewhere', async () => {
    const key = randomBytes(32);
    const row = {
      id: 'c-1',
      organization_id: 'org-1',
      name: 'broker',
      name_folded: 'broker',
      description: '',
      enabled: 1,
      policy: '{}',
      connector_id: 'mqtt',
      configuration: '{}',
      revision: 1,
      secrets: JSON.stringify({ password: `v1.${getKeyId(key)}.AAAA` }),
      created_at: 0,
      updated_at: 0,
    };
    await test.database.db.knex('connections').insert(row);
    expect((await runBackup()).warnings).toEqual([
      expect.stringMatching(/cannot be decrypted because their key is missing \(broker\)/),
    ]);
    config = { ...config, secrets: { key: key.toString('base64'), keyFile: '' } };
    expect((await runBackup()).warnings).toEqual([
      expect.stringMatching(/encrypted with a key from the configuration, which is not in the backup/),
    ]);
    config = { ...config, secrets: { key: '', keyFile: '' } };
    write('secrets.key', key.toString('base64'));
    expect((await runBackup()).warnings).toEqual([]);
    // A change of the key that was killed: some secrets already need the next key.
    write('secrets.key.next', key.toString('base64'));
    write('secrets.key', randomBytes(32).toString('base64'));
    const backup = await runBackup();
    expect([backup.warnings, paths(backup)]).toEqual([[], expect.arrayContaining(['secrets.key', 'secrets.key.next'])]);
  });

  it('reports what is wrong with the folder', async () => {
    write('file', '');
    await expect(runBackup({ folder: join(test.dataDir, 'file') })).rejects.toMatchObject({
      reason: 'backup_folder_unusable',
    });
    await expect(runBackup({ folder: join(test.dataDir, 'not', 'mounted') })).rejects.toMatchObject({
      reason: 'backup_folder_unusable',
      message: expect.stringContaining('disk is mounted') as string,
    });
    expect(existsSync(join(test.dataDir, 'not'))).toBe(false);
    await runBackup({ name: 'mine' });
    const steps: string[] = [];
    await expect(runBackup({ name: 'mine', onProgress: (step) => void steps.push(step) })).rejects.toMatchObject({
      reason: 'backup_exists',
    });
    expect(steps).toEqual([]);
    const meanwhile = runBackup({
      name: 'theirs',
      onProgress: (step) =>
        void (step === 'verify' && writeFileSync(join(folder, 'theirs'), 'of another installation')),
    });
    await expect(meanwhile).rejects.toMatchObject({ reason: 'backup_exists' });
    expect(readFileSync(join(folder, 'theirs'), 'utf8')).toBe('of another installation');
  });

  it('shows one moment, with everything that was acknowledged before it began', async () => {
    if (name === 'postgres') return await expectDumpCalled();
    const insert = async (at: number): Promise<void> =>
      void (await test.database.transaction(
        async (db) =>
          await db.knex('settings').insert([
            { name: `a-${at}`, value: 'x' },
            { name: `b-${at}`, value: 'x' },
          ]),
      ));
    for (let at = 0; at < 50; at++) await insert(at);
    const over = new AbortController();
    const writing = (async () => {
      let at = 50;
      for (; !over.signal.aborted; at++) await insert(at);
      return at;
    })();
    const backup = await runBackup();
    over.abort();
    expect(await writing).toBeGreaterThan(50);
    const out = join(test.dataDir, 'out');
    await unpackBackup(backup.file, out);
    const copy = await openDatabase({ url: '', dataDir: out, log: silentLogger, readOnly: true });
    const names = (letter: string) =>
      copy.db.knex('settings').where('name', 'like', `${letter}-%`).pluck('name') as Promise<string[]>;
    const [a, b] = [await names('a'), await names('b')];
    await copy.close();
    expect(a.length).toBeGreaterThanOrEqual(50);
    expect(b.map((one) => one.replace('b', 'a')).toSorted()).toEqual(a.toSorted());
  });

  it('is rejected for a corrupt database, and leaves no file that looks like a backup', async () => {
    if (name === 'postgres') {
      write('bin/pg_dump', FAKE_DUMP.replace('called', 'half'));
      await expect(runBackup()).rejects.toMatchObject({
        reason: 'database_dump_failed',
        message: expect.stringContaining('it is no archive') as string,
      });
    } else {
      misplaceRow(join(test.dataDir, 'plantroom.db'));
      await expect(runBackup()).rejects.toMatchObject({
        reason: 'database_corrupt',
        message: expect.stringContaining(join(test.dataDir, 'plantroom.db')) as string,
      });
    }
    expect(readdirSync(folder)).toEqual([]);
  });

  async function expectDumpCalled(): Promise<void> {
    const backup = await runBackup();
    const out = join(test.dataDir, 'out');
    await unpackBackup(backup.file, out);
    const dump = readFileSync(join(out, snapshot), 'utf8');
    const called = dump.split('\n').find((line) => line.startsWith('called: ')) ?? '';
    expect(called).toMatch(/--format=custom .*--snapshot=[0-9A-F-]+/);
    expect(called).not.toContain('cret');
    expect(dump).toContain('PGPASSWORD=se/cret\n');
    expect(dump).toContain(`PGDATABASE=${new URL(test.url).pathname.slice(1)}\n`);
  }
});

/** Creates a corruption that SQLite copies without an error: a row in the place of another one. */
function misplaceRow(file: string): void {
  const connection = openFile(file, { busyTimeoutMs: 1000 });
  connection.exec(
    "create table filler (name text); insert into filler values ('the first one'), ('the second one'), ('the third one')",
  );
  connection.pragma('wal_checkpoint(truncate)');
  connection.close();
  // before it are the lengths of its header and of its text
  const rowid = readFileSync(file).indexOf('the second one') - 3;
  const handle = openSync(file, 'r+');
  writeSync(handle, Uint8Array.of(99), 0, 1, rowid);
  closeSync(handle);
}

describe('a backup of PostgreSQL', () => {
  it('requires a pg_dump that is as new as the server', async () => {
    const test = await (engines()[1] as TestEngine).createDatabase();
    const config = loadConfig({
      file: false,
      env: {},
      flags: { 'data.dir': test.dataDir, 'database.url': test.url },
    }).config;
    const path = process.env['PATH'];
    try {
      for (const [script, problem] of [
        [undefined, 'none on PATH'],
        ["#!/bin/sh\necho 'pg_dump (PostgreSQL) 9.6.24'", 'is older (pg_dump (PostgreSQL) 9.6.24)'],
      ] as const) {
        if (script !== undefined) writeFileSync(join(test.dataDir, 'pg_dump'), script, { mode: 0o755 });
        process.env['PATH'] = test.dataDir;
        await expect(
          backUp(config, outside, { folder: join(test.dataDir, 'kept'), configFile: undefined, program: PROGRAM }),
        ).rejects.toMatchObject({ reason: 'pg_dump_missing', message: expect.stringContaining(problem) as string });
      }
      expect(readdirSync(join(test.dataDir, 'kept'))).toEqual([]);
    } finally {
      process.env['PATH'] = path;
      await test.drop();
    }
  });
});

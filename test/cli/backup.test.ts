import { once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, watch, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { acquireBackupLock } from '../../src/server';
import { loadConfig, toEnvironmentVariables } from '../../src/config';
import { openDatabase } from '../../src/database';
import { silentLogger } from '../../src/kernel/logger';
import { listBackups } from '../../src/backup';
import { runBackupCommand } from '../../src/backup/runBackupCommand';
import { plantroomHere } from '../support/commandInProcess';
import { plantroomInShell, plantroomKilled } from '../support/commandLine';

const temps = (dir: string): string[] => readdirSync(dir).filter((name) => name.startsWith('.'));

describe('plantroom backup', () => {
  let folder: string;
  let env: Record<string, string>;
  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'plantroom-backup-'));
    env = { PLANTROOM_DATA_DIR: join(folder, 'data') };
    const database = await openDatabase({ url: '', dataDir: join(folder, 'data'), log: silentLogger });
    await database.migrate();
    const filler = 'x'.repeat(1000);
    await database.transaction(async (db) => {
      for (let at = 0; at < 40; at++)
        await db
          .knex('settings')
          .insert(Array.from({ length: 50 }, (_, n) => ({ name: `filler-${at}-${n}`, value: filler })));
    });
    await database.close();
    writeFileSync(join(folder, 'passphrase'), 'open sesame\nanother line\n');
  });
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  const at = (...path: string[]): string => join(folder, ...path);
  const run = async (...args: string[]) => await plantroomHere(['backup', ...args], env);

  it('creates, lists and verifies backups', async () => {
    const created = await run('--json', '--passphrase-file', at('passphrase'));
    expect([created.code, created.stderr]).toEqual([0, '']);
    const { file, encrypted, files, removed, warnings } = JSON.parse(created.stdout) as Record<string, unknown>;
    expect({ encrypted, files, removed, warnings }).toEqual({ encrypted: true, files: 1, removed: [], warnings: [] });
    expect(String(file).startsWith(at('data', 'backups', 'plantroom-'))).toBe(true);
    const listed = await run('list', '--verify', '--passphrase-file', at('passphrase'));
    expect([listed.code, listed.stdout]).toEqual([0, expect.stringMatching(/\d KiB\s+true\s+checksums match/)]);
    expect(JSON.parse((await run('list', '--json')).stdout)).toEqual([
      expect.objectContaining({ file, encrypted: true, verified: null }),
    ]);
    const verified = await run('verify', String(file), '--passphrase-file', at('passphrase'), '--json');
    expect([verified.code, JSON.parse(verified.stdout)]).toMatchObject([
      0,
      { checksumsRight: true, files: 1, engine: 'SQLite' },
    ]);
    expect((await run('list', '--verify')).code).toBe(1);
    expect(await run('verify', String(file))).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('--passphrase-file') as string,
    });
  });

  it('creates a file with a given name, prints a readable report, and never overwrites a file', async () => {
    const created = await run('--output', at('mine.tar.zst'));
    expect(created).toMatchObject({
      code: 0,
      stderr: '',
      stdout: expect.stringMatching(/verified\s+read back, all checksums match/) as string,
    });
    expect(await run('--output', at('mine.tar.zst'))).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('never overwritten') as string,
    });
  });

  it.each([
    ['a missing folder', ['--output', 'none/a.tar.zst'], 2, 'does not exist'],
    ['a file to rotate', ['--output', 'a.tar.zst', '--rotate'], 2, 'is a file; name a folder'],
    ['an empty passphrase', ['--passphrase-file', '/dev/null'], 2, 'is empty'],
    ['another data folder', ['--data-dir', 'none'], 1, 'no Plantroom database in'],
  ])('explains the problem with %s', async (_what, args, code, message) => {
    const ended = await run(...args.map((arg) => (/^(none|a\.)/.test(arg) ? at(arg) : arg)));
    expect([ended.code, ended.stderr]).toEqual([code, expect.stringContaining(message)]);
    expect(existsSync(at('none'))).toBe(false);
  });

  it('refuses to run while the secrets key is rotated, and the rotation refuses to run during a backup', async () => {
    const turn = acquireBackupLock(at('data'));
    try {
      for (const args of [['backup'], ['secrets', 'rotate']])
        expect(await plantroomHere(args, env)).toMatchObject({
          code: 1,
          stderr: expect.stringContaining('wait until it has finished') as string,
        });
    } finally {
      turn.release();
    }
  });

  it('deletes old backups after a new one, and keeps files that are not backups', async () => {
    const dir = at('rotated');
    mkdirSync(dir);
    const { installationId } = JSON.parse((await run('--json', '--output', dir)).stdout) as { installationId: string };
    const [old, other] = [
      `plantroom-2025-01-01T00-00-00Z-${installationId}.tar.zst`,
      'plantroom-2025-01-01T00-00-00Z-another.tar.zst',
    ];
    for (const name of [old, other, 'notes.txt']) writeFileSync(join(dir, name), '');
    env = {
      ...env,
      PLANTROOM_BACKUP_KEEP_DAILY: '1',
      PLANTROOM_BACKUP_KEEP_WEEKLY: '0',
      PLANTROOM_BACKUP_KEEP_MONTHLY: '0',
    };
    const { file, removed } = JSON.parse((await run('--json', '--output', dir, '--rotate')).stdout) as {
      file: string;
      removed: string[];
    };
    expect(removed).toHaveLength(2);
    expect(
      readdirSync(dir)
        .map((name) => join(dir, name))
        .toSorted(),
    ).toEqual([file, join(dir, other), join(dir, 'notes.txt')].toSorted());
  });

  it('leaves no incomplete backup file when it is killed, and cleans up on the next run', async () => {
    const dir = at('killed');
    mkdirSync(dir);
    let isKilled = false;
    for (let attempts = 0; !isKilled && attempts < 5; attempts++) {
      for (const { file } of listBackups(dir)) rmSync(file); // The backup finished before the signal arrived.
      const watcher = watch(dir);
      isKilled = await plantroomKilled(
        ['backup', '--output', dir, '--passphrase-file', at('passphrase')],
        env,
        async () => void (await once(watcher, 'change')),
      );
      watcher.close();
    }
    expect([isKilled, listBackups(dir), temps(dir)]).toEqual([
      true,
      [],
      [expect.stringContaining('.plantroom-backup-')],
    ]);
    expect((await run('--output', dir)).code).toBe(0);
    expect([listBackups(dir).length, temps(dir)]).toEqual([1, []]);
  });

  it('reports a full disk when the file size limit is reached, and leaves no file', async () => {
    const dir = at('small');
    const { code, stderr } = await plantroomInShell(
      'ulimit -f 1024; exec "$@"',
      ['backup', '--output', `${dir}/`],
      env,
    );
    expect([code, stderr]).toEqual([1, expect.stringMatching(/could not be (copied|written)/)]);
    expect(readdirSync(dir)).toEqual([]);
  });

  it('runs as a child process of the server, configured by environment variables', async () => {
    writeFileSync(at('site.yaml'), `data: {dir: ${at('data')}}\n`);
    const { config } = loadConfig({
      file: false,
      env: { ...env, PLANTROOM_BACKUP_DIR: at('scheduled'), PLANTROOM_BACKUP_PASSPHRASE_FILE: at('passphrase') },
    });
    const { report, error } = await runBackupCommand(
      {
        file: process.execPath,
        args: [resolve('dist/main.js'), 'backup', '--rotate', '--json', '--config', at('site.yaml')],
        env: { PATH: process.env['PATH'], ...toEnvironmentVariables(config) },
      },
      new AbortController().signal,
    );
    expect([report?.file, error]).toEqual([listBackups(at('scheduled'))[0]?.file, '']);
    const { stdout } = await run('verify', report?.file ?? '', '--passphrase-file', at('passphrase'), '--json');
    expect(JSON.parse(stdout)).toMatchObject({ files: 2 });
  });
});

import { once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, watch, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { takeBackupTurn } from '../../src/app';
import { loadConfig, asVariables } from '../../src/config';
import { openDatabase } from '../../src/database';
import { silentLogger } from '../../src/kernel/logger';
import { listBackups } from '../../src/operations';
import { runBackupCommand } from '../../src/operations/backup/backupChild';
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
      for (let at = 0; at < 40; at++) await db.knex('settings').insert(Array.from({ length: 50 }, (_, n) => ({ name: `filler-${at}-${n}`, value: filler })));
    });
    await database.close();
    writeFileSync(join(folder, 'passphrase'), 'open sesame\nanother line\n');
  });
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  const at = (...path: string[]): string => join(folder, ...path);
  const run = async (...args: string[]) => await plantroomHere(['backup', ...args], env);

  it('makes, lists and verifies', async () => {
    const made = await run('--json', '--passphrase-file', at('passphrase'));
    expect([made.code, made.stderr]).toEqual([0, '']);
    const { file, encrypted, files, removed, warnings } = JSON.parse(made.stdout) as Record<string, unknown>;
    expect({ encrypted, files, removed, warnings }).toEqual({ encrypted: true, files: 1, removed: [], warnings: [] });
    expect(String(file).startsWith(at('data', 'backups', 'plantroom-'))).toBe(true);
    const listed = await run('list', '--verify', '--passphrase-file', at('passphrase'));
    expect([listed.code, listed.stdout]).toEqual([0, expect.stringMatching(/\d KiB\s+true\s+checksums are right/)]);
    expect(JSON.parse((await run('list', '--json')).stdout)).toEqual([expect.objectContaining({ file, encrypted: true, verified: null })]);
    const verified = await run('verify', String(file), '--passphrase-file', at('passphrase'), '--json');
    expect([verified.code, JSON.parse(verified.stdout)]).toMatchObject([0, { checksumsRight: true, files: 1, engine: 'SQLite' }]);
    expect((await run('list', '--verify')).code).toBe(1);
    expect(await run('verify', String(file))).toMatchObject({ code: 2, stderr: expect.stringContaining('--passphrase-file') as string });
  });

  it('makes a file of a given name, shown to people, and never writes over one', async () => {
    const made = await run('--output', at('mine.tar.zst'));
    expect(made).toMatchObject({ code: 0, stderr: '', stdout: expect.stringMatching(/verified\s+read back, all checksums are right/) as string });
    expect(await run('--output', at('mine.tar.zst'))).toMatchObject({ code: 1, stderr: expect.stringContaining('never written over') as string });
  });

  it.each([
    ['a folder that is not there', ['--output', 'none/a.tar.zst'], 2, 'there is no folder'],
    ['a file to rotate', ['--output', 'a.tar.zst', '--rotate'], 2, 'is a file; give a folder'],
    ['an empty passphrase', ['--passphrase-file', '/dev/null'], 2, 'is empty'],
    ['another data folder', ['--data-dir', 'none'], 1, 'there is no database of Plantroom in'],
  ])('says what is wrong with %s', async (_what, args, code, said) => {
    const ended = await run(...args.map((arg) => (/^(none|a\.)/.test(arg) ? at(arg) : arg)));
    expect([ended.code, ended.stderr]).toEqual([code, expect.stringContaining(said)]);
    expect(existsSync(at('none'))).toBe(false);
  });

  it('is not made while the key for secrets is changed, nor the other way round', async () => {
    const turn = takeBackupTurn(at('data'));
    try {
      for (const args of [['backup'], ['secrets', 'rotate']]) expect(await plantroomHere(args, env)).toMatchObject({ code: 1, stderr: expect.stringContaining('wait for its end') as string });
    } finally {
      turn.release();
    }
  });

  it('rotates after a backup, and leaves alone what is not its own', async () => {
    const dir = at('rotated');
    mkdirSync(dir);
    const { installationId } = JSON.parse((await run('--json', '--output', dir)).stdout) as { installationId: string };
    const [old, other] = [`plantroom-2025-01-01T00-00-00Z-${installationId}.tar.zst`, 'plantroom-2025-01-01T00-00-00Z-another.tar.zst'];
    for (const name of [old, other, 'notes.txt']) writeFileSync(join(dir, name), '');
    env = { ...env, PLANTROOM_BACKUP_KEEP_DAILY: '1', PLANTROOM_BACKUP_KEEP_WEEKLY: '0', PLANTROOM_BACKUP_KEEP_MONTHLY: '0' };
    const { file, removed } = JSON.parse((await run('--json', '--output', dir, '--rotate')).stdout) as { file: string; removed: string[] };
    expect(removed).toHaveLength(2);
    expect(readdirSync(dir).map((name) => join(dir, name)).toSorted()).toEqual([file, join(dir, other), join(dir, 'notes.txt')].toSorted());
  });

  it('leaves nothing that looks like a backup when it is killed, and cleans up the next time', async () => {
    const dir = at('killed');
    mkdirSync(dir);
    let isKilled = false;
    for (let tries = 0; !isKilled && tries < 5; tries++) {
      for (const { file } of listBackups(dir)) rmSync(file); // it was quicker than the signal
      const watcher = watch(dir);
      isKilled = await plantroomKilled(['backup', '--output', dir, '--passphrase-file', at('passphrase')], env, async () => void (await once(watcher, 'change')));
      watcher.close();
    }
    expect([isKilled, listBackups(dir), temps(dir)]).toEqual([true, [], [expect.stringContaining('.plantroom-backup-')]]);
    expect((await run('--output', dir)).code).toBe(0);
    expect([listBackups(dir).length, temps(dir)]).toEqual([1, []]);
  });

  it('says that there is no room when a file may not become large enough, and leaves nothing', async () => {
    const dir = at('small');
    const { code, stderr } = await plantroomInShell('ulimit -f 1024; exec "$@"', ['backup', '--output', `${dir}/`], env);
    expect([code, stderr]).toEqual([1, expect.stringMatching(/could not be (copied|written)/)]);
    expect(readdirSync(dir)).toEqual([]);
  });

  it('is what a server starts as a child, with the configuration in its variables', async () => {
    writeFileSync(at('site.yaml'), `data: {dir: ${at('data')}}\n`);
    const { config } = loadConfig({ file: false, env: { ...env, PLANTROOM_BACKUP_DIR: at('scheduled'), PLANTROOM_BACKUP_PASSPHRASE_FILE: at('passphrase') } });
    const { told, error } = await runBackupCommand({ file: process.execPath, args: [resolve('dist/main.js'), 'backup', '--rotate', '--json', '--config', at('site.yaml')], env: { PATH: process.env['PATH'], ...asVariables(config) } }, new AbortController().signal);
    expect([told?.file, error]).toEqual([listBackups(at('scheduled'))[0]?.file, '']);
    const { stdout } = await run('verify', told?.file ?? '', '--passphrase-file', at('passphrase'), '--json');
    expect(JSON.parse(stdout)).toMatchObject({ files: 2 });
  });
});

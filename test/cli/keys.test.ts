import { mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { makeProgram } from '../../src/cli/program';
import { plantroomHere } from '../support/commandInProcess';
import type { Ended } from '../support/commandLine';

type Shown = Readonly<Record<string, unknown>>;

describe('plantroom keys', () => {
  let folder: string;
  let data: readonly string[];
  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'plantroom-keys-'));
    data = ['--data-dir', join(folder, 'data')];
    for (const args of [['migrate'], ['users', 'create', '--name', 'Operator'], ['organizations', 'create', '--name', 'Site']]) expect(await plantroomHere([...args, ...data])).toMatchObject({ code: 0 });
  });
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  const keys = async (...args: string[]): Promise<Ended> => await plantroomHere(['keys', ...args, ...data]);
  const answer = async <T = Shown>(...args: string[]): Promise<T> => {
    const { code, stdout, stderr } = await keys(...args, '--json');
    expect([code, stderr]).toEqual([0, '']);
    return JSON.parse(stdout) as T;
  };

  it('creates, shows, changes, lists, rotates and revokes keys with all that they can be limited to', async () => {
    const made = await answer<{ id: string; key: string }>('create', '--name', 'Wall display', '--scopes', 'devices:read', '--note', 'By the door', '--expires-in', '90d', '--allow-from', '192.0.2.0/24,2001:DB8::1', '--admin');
    expect(made).toMatchObject({ key: expect.stringMatching(/^plr_/), note: 'By the door', allowedAddresses: ['192.0.2.0/24', '2001:db8::1'], restrictions: null, isAdmin: true });
    const { key, ...record } = made;
    expect(await answer('show', made.id)).toEqual(record);

    const changed = await answer('update', made.id, '--name', 'Door display', '--note', '', '--never-expires', '--allow-from-anywhere');
    expect(changed).toMatchObject({ name: 'Door display', note: '', expiresAt: null, allowedAddresses: [] });
    expect(await keys('update', made.id)).toMatchObject({ code: 2, stderr: expect.stringContaining('say what to change') });
    expect(await keys('update', made.id, '--unlimited', '--only-devices', 'a')).toMatchObject({ code: 2, stderr: expect.stringContaining('either --unlimited or --only-') });
    expect(await keys('update', made.id, '--allow-from', '192.0.2.300')).toMatchObject({ code: 2, stderr: expect.stringContaining('allowedAddresses[0]: "192.0.2.300" is neither an address nor a network') });
    expect(await keys('create', '--name', 'x', '--scopes', 'devices:read', '--only-devices', 'a', '--only-devices-of', 'b', '--only-commands', 'c')).toMatchObject({ code: 2, stderr: expect.stringMatching(/restrictions.deviceIds\[0\].*restrictions.connectionIds\[0\].*restrictions.commandIds\[0\]/) });

    const rotated = await answer<{ id: string; key: string }>('rotate', made.id, '--grace', '0');
    expect(rotated).toMatchObject({ name: 'Door display', rotatedFrom: made.id, isAdmin: true });
    expect(await answer('revoke', rotated.id)).toMatchObject({ revokedAt: expect.any(String) });
    expect(await keys('rotate', rotated.id)).toMatchObject({ code: 1, stderr: expect.stringContaining('was revoked or has expired') });
    const { stdout } = await keys('list');
    const lines = stdout.trim().split('\n');
    expect(lines[0]).toMatch(/^ ?id +name +prefix +state +scopes +limits +expiresAt +lastUsedAt$/);
    expect(lines.slice(1).map((line) => line.trim().split(/ {2,}/).slice(1, 6))).toEqual([
      ['Door display', rotated.key.slice(0, 10), 'revoked', 'admin, devices:read', '-'],
      ['Door display', key.slice(0, 10), 'expired', 'admin, devices:read', '-'],
    ]);
    expect(stdout).not.toContain(key.slice(0, 20));
    expect((await answer<Shown[]>('list')).map(({ id }) => id)).toEqual([rotated.id, made.id]);
  });

  it.each(['create', 'list', 'show', 'update', 'revoke', 'rotate'])('takes with %s what every command takes', async (name) => {
    const { options } = makeProgram().commands.find((group) => group.name() === 'keys')?.commands.find((command) => command.name() === name) ?? { options: [] };
    expect(options.map(({ long }) => long)).toEqual(expect.arrayContaining(['--json', '--organization', '--data-dir']));
  });

  it('writes a key to a new file that only its user can read, and then shows it nowhere', async () => {
    const file = join(folder, 'key');
    const made = await answer<{ id: string }>('create', '--name', 'Collector', '--all-scopes', '--all-connections', '--key-file', file);
    const key = readFileSync(file, 'utf8').trim();
    expect(key).toMatch(/^plr_[0-9A-Za-z]{49}$/);
    expect(statSync(file).mode & 0o777).toBe(0o600);
    expect(made).toMatchObject({ keyFile: file, prefix: key.slice(0, 10) });
    expect(made).not.toHaveProperty('key');
    const before = (await answer<unknown[]>('list')).length;
    for (const wanted of [['create', '--name', 'y', '--all-scopes', '--all-connections'], ['rotate', made.id]]) expect(await keys(...wanted, '--key-file', file)).toMatchObject({ code: 2, stderr: expect.stringContaining('there is one already') });
    expect(await keys('create', '--name', 'y', '--all-scopes', '--all-connections', '--key-file', join(folder, 'none', 'key'))).toMatchObject({ code: 2, stderr: expect.stringContaining('ENOENT') });
    expect((await answer<unknown[]>('list')).length).toBe(before);

    const next = join(folder, 'next');
    const { stdout, stderr } = await keys('rotate', made.id, '--key-file', next);
    const rotated = readFileSync(next, 'utf8').trim();
    expect(rotated).not.toBe(key);
    expect(stdout + stderr).not.toContain(rotated.slice(10));
    // A command that fails leaves no file.
    expect(await keys('create', '--name', 'y', '--scopes', 'no-such', '--key-file', join(folder, 'failed'))).toMatchObject({ code: 2 });
    expect(statSync(join(folder, 'failed'), { throwIfNoEntry: false })).toBeUndefined();
  });
});

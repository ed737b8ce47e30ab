import { mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { ApiKey } from '../../src/access';
import { toKeyRow } from '../../src/cli/people/keyShown';
import { createProgram } from '../../src/cli/program';
import { plantroomHere } from '../support/commandInProcess';
import type { Ended } from '../support/commandLine';

type Shown = Readonly<Record<string, unknown>>;

const LIMITED: ApiKey = {
  id: 'k',
  organizationId: 'o',
  ownerUserId: 'u',
  name: 'n',
  note: '',
  prefix: 'plr_abcdef',
  scopes: ['devices:read'],
  connectionIds: [],
  allConnections: false,
  restrictions: undefined,
  allowedAddresses: ['192.0.2.1'],
  rotatedFrom: '',
  isAdmin: false,
  canActAsOwner: true,
  createdAt: 0,
  updatedAt: 0,
  expiresAt: undefined,
  revokedAt: undefined,
  lastUsedAt: undefined,
  lastUsedAddress: '',
  revision: 1,
};

describe('plantroom keys', () => {
  let folder: string;
  let data: readonly string[];
  let variables: Readonly<Record<string, string>> = {};
  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'plantroom-keys-'));
    data = ['--data-dir', join(folder, 'data')];
    for (const args of [
      ['migrate'],
      ['users', 'create', '--name', 'Operator'],
      ['organizations', 'create', '--name', 'Site'],
    ])
      expect(await plantroomHere([...args, ...data])).toMatchObject({ code: 0 });
  });
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  const keys = async (...args: string[]): Promise<Ended> => await plantroomHere(['keys', ...args, ...data], variables);
  const answer = async <T = Shown>(...args: string[]): Promise<T> => {
    const { code, stdout, stderr } = await keys(...args, '--json');
    expect([code, stderr]).toEqual([0, '']);
    return JSON.parse(stdout) as T;
  };

  it('creates, shows, changes, lists, rotates and revokes keys with every restriction', async () => {
    const created = await answer<{ id: string; key: string }>(
      'create',
      '--name',
      'Wall display',
      '--scopes',
      'devices:read',
      '--note',
      'By the door',
      '--ttl',
      '90d',
      '--allow-from',
      '192.0.2.0/24,2001:DB8::1',
      '--admin',
    );
    expect(created).toMatchObject({
      key: expect.stringMatching(/^plr_/),
      note: 'By the door',
      allowedAddresses: ['192.0.2.0/24', '2001:db8::1'],
      restrictions: null,
      isAdmin: true,
    });
    const { key, ...record } = created;
    expect(await answer('show', created.id)).toEqual(record);
    expect(await answer('show', created.id.toUpperCase())).toEqual(record); // the same UUID

    const changed = await answer(
      'update',
      created.id,
      '--name',
      'Door display',
      '--note',
      '',
      '--no-expiry',
      '--allow-any-address',
    );
    expect(changed).toMatchObject({ name: 'Door display', note: '', expiresAt: null, allowedAddresses: [] });
    expect(await keys('update', created.id)).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('nothing to change'),
    });
    expect(await keys('update', created.id, '--unlimited', '--only-devices', 'a')).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('--unlimited cannot be combined with --only-'),
    });
    expect(await keys('update', created.id, '--allow-from', '192.0.2.300')).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('allowedAddresses[0]: "192.0.2.300" is neither an address nor a network'),
    });
    expect(
      await keys(
        'create',
        '--name',
        'x',
        '--scopes',
        'devices:read',
        '--only-devices',
        'a',
        '--only-connections',
        'b',
        '--only-commands',
        'c',
      ),
    ).toMatchObject({
      code: 2,
      stderr: expect.stringMatching(
        /restrictions.deviceIds\[0\].*restrictions.connectionIds\[0\].*restrictions.commandIds\[0\]/,
      ),
    });

    const rotated = await answer<{ id: string; key: string }>('rotate', created.id, '--grace', '0');
    expect(rotated).toMatchObject({ name: 'Door display', rotatedFrom: created.id, isAdmin: true });
    expect(await answer('revoke', rotated.id)).toMatchObject({ revokedAt: expect.any(String) });
    expect(await keys('rotate', rotated.id)).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('was revoked or has expired'),
    });
    const { stdout } = await keys('list');
    const lines = stdout.trim().split('\n');
    expect(lines[0]).toMatch(/^ ?id +name +prefix +state +scopes +limits +expiresAt +lastUsedAt$/);
    expect(lines.slice(1).map((line) => line.trim().split(/ {2,}/).slice(1, 6))).toEqual([
      ['Door display', rotated.key.slice(0, 10), 'revoked', 'admin, devices:read', '-'],
      ['Door display', key.slice(0, 10), 'expired', 'admin, devices:read', '-'],
    ]);
    expect(stdout).not.toContain(key.slice(0, 20));
    expect((await answer<Shown[]>('list')).map(({ id }) => id)).toEqual([rotated.id, created.id]);
  });

  it.each(['create', 'list', 'show', 'update', 'revoke', 'rotate'])(
    'accepts the common options with %s',
    async (name) => {
      const { options } = createProgram()
        .commands.find((group) => group.name() === 'keys')
        ?.commands.find((command) => command.name() === name) ?? { options: [] };
      expect(options.map(({ long }) => long)).toEqual(
        expect.arrayContaining(['--json', '--organization', '--data-dir']),
      );
    },
  );

  it('writes a key to a new file that only its user can read, and prints it nowhere else', async () => {
    const file = join(folder, 'key');
    const created = await answer<{ id: string }>(
      'create',
      '--name',
      'Collector',
      '--all-scopes',
      '--all-connections',
      '--key-file',
      file,
    );
    const key = readFileSync(file, 'utf8').trim();
    expect(key).toMatch(/^plr_[0-9A-Za-z]{49}$/);
    expect(statSync(file).mode & 0o777).toBe(0o600);
    expect(created).toMatchObject({ keyFile: file, prefix: key.slice(0, 10) });
    expect(created).not.toHaveProperty('key');
    const before = (await answer<unknown[]>('list')).length;
    for (const wanted of [
      ['create', '--name', 'y', '--all-scopes', '--all-connections'],
      ['rotate', created.id],
    ])
      expect(await keys(...wanted, '--key-file', file)).toMatchObject({
        code: 2,
        stderr: expect.stringContaining('it already exists'),
      });
    expect(
      await keys(
        'create',
        '--name',
        'y',
        '--all-scopes',
        '--all-connections',
        '--key-file',
        join(folder, 'none', 'key'),
      ),
    ).toMatchObject({ code: 2, stderr: expect.stringContaining('ENOENT') });
    expect((await answer<unknown[]>('list')).length).toBe(before);

    const next = join(folder, 'next');
    const { stdout, stderr } = await keys('rotate', created.id, '--key-file', next);
    const rotated = readFileSync(next, 'utf8').trim();
    expect(rotated).not.toBe(key);
    expect(stdout + stderr).not.toContain(rotated.slice(10));
    // A command that fails leaves no file.
    expect(
      await keys('create', '--name', 'y', '--scopes', 'no-such', '--key-file', join(folder, 'failed')),
    ).toMatchObject({ code: 2 });
    const nowhere = await plantroomHere([
      'keys',
      'create',
      '--name',
      'y',
      '--scopes',
      'devices:read',
      '--key-file',
      join(folder, 'failed'),
      '--data-dir',
      join(folder, 'never-migrated'),
    ]);
    expect(nowhere).toMatchObject({ code: 1, stderr: expect.stringContaining('there is no database in') });
    expect(statSync(join(folder, 'failed'), { throwIfNoEntry: false })).toBeUndefined();
  });

  it('records IDs only in the audit trail: both keys of a rotation, no free text as an ID, no chain for an unknown organization', async () => {
    const audit = async <T>(...args: string[]): Promise<T> =>
      JSON.parse((await plantroomHere(['audit', ...args, ...data, '--json'])).stdout) as T;
    const created = await answer<{ id: string }>('create', '--name', 'Old', '--scopes', 'devices:read');
    const rotated = await answer<{ id: string }>('rotate', created.id);
    const chains = (await audit<unknown[]>('head')).length;
    const getLastResource = async (): Promise<unknown> =>
      (await audit<Shown[]>('list', '--limit', '1'))[0]?.['resource'];
    expect(await getLastResource()).toBe(`api-keys/${created.id}/${rotated.id}`);
    const { organizationId } = await answer<{ organizationId: string }>('show', created.id);
    for (const typed of ['plr_secret', `${created.id}/plr_secret`]) {
      expect(await keys('revoke', typed, '--organization', organizationId)).toMatchObject({ code: 1 });
      expect(await getLastResource()).toBe(typed.includes('/') ? `api-keys/${created.id}` : 'api-keys');
    }
    for (const name of ['show', 'revoke', 'rotate'])
      expect(await keys(name, created.id, '--organization', 'typo')).toMatchObject({
        code: 1,
        stderr: expect.stringContaining('organization "typo" does not exist'),
      });
    expect((await audit<unknown[]>('head')).length).toBe(chains);
    expect(await plantroomHere(['audit', 'list', '--organization', 'typo', ...data])).toMatchObject({
      code: 1,
      stdout: '',
      stderr: expect.stringContaining('no audit trail of an organization "typo"'),
    });
    expect((await plantroomHere(['audit', 'list', '--organization', 'none', ...data])).code).toBe(0);
  });

  it('prints the limits of a key and the networks that may use it', async () => {
    const addresses = ['192.0.2.1', '192.0.2.2', '192.0.2.3', '192.0.2.4', '192.0.2.5'];
    await answer('create', '--name', 'Many', '--scopes', 'devices:read', '--allow-from', addresses.join(','));
    expect((await keys('list')).stdout).toContain('from 192.0.2.1, 192.0.2.2, 192.0.2.3 and 2 more');
    expect(
      toKeyRow(
        { ...LIMITED, restrictions: { deviceIds: ['1', '2'], connectionIds: ['1'], commandIds: ['1', '2', '3'] } },
        0,
      ).limits,
    ).toBe('only 2 devices, devices of 1 connection, 3 commands; from 192.0.2.1');
  });

  it('uses the organization of the environment variable if none is given, as "call" does', async () => {
    const second = JSON.parse(
      (await plantroomHere(['organizations', 'create', '--name', 'Second', ...data, '--json'])).stdout,
    ) as { id: string };
    const lists = [
      ['keys', 'list'],
      ['members', 'list'],
      ['roles', 'list'],
      ['audit', 'list'],
      ['audit', 'export'],
    ];
    for (const words of lists)
      expect([words, await plantroomHere([...words, ...data])]).toEqual([
        words,
        expect.objectContaining({ code: 1, stderr: expect.stringContaining('there are 2 organizations') }),
      ]);
    variables = { PLANTROOM_ORGANIZATION_ID: second.id };
    try {
      for (const words of lists)
        expect([words, (await plantroomHere([...words, ...data], variables)).code]).toEqual([words, 0]);
      const created = await answer<{ id: string; organizationId: string }>(
        'create',
        '--name',
        'In the second',
        '--scopes',
        'devices:read',
      );
      expect(created.organizationId).toBe(second.id);
      // The key ID identifies the organization, so the variable is not used.
      variables = { PLANTROOM_ORGANIZATION_ID: 'elsewhere' };
      expect(await answer('revoke', created.id)).toMatchObject({ id: created.id });
      variables = { PLANTROOM_ORGANIZATION_ID: '' };
      expect(await keys('list')).toMatchObject({
        code: 1,
        stderr: expect.stringContaining('there are 2 organizations'),
      });
    } finally {
      variables = {};
    }
  });
});

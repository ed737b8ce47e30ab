import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createProgram } from '../../src/cli/program';
import { plantroomHere } from '../support/commandInProcess';
import type { Ended } from '../support/commandLine';

type Shown = Readonly<Record<string, unknown>> & { readonly id: string; readonly userId: string };

describe('plantroom users, members, roles', () => {
  let folder: string;
  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'plantroom-cli-'));
    await toAnswer('migrate');
  });
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  const run = async (...args: string[]): Promise<Ended> =>
    await plantroomHere([...args, '--data-dir', join(folder, 'data')]);
  const toAnswer = async <T = Shown>(...args: string[]): Promise<T> => {
    const { code, stdout, stderr } = await run(...args, '--json');
    expect([code, stderr]).toEqual([0, '']);
    return JSON.parse(stdout) as T;
  };

  it('manage users, members and roles of an organization', async () => {
    const owner = await toAnswer('users', 'create', '--name', 'Owner', '--email', 'owner@site.example');
    const organization = await toAnswer('organizations', 'create', '--name', 'Site');
    expect(await toAnswer('members', 'list')).toMatchObject([
      { userId: owner.id, organizationId: organization.id, roleId: 'owner', email: 'owner@site.example' },
    ]);

    const role = await toAnswer('roles', 'create', '--name', 'Readers', '--scopes', 'sensors:read,devices:read');
    expect(role).toMatchObject({
      name: 'Readers',
      description: '',
      scopes: ['devices:read', 'sensors:read'],
      isSystem: false,
    });
    expect((await toAnswer<Shown[]>('roles', 'list')).map(({ id }) => id)).toEqual([
      'owner',
      'admin',
      'operator',
      'viewer',
      role.id,
    ]);
    expect(
      await toAnswer('roles', 'update', role.id, '--scopes', 'devices:read', '--description', 'for the wall'),
    ).toMatchObject({ name: 'Readers', scopes: ['devices:read'], description: 'for the wall' });

    const member = await toAnswer('members', 'add', '--name', 'Reader', '--role', role.id);
    expect(member).toMatchObject({ name: 'Reader', roleId: role.id, roleName: 'Readers', scopes: ['devices:read'] });
    const known = await toAnswer('users', 'create', '--name', 'Known');
    expect(await toAnswer('members', 'add', '--user', known.id, '--role', 'viewer')).toMatchObject({
      userId: known.id,
      roleId: 'viewer',
    });
    await toAnswer('keys', 'create', '--owner', member.userId, '--name', 'Wall', '--scopes', 'devices:read');
    expect(await run('roles', 'delete', role.id)).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('1 member has it'),
    });
    expect(await toAnswer('members', 'update', member.userId, '--role', 'operator')).toMatchObject({
      roleId: 'operator',
    });
    expect(await toAnswer('roles', 'delete', role.id)).toEqual({ id: role.id, deleted: true });
    expect(await toAnswer('members', 'remove', member.userId)).toEqual({
      userId: member.userId,
      organizationId: organization.id,
      revokedApiKeys: 1,
    });

    for (const page of ['operate.md', 'restore.md', 'clients.md']) {
      const line =
        /plantroom (keys create [^`\n]*(?:--admin|commands:execute))/.exec(
          readFileSync(join(__dirname, '..', '..', 'docs', page), 'utf8'),
        )?.[1] ?? '';
      const words = [...line.replace('--data-dir /var/lib/plantroom ', '').matchAll(/'([^']*)'|(\S+)/g)].map(
        ([, quoted, word]) => quoted ?? word ?? '',
      );
      // The organization has an owner and other members.
      expect(await toAnswer(...words)).toMatchObject({ ownerUserId: owner.id });
    }
    await toAnswer('members', 'update', known.id, '--role', 'owner');
    const two = new RegExp(
      `several owners: select the owner of the key with --owner: ${owner.id} \\(Owner\\), ${known.id} \\(Known\\)`,
    );
    expect(await run('keys', 'create', '--name', 'Lost', '--all-scopes', '--all-connections')).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(two),
    });
    expect(
      await toAnswer('keys', 'create', '--name', 'Lost', '--scopes', 'devices:read', '--owner', known.id),
    ).toMatchObject({ ownerUserId: known.id });
    await toAnswer('members', 'update', known.id, '--role', 'viewer');

    const table = await run('members', 'list');
    expect(table.stdout.split('\n')[0]).toMatch(/^ userId +name +email +roleId +roleName +createdAt$/);
    expect((await run('roles', 'list')).stdout).toMatch(/^ owner +Owner +everything.* {2}every scope$/m);
    expect(await run('members', 'remove', owner.id)).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/^plantroom: [^\n]*last owner[^\n]*\n$/),
    });
    expect(await run('members', 'update', owner.id, '--role', 'admin')).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('last owner'),
    });
    expect(await run('members', 'update', known.id, '--role', 'captain')).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('roleId: "captain" is not a role'),
    });
    expect(await run('roles', 'update', 'owner', '--name', 'Mine')).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('is a system role'),
    });
    const invalidCommands = [
      'members add --role viewer',
      'members add --user a --name b --role viewer',
      'roles update x',
      'roles create --name x --scopes ,',
      'roles create --name x --scopes devices:fly',
      `users update ${known.id}`,
      `users update ${known.id} --email nowhere`,
    ];
    for (const words of invalidCommands)
      expect(await run(...words.split(' '))).toMatchObject({
        code: 2,
        stdout: '',
        stderr: expect.stringMatching(/^plantroom: /),
      });

    expect(await toAnswer('users', 'update', known.id, '--name', 'Leaver', '--email', 'l@site.example')).toMatchObject({
      name: 'Leaver',
      email: 'l@site.example',
    });
    expect(await toAnswer('users', 'show', known.id)).toMatchObject({
      name: 'Leaver',
      removedAt: null,
      memberships: [{ organizationId: organization.id, organizationName: 'Site', roleId: 'viewer' }],
    });
    expect((await run('users', 'show', known.id)).stdout).toMatch(/^name +Leaver$[^]*organizationId[^]*Viewer/m);
    await toAnswer('keys', 'create', '--owner', known.id, '--name', 'Reader', '--scopes', 'devices:read');
    expect(await run('users', 'remove', known.id)).toMatchObject({
      code: 2,
      stdout: '',
      stderr: expect.stringMatching(/nothing was removed\. This command removes "Leaver" from "Site"/),
    });
    expect(await run('users', 'remove', known.id, '--confirm', 'leaver')).toMatchObject({ code: 2 });
    expect(await toAnswer('users', 'remove', known.id, '--confirm', 'Leaver')).toEqual({
      id: known.id,
      organizations: 1,
      revokedApiKeys: 2,
    });
    expect((await toAnswer<Shown[]>('users', 'list')).map(({ id }) => id).toSorted()).toEqual(
      [member.userId, owner.id].toSorted(),
    );
    expect(await run('users', 'remove', owner.id, '--confirm', 'Owner')).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('last owner'),
    });
    expect(await toAnswer('users', 'show', known.id)).toMatchObject({ removedAt: expect.any(String), memberships: [] });
  });

  it('record in the audit trails of the installation and the organization who created and deleted it', async () => {
    const owner = await toAnswer('users', 'create', '--name', 'Founder');
    const { id } = await toAnswer('organizations', 'create', '--name', 'Short', '--owner', owner.id);
    expect((await run('organizations', 'delete', id, '--confirm', 'other')).code).toBe(2);
    await toAnswer('organizations', 'delete', id, '--confirm', 'Short');
    const listAuditEvents = async (chain: string): Promise<unknown[]> =>
      (await toAnswer<Shown[]>('audit', 'list', '--organization', chain, '--resource', `organizations/${id}`)).map(
        ({ method, actor, outcome }) => [method, actor, outcome],
      );
    const [deleted, created] = [
      ['organizations delete', 'command_line', 'succeeded'],
      ['organizations create', 'command_line', 'succeeded'],
    ];
    expect(await listAuditEvents(id)).toEqual([deleted, created]);
    expect(await listAuditEvents('none')).toEqual([
      deleted,
      ['organizations delete', 'command_line', 'refused'],
      created,
    ]);
  });

  it('print a table as blocks on a narrow terminal, and as a table on a wide terminal or through a pipe', async () => {
    const { isTTY, columns } = process.stdout;
    const on = async (width: number | undefined, ...args: string[]): Promise<string> => {
      Object.assign(process.stdout, { isTTY: width !== undefined, columns: width });
      try {
        return (await run(...args)).stdout;
      } finally {
        Object.assign(process.stdout, { isTTY, columns });
      }
    };
    const lists = [
      ['users', 'list'],
      ['members', 'list'],
      ['roles', 'list'],
      ['organizations', 'list'],
      ['audit', 'list'],
      ['audit', 'head'],
      ['audit', 'verify'],
    ];
    for (const words of lists) {
      const narrow = await on(80, ...words);
      expect([words, narrow]).toEqual([words, expect.stringMatching(/^\w+ {2,}\S[^\n]*\n\w+ {2,}\S/)]);
      // Only a single value may exceed the width.
      for (const line of narrow.split('\n'))
        if (line.length > 80)
          expect([words, line]).toEqual([words, expect.stringMatching(/^(?:head|scopes|resource) +\S/)]);
      const table = await on(undefined, ...words);
      expect(await on(500, ...words)).toBe(table);
      expect(table.split('\n')[0]).toMatch(/^ (?:\w+ +)+\w+$/);
    }
    const events = await on(80, 'audit', 'list', '--limit', '2');
    expect(events).toMatch(
      /^sequence {2}\d+\ntime {6}\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ\nby {8}command line from [^]*\n\nsequence {2}\d+\n/,
    );
    expect(events).not.toContain('requestId');
  });

  it.each([
    'users create|list|show|update|remove',
    'members add|list|update|remove',
    'roles create|list|update|delete',
  ])('print help for %s', (text) => {
    const [group, names = ''] = text.split(' ');
    const commands = createProgram().commands.find((one) => one.name() === group)?.commands ?? [];
    expect(commands.map((one) => one.name())).toEqual(names.split('|'));
    for (const one of commands) expect(one.helpInformation()).toMatch(/--json[^]*--data-dir/);
  });
});

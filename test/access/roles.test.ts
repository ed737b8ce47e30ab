import { status } from '@grpc/grpc-js';
import { SCOPES } from '../../src/kernel/scopes';
import { engines } from '../support/engines';
import { startAccessFixture, type AccessFixture } from './accessFixture';
import { peopleCalls, type PeopleCalls } from './memberCalls';

const FOUR = ['owner', 'admin', 'operator', 'viewer'];
const MANAGER = ['organizations:read', 'organizations:write', 'devices:read', 'sensors:read'] as const;

describe.each(engines())('roles on $name', (engine) => {
  let fixture: AccessFixture;
  let people: PeopleCalls;
  /** The headers of the only key of another organization. */
  let foreign: Record<string, string>;
  beforeAll(async () => {
    fixture = await startAccessFixture(engine);
    people = peopleCalls(fixture);
    const other = await fixture.organizations.create('Other', fixture.first.user.id);
    const { key } = await fixture.keys.create(other.id, {
      ...(await buildKey()),
      scopes: ['organizations:read', 'organizations:write', 'devices:read'],
    });
    foreign = { 'x-api-key': key, 'x-organization-id': other.id };
  });
  afterAll(async () => await fixture.stop());

  const buildKey = async (): Promise<Parameters<AccessFixture['keys']['create']>[1]> => ({
    name: 'Key',
    scopes: [],
    connectionIds: [],
    allConnections: false,
    expiresAt: undefined,
    isAdmin: false,
    ownerUserId: fixture.first.user.id,
    note: '',
    restrictions: undefined,
    allowedAddresses: [],
  });

  it('are the four built-in ones and those of the organization by name, page by page', async () => {
    const { roles: four } = await people.listRoles();
    expect(four).toMatchObject([
      { id: 'owner', name: 'Owner', isSystem: true, organizationId: '', createdAt: undefined, etag: '"1"' },
      { id: 'admin' },
      { id: 'operator', scopes: expect.arrayContaining(['commands:execute']) },
      { id: 'viewer', scopes: expect.not.arrayContaining(['commands:execute']) },
    ]);
    expect(four[0]?.scopes).toEqual(SCOPES);
    expect(four.filter(({ scopes }) => scopes.includes('commands:write')).map(({ id }) => id)).toEqual([
      'owner',
      'admin',
    ]);
    for (const name of ['night shift', 'Cleaning', 'Maintenance']) await people.createRole({ name });
    await people.createRole({ name: 'Foreign' }, foreign);
    const { roles: all, nextPageToken } = await people.listRoles();
    expect(nextPageToken).toBe('');
    expect(all.map(({ name }) => name)).toEqual([
      'Owner',
      'Admin',
      'Operator',
      'Viewer',
      'Cleaning',
      'Maintenance',
      'night shift',
    ]);
    for (const pageSize of [1, 3, 4, 5]) {
      const listed: string[] = [];
      let pageToken = '';
      do {
        const page = await people.listRoles({ pageSize, pageToken });
        listed.push(...page.roles.map(({ id }) => id));
        pageToken = page.nextPageToken;
      } while (pageToken !== '');
      expect(listed).toEqual(all.map(({ id }) => id));
    }
    const { nextPageToken: token } = await people.listRoles({ pageSize: 5 });
    expect(await people.listRoles.fails({ pageToken: token }, foreign)).toMatchObject({
      code: status.INVALID_ARGUMENT,
      fields: ['pageToken'],
    });
    // A list does not start over when the last role of a page was deleted.
    await people.deleteRole({ id: all[4]?.id ?? '' });
    expect((await people.listRoles({ pageToken: token })).roles.map(({ name }) => name)).toEqual([
      'Maintenance',
      'night shift',
    ]);
  });

  it('are created, changed and deleted', async () => {
    const role = await people.createRole({
      name: ' Grid ',
      description: 'reads the grid',
      scopes: ['telemetry:read', 'devices:read'],
    });
    expect(role).toMatchObject({
      name: 'Grid',
      description: 'reads the grid',
      scopes: ['devices:read', 'telemetry:read'],
      isSystem: false,
      organizationId: fixture.first.organization.id,
      etag: '"1"',
    });
    const { id, etag } = role;
    expect(await people.updateRole({ id, etag, description: '' })).toMatchObject({
      name: 'Grid',
      description: '',
      scopes: role.scopes,
      etag: '"2"',
    });
    expect(await people.updateRole({ id, name: 'GRID', scopes: ['media:read'] })).toMatchObject({
      name: 'GRID',
      scopes: ['media:read'],
      etag: '"3"',
    });
    // changes nothing
    expect(await people.updateRole({ id, name: 'GRID', scopes: ['media:read'] })).toMatchObject({ etag: '"3"' });
    expect(await people.updateRole.fails({ id, etag, name: 'Slow' })).toMatchObject({
      code: status.ABORTED,
      reason: 'version_conflict',
      metadata: { etag: '"3"' },
    });
    for (const name of ['grid', 'OWNER', 'viewer'])
      expect(await people.createRole.fails({ name })).toMatchObject({
        code: status.ALREADY_EXISTS,
        reason: 'name_taken',
      });
    const second = await people.createRole({ name: 'Second' });
    expect(await people.updateRole.fails({ id: second.id, name: 'Grid' })).toMatchObject({ reason: 'name_taken' });
    expect(await people.updateRole.fails({ id: second.id, name: 'Admin' })).toMatchObject({ reason: 'name_taken' });
    expect(await people.createRole({ name: 'Grid' }, foreign)).toMatchObject({ name: 'Grid' });
    for (const other of [id, 'nobody']) {
      expect(await people.updateRole.fails({ id: other, name: 'Mine' }, foreign)).toMatchObject({
        code: status.NOT_FOUND,
        reason: 'role_not_found',
      });
      expect(await people.deleteRole.fails({ id: other }, foreign)).toMatchObject({
        code: status.NOT_FOUND,
        reason: 'role_not_found',
      });
    }
    await people.deleteRole({ id });
    expect(await people.deleteRole.fails({ id })).toMatchObject({ reason: 'role_not_found' });
    for (const system of FOUR) {
      expect(await people.updateRole.fails({ id: system, name: 'Mine' })).toMatchObject({
        code: status.FAILED_PRECONDITION,
        reason: 'read_only_record',
      });
      expect(await people.deleteRole.fails({ id: system })).toMatchObject({ reason: 'read_only_record' });
    }
  });

  it('hold known scopes only, within those of the caller before and after', async () => {
    expect(
      (await people.createRole.fails({ name: ' ', scopes: ['devices:read', 'devices:fly', 'x'] })).fields.toSorted(),
    ).toEqual(['name', 'scopes[1]', 'scopes[2]']);
    expect(await people.createRole.fails({ scopes: [] })).toMatchObject({
      reason: 'validation_failed',
      fields: ['scopes'],
    });
    const strong = await people.createRole({ name: 'Strong', scopes: ['devices:read', 'commands:write'] });
    expect(await people.updateRole.fails({ id: strong.id, scopes: ['devices:fly'] })).toMatchObject({
      reason: 'validation_failed',
      fields: ['scopes[0]'],
    });
    const { key } = await people.addPerson('admin', MANAGER);
    const weak = await people.createRole({ name: 'Weak', scopes: ['devices:read'] }, key);
    const refused = {
      code: status.PERMISSION_DENIED,
      reason: 'scope_escalation',
      metadata: { scopes: 'commands:write' },
    };
    expect(
      await people.createRole.fails({ name: 'Climb', scopes: ['devices:read', 'commands:write'] }, key),
    ).toMatchObject(refused);
    expect(await people.updateRole.fails({ id: weak.id, scopes: ['commands:write'] }, key)).toMatchObject(refused);
    expect(await people.updateRole.fails({ id: strong.id, scopes: ['devices:read'] }, key)).toMatchObject(refused);
    expect(await people.updateRole.fails({ id: strong.id, name: 'Renamed' }, key)).toMatchObject(refused);
    expect(await people.deleteRole.fails({ id: strong.id }, key)).toMatchObject(refused);
    await people.deleteRole({ id: weak.id }, key);
  });

  it('cannot be deleted while they are assigned, and apply to the keys of their members at once', async () => {
    const { id } = await people.createRole({ name: 'Readers', scopes: ['organizations:read'] });
    const { userId, key } = await people.addPerson(id);
    expect((await people.listRoles({}, key)).roles.length).toBeGreaterThan(4);
    expect(await people.deleteRole.fails({ id })).toMatchObject({
      code: status.FAILED_PRECONDITION,
      reason: 'role_in_use',
      metadata: { members: '1' },
      message: expect.stringContaining('1 member has it'),
    });
    await people.updateRole({ id, scopes: ['devices:read'] });
    expect(await people.listRoles.fails({}, key)).toMatchObject({
      code: status.PERMISSION_DENIED,
      reason: 'insufficient_scope',
    });
    await people.updateMember({ userId, roleId: 'viewer' });
    await people.deleteRole({ id });
    expect((await people.listRoles({}, key)).roles).toMatchObject(
      expect.arrayContaining([expect.objectContaining({ id: 'viewer' })]),
    );
  });
});

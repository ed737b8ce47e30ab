import { status } from '@grpc/grpc-js';
import { SCOPES } from '../../src/kernel/scopes';
import { engines } from '../support/engines';
import { startAccessRoom, type AccessRoom } from './accessRoom';
import { peopleCalls, type PeopleCalls } from './peopleCalls';

const FOUR = ['owner', 'admin', 'operator', 'viewer'];
const MANAGER = ['organizations:read', 'organizations:write', 'devices:read', 'sensors:read'] as const;

describe.each(engines())('roles on $name', (engine) => {
  let room: AccessRoom;
  let people: PeopleCalls;
  /** The headers of the only key of another organization. */
  let foreign: Record<string, string>;
  beforeAll(async () => {
    room = await startAccessRoom(engine);
    people = peopleCalls(room);
    const other = await room.organizations.create('Other', room.first.user.id);
    const { key } = await room.keys.create(other.id, { ...(await wanted()), scopes: ['organizations:read', 'organizations:write', 'devices:read'] });
    foreign = { 'x-api-key': key, 'x-organization-id': other.id };
  });
  afterAll(async () => await room.stop());

  const wanted = async (): Promise<Parameters<AccessRoom['keys']['create']>[1]> => ({ name: 'Key', scopes: [], connectionIds: [], allConnections: false, expiresAt: undefined, isAdmin: false, ownerUserId: room.first.user.id, note: '', restrictions: undefined, allowedAddresses: [] });

  it('are the four that every organization has, and its own by name, page by page', async () => {
    const { roles: four } = await people.listRoles();
    expect(four).toMatchObject([{ id: 'owner', name: 'Owner', isSystem: true, organizationId: '', createdAt: undefined, etag: '"1"' }, { id: 'admin' }, { id: 'operator' }, { id: 'viewer', scopes: expect.not.arrayContaining(['commands:write']) }]);
    expect(four[0]?.scopes).toEqual(SCOPES);
    for (const name of ['night shift', 'Cleaning', 'Maintenance']) await people.createRole({ name });
    await people.createRole({ name: 'Foreign' }, foreign);
    const { roles: all, nextPageToken } = await people.listRoles();
    expect(nextPageToken).toBe('');
    expect(all.map(({ name }) => name)).toEqual(['Owner', 'Admin', 'Operator', 'Viewer', 'Cleaning', 'Maintenance', 'night shift']);
    for (const pageSize of [1, 3, 4, 5]) {
      const seen: string[] = [];
      let pageToken = '';
      do {
        const page = await people.listRoles({ pageSize, pageToken });
        seen.push(...page.roles.map(({ id }) => id));
        pageToken = page.nextPageToken;
      } while (pageToken !== '');
      expect(seen).toEqual(all.map(({ id }) => id));
    }
    const { nextPageToken: token } = await people.listRoles({ pageSize: 5 });
    expect(await people.listRoles.fails({ pageToken: token }, foreign)).toMatchObject({ code: status.INVALID_ARGUMENT, fields: ['pageToken'] });
    // Nobody meets the start again where the last one of a page was deleted.
    await people.deleteRole({ id: all[4]?.id ?? '' });
    expect((await people.listRoles({ pageToken: token })).roles.map(({ name }) => name)).toEqual(['Maintenance', 'night shift']);
  });

  it('are created, changed and deleted', async () => {
    const role = await people.createRole({ name: ' Grid ', description: 'reads the grid', scopes: ['telemetry:read', 'devices:read'] });
    expect(role).toMatchObject({ name: 'Grid', description: 'reads the grid', scopes: ['devices:read', 'telemetry:read'], isSystem: false, organizationId: room.first.organization.id, etag: '"1"' });
    const { id, etag } = role;
    expect(await people.updateRole({ id, etag, description: '' })).toMatchObject({ name: 'Grid', description: '', scopes: role.scopes, etag: '"2"' });
    expect(await people.updateRole({ id, name: 'GRID', scopes: ['media:read'] })).toMatchObject({ name: 'GRID', scopes: ['media:read'], etag: '"3"' });
    expect(await people.updateRole({ id, name: 'GRID', scopes: ['media:read'] })).toMatchObject({ etag: '"3"' }); // nothing of it changes
    expect(await people.updateRole.fails({ id, etag, name: 'Slow' })).toMatchObject({ code: status.ABORTED, reason: 'changed_meanwhile', metadata: { etag: '"3"' } });
    for (const name of ['grid', 'OWNER', 'viewer']) expect(await people.createRole.fails({ name })).toMatchObject({ code: status.ALREADY_EXISTS, reason: 'name_taken' });
    const second = await people.createRole({ name: 'Second' });
    expect(await people.updateRole.fails({ id: second.id, name: 'Grid' })).toMatchObject({ reason: 'name_taken' });
    expect(await people.updateRole.fails({ id: second.id, name: 'Admin' })).toMatchObject({ reason: 'name_taken' });
    expect(await people.createRole({ name: 'Grid' }, foreign)).toMatchObject({ name: 'Grid' });
    for (const other of [id, 'nobody']) {
      expect(await people.updateRole.fails({ id: other, name: 'Mine' }, foreign)).toMatchObject({ code: status.NOT_FOUND, reason: 'role_not_found' });
      expect(await people.deleteRole.fails({ id: other }, foreign)).toMatchObject({ code: status.NOT_FOUND, reason: 'role_not_found' });
    }
    await people.deleteRole({ id });
    expect(await people.deleteRole.fails({ id })).toMatchObject({ reason: 'role_not_found' });
    for (const system of FOUR) {
      expect(await people.updateRole.fails({ id: system, name: 'Mine' })).toMatchObject({ code: status.FAILED_PRECONDITION, reason: 'system_record' });
      expect(await people.deleteRole.fails({ id: system })).toMatchObject({ reason: 'system_record' });
    }
  });

  it('hold scopes that there are, within those of the caller before and after', async () => {
    expect((await people.createRole.fails({ name: ' ', scopes: ['devices:read', 'devices:fly', 'x'] })).fields.toSorted()).toEqual(['name', 'scopes[1]', 'scopes[2]']);
    expect(await people.createRole.fails({ scopes: [] })).toMatchObject({ reason: 'validation_failed', fields: ['scopes'] });
    const strong = await people.createRole({ name: 'Strong', scopes: ['devices:read', 'commands:write'] });
    expect(await people.updateRole.fails({ id: strong.id, scopes: ['devices:fly'] })).toMatchObject({ reason: 'validation_failed', fields: ['scopes[0]'] });
    const { key } = await people.person('admin', MANAGER);
    const weak = await people.createRole({ name: 'Weak', scopes: ['devices:read'] }, key);
    const refused = { code: status.PERMISSION_DENIED, reason: 'scope_exceeds_own', metadata: { scopes: 'commands:write' } };
    expect(await people.createRole.fails({ name: 'Climb', scopes: ['devices:read', 'commands:write'] }, key)).toMatchObject(refused);
    expect(await people.updateRole.fails({ id: weak.id, scopes: ['commands:write'] }, key)).toMatchObject(refused);
    expect(await people.updateRole.fails({ id: strong.id, scopes: ['devices:read'] }, key)).toMatchObject(refused);
    expect(await people.updateRole.fails({ id: strong.id, name: 'Renamed' }, key)).toMatchObject(refused);
    expect(await people.deleteRole.fails({ id: strong.id }, key)).toMatchObject(refused);
    await people.deleteRole({ id: weak.id }, key);
  });

  it('stay while somebody has them, and count for their keys at once', async () => {
    const { id } = await people.createRole({ name: 'Readers', scopes: ['organizations:read'] });
    const { userId, key } = await people.person(id);
    expect((await people.listRoles({}, key)).roles.length).toBeGreaterThan(4);
    expect(await people.deleteRole.fails({ id })).toMatchObject({ code: status.FAILED_PRECONDITION, reason: 'role_in_use', metadata: { members: '1' }, message: expect.stringContaining('1 member has it') });
    await people.updateRole({ id, scopes: ['devices:read'] });
    expect(await people.listRoles.fails({}, key)).toMatchObject({ code: status.PERMISSION_DENIED, reason: 'scope_missing' });
    await people.updateMember({ userId, roleId: 'viewer' });
    await people.deleteRole({ id });
    expect((await people.listRoles({}, key)).roles).toMatchObject(expect.arrayContaining([expect.objectContaining({ id: 'viewer' })]));
  });
});

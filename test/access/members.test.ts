import { status } from '@grpc/grpc-js';
import { SCOPES } from '../../src/kernel/scopes';
import { MemberRepository } from '../../src/access/people/memberRepository';
import { engines } from '../support/engines';
import { planOf } from '../support/planOf';
import { startAccessRoom, type AccessRoom } from './accessRoom';
import { ALMIGHTY, peopleCalls, type PeopleCalls } from './peopleCalls';

const MANAGER = ['organizations:read', 'organizations:write', 'devices:read'] as const;

describe.each(engines())('members on $name', (engine) => {
  let room: AccessRoom;
  let people: PeopleCalls;
  let organizationId: string;
  let firstUser: string;
  beforeAll(async () => {
    room = await startAccessRoom(engine);
    people = peopleCalls(room);
    organizationId = room.first.organization.id;
    firstUser = room.first.user.id;
  });
  afterAll(async () => await room.stop());

  const ownersNow = async (): Promise<string[]> => (await room.members.list(organizationId)).filter(({ roleId }) => roleId === 'owner').map(({ userId }) => userId);

  it('begin with the owner that the first start made', async () => {
    const { members } = await people.listMembers();
    expect(members).toMatchObject([{ userId: firstUser, organizationId, name: 'Administrator', roleId: 'owner', roleName: 'Owner', etag: '"1"' }]);
    expect(await people.getMember({ userId: firstUser })).toEqual(members[0]);
  });

  it('are new people, or such that the installation knows', async () => {
    const made = await people.addMember({ name: ' Night shift ', email: ' night@site.example ', roleId: 'operator' });
    expect(made).toMatchObject({ name: 'Night shift', email: 'night@site.example', roleId: 'operator', roleName: 'Operator', etag: '"1"' });
    const known = await room.users.create('Known', '');
    const role = (await room.roles.create(ALMIGHTY, organizationId, { name: 'Reader', description: '', scopes: ['devices:read'] })).id;
    expect(await people.addMember.fails({ userId: known.id, roleId: role })).toMatchObject({ code: status.NOT_FOUND, reason: 'user_not_found' }); // who may be another organization's
    const { key: admin } = await room.key({ isAdmin: true, ownerUserId: firstUser, scopes: [...SCOPES], allConnections: true });
    expect(await people.addMember({ userId: known.id, roleId: role }, admin)).toMatchObject({ userId: known.id, name: 'Known', roleId: role, roleName: 'Reader', scopes: ['devices:read'] });
    expect(await people.addMember.fails({ userId: known.id, roleId: 'viewer' })).toMatchObject({ code: status.ALREADY_EXISTS, reason: 'already_member' });
    const removed = await room.users.create('Removed', '');
    await room.members.removeEverywhere(removed.id, 'Removed');
    for (const userId of ['nobody', 'no body', removed.id]) expect(await people.addMember.fails({ userId }, admin)).toMatchObject({ code: status.NOT_FOUND, reason: 'user_not_found' });
  });

  it.each([
    [{ roleId: 'viewer' }, ['userId']],
    [{ roleId: '', name: ' ', email: 'nowhere' }, ['email', 'name', 'roleId']],
    [{ roleId: 'captain', userId: 'somebody', name: 'Also', email: 'a@b' }, ['email', 'name', 'roleId']],
    [{ roleId: 'captain', name: 'New' }, ['roleId']],
  ])('says all that is wrong with %j', async (request, fields) => {
    const error = await people.addMember.fails(request);
    expect(error).toMatchObject({ code: status.INVALID_ARGUMENT, reason: 'validation_failed' });
    expect(error.fields.toSorted()).toEqual(fields);
  });

  it('are listed newest first, page by page, and only to their own organization', async () => {
    room.clock.advance(1000);
    for (let made = 0; made < 3; made += 1) await people.addMember({ name: `Extra ${made}` });
    const { members: all, nextPageToken: none } = await people.listMembers();
    expect([none, all.at(-1)?.userId]).toEqual(['', firstUser]);
    const seen: unknown[] = [];
    let pageToken = '';
    do {
      const page = await people.listMembers({ pageSize: 2, pageToken });
      seen.push(...page.members);
      pageToken = page.nextPageToken;
    } while (pageToken !== '');
    expect(seen).toEqual(all);
    const other = await room.organizations.create('Other', firstUser);
    const { key } = await room.keys.create(other.id, { name: 'Key', scopes: ['organizations:read', 'organizations:write'], connectionIds: [], allConnections: false, expiresAt: undefined, isAdmin: false, ownerUserId: firstUser, note: '', restrictions: undefined, allowedAddresses: [] });
    const foreign = { 'x-api-key': key, 'x-organization-id': other.id };
    expect((await people.listMembers({}, foreign)).members).toMatchObject([{ userId: firstUser, organizationId: other.id }]);
    const stranger = all[0]?.userId ?? '';
    for (const userId of [stranger, 'nobody']) {
      const refused = { code: status.NOT_FOUND, reason: 'member_not_found' };
      expect(await people.getMember.fails({ userId }, foreign)).toMatchObject(refused);
      expect(await people.updateMember.fails({ userId }, foreign)).toMatchObject(refused);
      expect(await people.removeMember.fails({ userId }, foreign)).toMatchObject(refused);
    }
    const { nextPageToken } = await people.listMembers({ pageSize: 1 });
    expect(await people.listMembers.fails({ pageToken: nextPageToken }, foreign)).toMatchObject({ fields: ['pageToken'] });
  });

  it('are read through the index of the page', async () => {
    const plan = await planOf(room.db.database, async (db) => await new MemberRepository(db).list(organizationId, { createdAt: 5, userId: 'x' }, 3));
    expect(plan).toContain('members_page');
    expect(plan).not.toMatch(/SCAN [mu]\b|Seq Scan on members|TEMP B-TREE|"Sort/);
  });

  it('get another role, which counts for their keys at once', async () => {
    const { userId, key } = await people.person('viewer', ['organizations:read']);
    const before = await people.getMember({ userId }, key);
    room.clock.advance(1000);
    const role = await room.roles.create(ALMIGHTY, organizationId, { name: 'No people', description: '', scopes: ['devices:read'] });
    const after = await people.updateMember({ userId, roleId: role.id, etag: before.etag });
    expect(after).toMatchObject({ roleId: role.id, roleName: 'No people', etag: '"2"', createdAt: before.createdAt });
    expect(after.updatedAt).not.toEqual(before.updatedAt);
    expect(await people.getMember.fails({ userId }, key)).toMatchObject({ code: status.PERMISSION_DENIED, reason: 'scope_missing' });
    expect(await people.updateMember.fails({ userId, roleId: 'admin', etag: before.etag })).toMatchObject({ code: status.ABORTED, reason: 'changed_meanwhile', metadata: { etag: '"2"' } });
    expect(await people.updateMember.fails({ userId, roleId: 'captain' })).toMatchObject({ reason: 'validation_failed', fields: ['roleId'] });
    await people.updateMember({ userId, roleId: 'viewer' });
    const told: string[] = [];
    const stop = room.authentication.onAccessChanged((id) => told.push(id));
    expect(await people.updateMember({ userId, roleId: 'viewer' })).toMatchObject({ roleId: 'viewer', etag: '"3"' }); // a role that stays is no change
    expect(told).toEqual([]);
    stop();
    expect(await people.getMember({ userId }, key)).toMatchObject({ roleId: 'viewer' });
  });

  it('get and lose only what the calling key holds itself', async () => {
    const { userId: operator } = await people.person('operator');
    const { key, userId: self } = await people.person('admin', MANAGER);
    const role = await room.roles.create(ALMIGHTY, organizationId, { name: 'Devices', description: '', scopes: ['devices:read'] });
    const refused = { code: status.PERMISSION_DENIED, reason: 'scope_exceeds_own', message: expect.stringContaining('commands:write') };
    expect(await people.addMember.fails({ name: 'New', roleId: 'operator' }, key)).toMatchObject(refused);
    expect(await people.updateMember.fails({ userId: operator, roleId: role.id }, key)).toMatchObject(refused);
    expect(await people.removeMember.fails({ userId: operator }, key)).toMatchObject(refused);
    expect(await people.removeMember.fails({ userId: self }, key)).toMatchObject(refused);
    const { userId } = await people.addMember({ name: 'New', roleId: role.id }, key);
    expect(await people.updateMember.fails({ userId, roleId: 'operator' }, key)).toMatchObject(refused);
    expect(await people.removeMember({ userId }, key)).toEqual({ revokedApiKeys: 0 });
  });

  it('are made owners, and changed as such, by owners alone', async () => {
    const { key } = await people.person('admin');
    const refused = { code: status.PERMISSION_DENIED, reason: 'owner_required' };
    const { userId } = await people.addMember({ name: 'Second' }, key);
    expect(await people.addMember.fails({ name: 'New', roleId: 'owner' }, key)).toMatchObject(refused);
    expect(await people.updateMember.fails({ userId, roleId: 'owner' }, key)).toMatchObject(refused);
    expect(await people.updateMember.fails({ userId: firstUser, roleId: 'viewer' }, key)).toMatchObject(refused);
    expect(await people.removeMember.fails({ userId: firstUser }, key)).toMatchObject(refused);
    expect(await people.updateMember({ userId, roleId: 'owner' })).toMatchObject({ roleId: 'owner' });
    expect(await people.updateMember({ userId, roleId: 'viewer' })).toMatchObject({ roleId: 'viewer' });
    expect(await people.updateMember({ userId: firstUser, roleId: 'owner' })).toMatchObject({ roleId: 'owner' });
  });

  it('keep an owner, also when two leave at once', async () => {
    expect(await ownersNow()).toEqual([firstUser]);
    const last = { code: status.FAILED_PRECONDITION, reason: 'last_owner' };
    expect(await people.removeMember.fails({ userId: firstUser })).toMatchObject(last);
    expect(await people.updateMember.fails({ userId: firstUser, roleId: 'admin' })).toMatchObject(last);
    await expect(room.members.removeEverywhere(firstUser, 'Administrator')).rejects.toMatchObject({ reason: 'last_owner' });
    for (let round = 0; round < 3; round += 1) {
      const { userId } = await room.members.add(ALMIGHTY, organizationId, { userId: '', name: 'Twin', email: '', roleId: 'owner' });
      const ends = await Promise.allSettled([room.members.remove(ALMIGHTY, organizationId, userId), room.members.update(ALMIGHTY, organizationId, firstUser, 'admin'), room.members.removeEverywhere(userId, 'Twin')]);
      expect(ends.some((end) => end.status === 'fulfilled')).toBe(true);
      expect(await ownersNow()).toHaveLength(1);
      const member = await people.getMember({ userId: firstUser });
      if (member.roleId !== 'owner') await room.members.update(ALMIGHTY, organizationId, firstUser, 'owner');
      await room.members.removeEverywhere(userId, 'Twin').catch(() => {}); // it may be gone
    }
    expect(await ownersNow()).toEqual([firstUser]);
  });

  it('have no key left, however near to the removal one was made', async () => {
    for (let round = 0; round < 4; round += 1) {
      const { userId } = await people.person('admin');
      const [key] = (await room.keys.list(organizationId)).filter(({ ownerUserId }) => ownerUserId === userId);
      const making = async (): Promise<unknown> => await room.key({ ownerUserId: userId });
      const ends = await Promise.allSettled([making(), room.keys.rotate(organizationId, key?.id ?? '', 60_000), making(), people.removeMember({ userId }), making()]);
      expect(ends[3]).toMatchObject({ status: 'fulfilled' });
      for (const end of ends) if (end.status === 'rejected') expect(['validation_failed', 'api_key_ended']).toContain((end.reason as { reason: string }).reason);
      const left = (await room.keys.list(organizationId)).filter(({ ownerUserId, revokedAt }) => ownerUserId === userId && revokedAt === undefined);
      expect(left).toEqual([]);
    }
  });

  it('lose their keys when they are removed, for good', async () => {
    const { userId, key } = await people.person('admin');
    const { key: second } = await room.key({ ownerUserId: userId, scopes: ['devices:read'] });
    const other = await room.organizations.create('Elsewhere', userId);
    const { apiKey: kept } = await room.keys.create(other.id, { name: 'Key', scopes: ['devices:read'], connectionIds: [], allConnections: false, expiresAt: undefined, isAdmin: false, ownerUserId: userId, note: '', restrictions: undefined, allowedAddresses: [] });
    await people.getMember({ userId }, key);
    expect(await people.removeMember({ userId }, key)).toEqual({ revokedApiKeys: 2 }); // a person may leave
    for (const old of [key, second]) expect(await people.listMembers.fails({}, old)).toMatchObject({ code: status.UNAUTHENTICATED, reason: 'api_key_revoked' });
    expect(await people.removeMember.fails({ userId })).toMatchObject({ reason: 'member_not_found' });
    await people.addMember({ userId, roleId: 'admin' });
    expect(await people.listMembers.fails({}, key)).toMatchObject({ reason: 'api_key_revoked' });
    expect((await room.keys.list(other.id)).find(({ id }) => id === kept.id)?.revokedAt).toBeUndefined();
  });
});

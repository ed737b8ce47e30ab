import { status } from '@grpc/grpc-js';
import { SCOPES } from '../../src/kernel/scopes';
import { MemberRepository } from '../../src/access/people/memberRepository';
import { engines } from '../support/engines';
import { getPlan } from '../support/queryPlan';
import { startAccessFixture, type AccessFixture } from './accessFixture';
import { ALL_PERMISSIONS, peopleCalls, type PeopleCalls } from './memberCalls';

const MANAGER = ['organizations:read', 'organizations:write', 'devices:read'] as const;

describe.each(engines())('members on $name', (engine) => {
  let fixture: AccessFixture;
  let people: PeopleCalls;
  let organizationId: string;
  let firstUser: string;
  beforeAll(async () => {
    fixture = await startAccessFixture(engine);
    people = peopleCalls(fixture);
    organizationId = fixture.first.organization.id;
    firstUser = fixture.first.user.id;
  });
  afterAll(async () => await fixture.stop());

  const ownersNow = async (): Promise<string[]> =>
    (await fixture.members.list(organizationId)).filter(({ roleId }) => roleId === 'owner').map(({ userId }) => userId);

  it('start with the owner that the first start created', async () => {
    const { members } = await people.listMembers();
    expect(members).toMatchObject([
      { userId: firstUser, organizationId, name: 'Administrator', roleId: 'owner', roleName: 'Owner', etag: '"1"' },
    ]);
    expect(await people.getMember({ userId: firstUser })).toEqual(members[0]);
  });

  it('are new users or users that the installation already knows', async () => {
    const added = await people.addMember({ name: ' Night shift ', email: ' night@site.example ', roleId: 'operator' });
    expect(added).toMatchObject({
      name: 'Night shift',
      email: 'night@site.example',
      roleId: 'operator',
      roleName: 'Operator',
      etag: '"1"',
    });
    const known = await fixture.users.create('Known', '');
    const role = (
      await fixture.roles.create(ALL_PERMISSIONS, organizationId, {
        name: 'Reader',
        description: '',
        scopes: ['devices:read'],
      })
    ).id;
    expect(await people.addMember.fails({ userId: known.id, roleId: role })).toMatchObject({
      code: status.NOT_FOUND,
      reason: 'user_not_found',
    }); // users who may belong to another organization
    const { key: admin } = await fixture.createKey({
      isAdmin: true,
      ownerUserId: firstUser,
      scopes: [...SCOPES],
      allConnections: true,
    });
    expect(await people.addMember({ userId: known.id, roleId: role }, admin)).toMatchObject({
      userId: known.id,
      name: 'Known',
      roleId: role,
      roleName: 'Reader',
      scopes: ['devices:read'],
    });
    expect(await people.addMember.fails({ userId: known.id, roleId: 'viewer' })).toMatchObject({
      code: status.ALREADY_EXISTS,
      reason: 'already_member',
    });
    const removed = await fixture.users.create('Removed', '');
    await fixture.members.removeEverywhere(removed.id, 'Removed');
    for (const userId of ['nobody', 'no body', removed.id])
      expect(await people.addMember.fails({ userId }, admin)).toMatchObject({
        code: status.NOT_FOUND,
        reason: 'user_not_found',
      });
  });

  it.each([
    [{ roleId: 'viewer' }, ['userId']],
    [{ roleId: '', name: ' ', email: 'nowhere' }, ['email', 'name', 'roleId']],
    [{ roleId: 'captain', userId: 'somebody', name: 'Also', email: 'a@b' }, ['email', 'name', 'roleId']],
    [{ roleId: 'captain', name: 'New' }, ['roleId']],
  ])('report all errors in %j', async (request, fields) => {
    const error = await people.addMember.fails(request);
    expect(error).toMatchObject({ code: status.INVALID_ARGUMENT, reason: 'validation_failed' });
    expect(error.fields.toSorted()).toEqual(fields);
  });

  it('are listed newest first, page by page, and only for their own organization', async () => {
    fixture.clock.advance(1000);
    for (let added = 0; added < 3; added += 1) await people.addMember({ name: `Extra ${added}` });
    const { members: all, nextPageToken: lastToken } = await people.listMembers();
    expect([lastToken, all.at(-1)?.userId]).toEqual(['', firstUser]);
    const listed: unknown[] = [];
    let pageToken = '';
    do {
      const page = await people.listMembers({ pageSize: 2, pageToken });
      listed.push(...page.members);
      pageToken = page.nextPageToken;
    } while (pageToken !== '');
    expect(listed).toEqual(all);
    const other = await fixture.organizations.create('Other', firstUser);
    const { key } = await fixture.keys.create(other.id, {
      name: 'Key',
      scopes: ['organizations:read', 'organizations:write'],
      connectionIds: [],
      allConnections: false,
      expiresAt: undefined,
      isAdmin: false,
      ownerUserId: firstUser,
      note: '',
      restrictions: undefined,
      allowedAddresses: [],
    });
    const foreign = { 'x-api-key': key, 'x-organization-id': other.id };
    expect((await people.listMembers({}, foreign)).members).toMatchObject([
      { userId: firstUser, organizationId: other.id },
    ]);
    const stranger = all[0]?.userId ?? '';
    for (const userId of [stranger, 'nobody']) {
      const refused = { code: status.NOT_FOUND, reason: 'member_not_found' };
      expect(await people.getMember.fails({ userId }, foreign)).toMatchObject(refused);
      expect(await people.updateMember.fails({ userId }, foreign)).toMatchObject(refused);
      expect(await people.removeMember.fails({ userId }, foreign)).toMatchObject(refused);
    }
    const { nextPageToken } = await people.listMembers({ pageSize: 1 });
    expect(await people.listMembers.fails({ pageToken: nextPageToken }, foreign)).toMatchObject({
      fields: ['pageToken'],
    });
  });

  it('are read through the index of the page', async () => {
    const plan = await getPlan(
      fixture.db.database,
      async (db) => await new MemberRepository(db).list(organizationId, { createdAt: 5, userId: 'x' }, 3),
    );
    expect(plan).toContain('members_page');
    expect(plan).not.toMatch(/SCAN [mu]\b|Seq Scan on members|TEMP B-TREE|"Sort/);
  });

  it('get another role, which applies to their keys at once', async () => {
    const { userId, key } = await people.addPerson('viewer', ['organizations:read']);
    const before = await people.getMember({ userId }, key);
    fixture.clock.advance(1000);
    const role = await fixture.roles.create(ALL_PERMISSIONS, organizationId, {
      name: 'No people',
      description: '',
      scopes: ['devices:read'],
    });
    const after = await people.updateMember({ userId, roleId: role.id, etag: before.etag });
    expect(after).toMatchObject({ roleId: role.id, roleName: 'No people', etag: '"2"', createdAt: before.createdAt });
    expect(after.updatedAt).not.toEqual(before.updatedAt);
    expect(await people.getMember.fails({ userId }, key)).toMatchObject({
      code: status.PERMISSION_DENIED,
      reason: 'insufficient_scope',
    });
    expect(await people.updateMember.fails({ userId, roleId: 'admin', etag: before.etag })).toMatchObject({
      code: status.ABORTED,
      reason: 'version_conflict',
      metadata: { etag: '"2"' },
    });
    expect(await people.updateMember.fails({ userId, roleId: 'captain' })).toMatchObject({
      reason: 'validation_failed',
      fields: ['roleId'],
    });
    await people.updateMember({ userId, roleId: 'viewer' });
    const changedOrganizations: string[] = [];
    const stop = fixture.authentication.invalidation.onAccessChanged((id) => changedOrganizations.push(id));
    // keeping the role is no change
    expect(await people.updateMember({ userId, roleId: 'viewer' })).toMatchObject({ roleId: 'viewer', etag: '"3"' });
    expect(changedOrganizations).toEqual([]);
    stop();
    expect(await people.getMember({ userId }, key)).toMatchObject({ roleId: 'viewer' });
  });

  it('get and lose only what the calling key holds itself', async () => {
    const { userId: operator } = await people.addPerson('operator');
    const { key, userId: self } = await people.addPerson('admin', MANAGER);
    const role = await fixture.roles.create(ALL_PERMISSIONS, organizationId, {
      name: 'Devices',
      description: '',
      scopes: ['devices:read'],
    });
    const refused = {
      code: status.PERMISSION_DENIED,
      reason: 'scope_escalation',
      message: expect.stringContaining('commands:execute'),
    };
    expect(await people.addMember.fails({ name: 'New', roleId: 'operator' }, key)).toMatchObject(refused);
    expect(await people.updateMember.fails({ userId: operator, roleId: role.id }, key)).toMatchObject(refused);
    expect(await people.removeMember.fails({ userId: operator }, key)).toMatchObject(refused);
    expect(await people.removeMember.fails({ userId: self }, key)).toMatchObject(refused);
    const { userId } = await people.addMember({ name: 'New', roleId: role.id }, key);
    expect(await people.updateMember.fails({ userId, roleId: 'operator' }, key)).toMatchObject(refused);
    expect(await people.removeMember({ userId }, key)).toEqual({ revokedApiKeys: 0 });
  });

  it('are created or changed as owners by owners only', async () => {
    const { key } = await people.addPerson('admin');
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

  it('always include an owner, also when two leave at once', async () => {
    expect(await ownersNow()).toEqual([firstUser]);
    const last = { code: status.FAILED_PRECONDITION, reason: 'last_owner_required' };
    expect(await people.removeMember.fails({ userId: firstUser })).toMatchObject(last);
    expect(await people.updateMember.fails({ userId: firstUser, roleId: 'admin' })).toMatchObject(last);
    await expect(fixture.members.removeEverywhere(firstUser, 'Administrator')).rejects.toMatchObject({
      reason: 'last_owner_required',
    });
    for (let round = 0; round < 3; round += 1) {
      const { userId } = await fixture.members.add(ALL_PERMISSIONS, organizationId, {
        userId: '',
        name: 'Twin',
        email: '',
        roleId: 'owner',
      });
      const outcomes = await Promise.allSettled([
        fixture.members.remove(ALL_PERMISSIONS, organizationId, userId),
        fixture.members.update(ALL_PERMISSIONS, organizationId, firstUser, 'admin'),
        fixture.members.removeEverywhere(userId, 'Twin'),
      ]);
      expect(outcomes.some((end) => end.status === 'fulfilled')).toBe(true);
      expect(await ownersNow()).toHaveLength(1);
      const member = await people.getMember({ userId: firstUser });
      if (member.roleId !== 'owner') await fixture.members.update(ALL_PERMISSIONS, organizationId, firstUser, 'owner');
      await fixture.members.removeEverywhere(userId, 'Twin').catch(() => {}); // the role may be missing
    }
    expect(await ownersNow()).toEqual([firstUser]);
  });

  it('have no key left, even if one was created just before the removal', async () => {
    for (let round = 0; round < 4; round += 1) {
      const { userId } = await people.addPerson('admin');
      const [key] = (await fixture.keys.list(organizationId)).filter(({ ownerUserId }) => ownerUserId === userId);
      const making = async (): Promise<unknown> => await fixture.createKey({ ownerUserId: userId });
      const outcomes = await Promise.allSettled([
        making(),
        fixture.keys.rotate(organizationId, key?.id ?? '', 60_000),
        making(),
        people.removeMember({ userId }),
        making(),
      ]);
      expect(outcomes[3]).toMatchObject({ status: 'fulfilled' });
      for (const end of outcomes)
        if (end.status === 'rejected')
          expect(['validation_failed', 'api_key_inactive']).toContain((end.reason as { reason: string }).reason);
      const left = (await fixture.keys.list(organizationId)).filter(
        ({ ownerUserId, revokedAt }) => ownerUserId === userId && revokedAt === undefined,
      );
      expect(left).toEqual([]);
    }
  });

  it('lose their keys permanently when they are removed', async () => {
    const { userId, key } = await people.addPerson('admin');
    const { key: second } = await fixture.createKey({ ownerUserId: userId, scopes: ['devices:read'] });
    const other = await fixture.organizations.create('Elsewhere', userId);
    const { apiKey: kept } = await fixture.keys.create(other.id, {
      name: 'Key',
      scopes: ['devices:read'],
      connectionIds: [],
      allConnections: false,
      expiresAt: undefined,
      isAdmin: false,
      ownerUserId: userId,
      note: '',
      restrictions: undefined,
      allowedAddresses: [],
    });
    await people.getMember({ userId }, key);
    expect(await people.removeMember({ userId }, key)).toEqual({ revokedApiKeys: 2 }); // a user may leave
    for (const old of [key, second])
      expect(await people.listMembers.fails({}, old)).toMatchObject({
        code: status.UNAUTHENTICATED,
        reason: 'api_key_revoked',
      });
    expect(await people.removeMember.fails({ userId })).toMatchObject({ reason: 'member_not_found' });
    await people.addMember({ userId, roleId: 'admin' });
    expect(await people.listMembers.fails({}, key)).toMatchObject({ reason: 'api_key_revoked' });
    expect((await fixture.keys.list(other.id)).find(({ id }) => id === kept.id)?.revokedAt).toBeUndefined();
  });
});

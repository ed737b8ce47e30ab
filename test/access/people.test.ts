import fc from 'fast-check';
import type { WhoAmIRequest, WhoAmIResponse } from '../../src/gen/organization_access_control/access_control_service';
import type { GetPersonalUserRequest, User } from '../../src/gen/userprofile/user_profile_service';
import { SCOPES } from '../../src/kernel/scopes';
import { call } from '../support/edge';
import { engines } from '../support/engines';
import { startAccessRoom, type AccessRoom } from './accessRoom';
import { ALMIGHTY, peopleCalls, type PeopleCalls } from './peopleCalls';

const SEED = 20_261_122;

describe.each(engines())('people on $name', (engine) => {
  let room: AccessRoom;
  let people: PeopleCalls;
  beforeAll(async () => {
    room = await startAccessRoom(engine);
    people = peopleCalls(room);
  });
  afterAll(async () => await room.stop());

  const personal = async (key?: string): Promise<User> => await call<GetPersonalUserRequest, User>(room.profile.getPersonalUser.bind(room.profile), { organizationId: '' }, room.as(key));
  const whoAmI = async (key?: string): Promise<WhoAmIResponse> => await call<WhoAmIRequest, WhoAmIResponse>(room.client.whoAmI.bind(room.client), { organizationId: '' }, room.as(key));

  it('see what they are in the organization of the key; with an admin key everywhere', async () => {
    const { organization, user } = room.first;
    room.clock.advance(1000);
    const other = await room.organizations.create('Other', user.id);
    const here = { organizationId: organization.id, organizationName: 'Plantroom', roleId: 'owner', roleName: 'Owner', scopes: [...SCOPES] };
    const mine = await personal();
    expect(mine).toMatchObject({ id: user.id, name: 'Administrator', memberships: [here] });
    expect(mine.memberships).toHaveLength(1);
    expect((await whoAmI()).user).toEqual(mine);
    const { key } = await room.key({ scopes: ['users:read'], isAdmin: true });
    const all = await personal(key);
    expect(all.memberships).toMatchObject([here, { organizationId: other.id, organizationName: 'Other', roleId: 'owner' }]);
    expect((await whoAmI(key)).user).toEqual(all);
  });

  it('show the role of the organization that they have', async () => {
    const role = await people.createRole({ name: 'Profile', scopes: ['users:read', 'media:read'] });
    const { key, userId } = await people.person(role.id);
    expect(await personal(key)).toMatchObject({ id: userId, memberships: [{ roleId: role.id, roleName: 'Profile', scopes: ['users:read', 'media:read'] }] });
    await people.updateRole({ id: role.id, name: 'Renamed', scopes: ['users:read'] });
    expect(await personal(key)).toMatchObject({ memberships: [{ roleName: 'Renamed', scopes: ['users:read'] }] });
  });

  it('are renamed and removed by hand', async () => {
    const { id } = await room.users.create('Leaver', 'old@site.example');
    expect(await room.users.update(id, { name: ' Left ', email: '' })).toMatchObject({ id, name: 'Left', email: '' });
    await expect(room.users.update(id, { email: 'nowhere' })).rejects.toMatchObject({ reason: 'validation_failed', violations: [{ field: 'email' }] });
    const { organization, user } = room.first;
    const second = await room.organizations.create('Second', user.id);
    for (const organizationId of [organization.id, second.id]) await room.members.add(ALMIGHTY, organizationId, { userId: id, name: undefined, email: '', roleId: 'admin' });
    const { key } = await room.key({ ownerUserId: id, scopes: ['users:read'] });
    expect(await personal(key)).toMatchObject({ name: 'Left' });
    await expect(room.members.removeEverywhere(id, 'left')).rejects.toMatchObject({ reason: 'validation_failed', violations: [{ field: 'confirm' }] });
    expect(await room.members.removeEverywhere(id, 'Left')).toEqual({ organizations: 2, revokedApiKeys: 1 });
    await expect(personal(key)).rejects.toMatchObject({ details: expect.stringContaining('revoked') });
    await expect(room.members.removeEverywhere(id, 'Left')).rejects.toMatchObject({ reason: 'user_not_found' });
    expect(await room.users.show(id)).toMatchObject({ name: 'Left', removedAt: room.clock.now(), memberships: [] });
    expect((await room.users.list()).map((one) => one.id)).not.toContain(id);
  });

  it('never get more through a caller than the caller holds, whatever it tries', async () => {
    const scopes = fc.subarray(['organizations:read', 'organizations:write', 'devices:read', 'commands:write', 'audit:read'], { minLength: 1 });
    const what = fc.constantFrom('createRole', 'updateRole', 'deleteRole', 'addMember', 'updateMember', 'removeMember');
    const steps = fc.array(fc.record({ what, scopes, at: fc.nat(20), other: fc.nat(20) }), { minLength: 5, maxLength: 12 });
    await fc.assert(fc.asyncProperty(scopes, fc.boolean(), steps, climbs), { seed: SEED, numRuns: 12 });
  });

  type Steps = readonly { readonly what: string; readonly scopes: readonly string[]; readonly at: number; readonly other: number }[];
  let named = 0;
  const names = (): number => (named += 1);

  /** A caller with these scopes tries all that. */
  async function climbs(own: readonly string[], asAdmin: boolean, tries: Steps): Promise<void> {
    const held = [...new Set([...own, 'organizations:read', 'organizations:write'])];
    const { key, userId } = await people.person(asAdmin ? 'admin' : (await people.createRole({ name: `Caller ${names()}`, scopes: held })).id, held);
    await people.person('operator');
    const first = await room.members.list(room.first.organization.id);
    const before = new Map(first.map((member) => [member.userId, member]));
    const role = (await people.createRole({ name: `Strong ${names()}`, scopes: ['audit:read', 'commands:write'] })).id;
    for (const one of tries) await attempt(one, key, [role]);
    for (const now of await room.members.list(room.first.organization.id)) {
      const was = before.get(now.userId);
      const gained = now.scopes.filter((scope) => !was?.scopes.includes(scope));
      expect(held).toEqual(expect.arrayContaining(gained));
      if (was?.roleId !== 'owner') expect(now.roleId).not.toBe('owner');
    }
    for (const was of first) {
      const now = (await room.members.list(room.first.organization.id)).find((member) => member.userId === was.userId);
      const lost = was.scopes.filter((scope) => !now?.scopes.includes(scope));
      expect(held).toEqual(expect.arrayContaining(lost));
    }
    await room.members.removeEverywhere(userId, (await room.users.show(userId)).name).catch(() => {}); // it may have left
  }

  /** One call; most are refused. */
  async function attempt({ what, scopes, at, other }: Steps[number], key: string, strong: readonly string[]): Promise<void> {
    const { members } = await people.listMembers();
    const { roles } = await people.listRoles();
    const userId = members[at % members.length]?.userId ?? '';
    const id = [...strong, ...roles.map((role) => role.id)][other % (roles.length + strong.length)] ?? '';
    const calls: Readonly<Record<string, () => Promise<unknown>>> = {
      createRole: async () => await people.createRole({ name: `Made ${names()}`, scopes: [...scopes] }, key),
      updateRole: async () => await people.updateRole({ id, scopes: [...scopes] }, key),
      deleteRole: async () => await people.deleteRole({ id }, key),
      addMember: async () => await people.addMember({ name: 'Added', roleId: id }, key),
      updateMember: async () => await people.updateMember({ userId, roleId: id }, key),
      removeMember: async () => await people.removeMember({ userId }, key),
    };
    await calls[what]?.().catch(() => {}); // a refusal is as good
  }
});

import fc from 'fast-check';
import type { Member } from '../../src/access';
import type { WhoAmIRequest, WhoAmIResponse } from '../../src/gen/organization_access_control/access_control_service';
import type { GetPersonalUserRequest, User } from '../../src/gen/userprofile/user_profile_service';
import { SCOPES } from '../../src/kernel/scopes';
import { call } from '../support/edge';
import { engines } from '../support/engines';
import { startAccessRoom, type AccessRoom } from './accessRoom';
import { ALMIGHTY, peopleCalls, type PeopleCalls } from './peopleCalls';

const SEED = 20_261_122;

/** What the one may do and the other may not. */
function missing(of: Member | undefined, from: Member | undefined): string[] {
  return (of?.scopes ?? []).filter((scope) => !from?.scopes.includes(scope));
}

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
    for (const organizationId of [organization.id, second.id]) await room.members.add({ ...ALMIGHTY, isAdmin: true }, organizationId, { userId: id, name: undefined, email: '', roleId: 'admin' });
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
    const what = fc.constantFrom('createRole', 'updateRole', 'updateRole', 'deleteRole', 'addMember', 'updateMember', 'updateMember', 'removeMember');
    const steps = fc.array(fc.record({ what, scopes, at: fc.nat(20), other: fc.nat(20) }), { minLength: 10, maxLength: 20 });
    await fc.assert(fc.asyncProperty(scopes, fc.boolean(), steps, climbs), { seed: SEED, numRuns: 8 });
  });

  type Steps = readonly { readonly what: string; readonly scopes: readonly string[]; readonly at: number; readonly other: number }[];
  let named = 0;
  const names = (): number => (named += 1);
  const membersNow = async (): Promise<Map<string, Member>> => new Map((await room.members.list(room.first.organization.id)).map((member) => [member.userId, member]));

  /** A caller with these scopes tries all that on people and roles that are weaker or stronger. */
  async function climbs(own: readonly string[], asAdmin: boolean, tries: Steps): Promise<void> {
    const held = [...new Set([...own, 'organizations:read', 'organizations:write'])];
    const made = async (name: string, scopes: readonly string[]): Promise<string> => (await people.createRole({ name: `${name} ${names()}`, scopes: [...scopes] })).id;
    const [strong, weak, mine] = [await made('Strong', ['audit:read', 'commands:write']), await made('Weak', ['organizations:read']), await made('Caller', held)];
    const caller = await people.person(asAdmin ? 'admin' : mine, held);
    const others = [await people.person(strong), await people.person(weak), await people.person('operator')];
    const before = await membersNow();
    const targets = { users: [caller, ...others].map(({ userId }) => userId), roles: [strong, weak, mine, 'owner', 'admin', 'operator'] };
    for (const one of tries) await attempt(one, caller.key, targets);
    const after = await membersNow();
    for (const userId of new Set([...before.keys(), ...after.keys()])) {
      const [was, now] = [before.get(userId), after.get(userId)];
      expect(held).toEqual(expect.arrayContaining([...missing(now, was), ...missing(was, now)])); // what was given and what was taken
      expect(now?.roleId === 'owner').toBe(was?.roleId === 'owner');
    }
  }

  /** One call; many are refused. */
  async function attempt({ what, scopes, at, other }: Steps[number], key: string, { users, roles }: { users: string[]; roles: string[] }): Promise<void> {
    const [userId = '', id = ''] = [users[at % users.length], roles[other % roles.length]];
    const calls: Readonly<Record<string, () => Promise<unknown>>> = {
      createRole: async () => roles.push((await people.createRole({ name: `Made ${names()}`, scopes: [...scopes] }, key)).id),
      updateRole: async () => await people.updateRole({ id, scopes: [...scopes] }, key),
      deleteRole: async () => await people.deleteRole({ id }, key),
      addMember: async () => users.push((await people.addMember({ name: 'Added', roleId: id }, key)).userId),
      updateMember: async () => await people.updateMember({ userId, roleId: id }, key),
      removeMember: async () => await people.removeMember({ userId }, key),
    };
    await calls[what]?.().catch(() => {}); // a refusal is as good
  }
});

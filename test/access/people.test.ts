import fc from 'fast-check';
import type { Member } from '../../src/access';
import type { WhoAmIRequest, WhoAmIResponse } from '../../src/gen/organization_access_control/access_control_service';
import type { GetPersonalUserRequest, User } from '../../src/gen/userprofile/user_profile_service';
import { SCOPES } from '../../src/kernel/scopes';
import { call } from '../support/edge';
import { engines } from '../support/engines';
import { startAccessFixture, type AccessFixture } from './accessFixture';
import { ALL_PERMISSIONS, peopleCalls, type PeopleCalls } from './memberCalls';

const SEED = 20_261_122;

/** Lists the scopes that the first member holds and the second does not. */
function findMissingScopes(of: Member | undefined, from: Member | undefined): string[] {
  return (of?.scopes ?? []).filter((scope) => !from?.scopes.includes(scope));
}

describe.each(engines())('users on $name', (engine) => {
  let fixture: AccessFixture;
  let people: PeopleCalls;
  beforeAll(async () => {
    fixture = await startAccessFixture(engine);
    people = peopleCalls(fixture);
  });
  afterAll(async () => await fixture.stop());

  const personal = async (key?: string): Promise<User> =>
    await call<GetPersonalUserRequest, User>(
      fixture.profile.getPersonalUser.bind(fixture.profile),
      { organizationId: '' },
      fixture.as(key),
    );
  const whoAmI = async (key?: string): Promise<WhoAmIResponse> =>
    await call<WhoAmIRequest, WhoAmIResponse>(
      fixture.client.whoAmI.bind(fixture.client),
      { organizationId: '' },
      fixture.as(key),
    );

  it('see their role in the organization of the key, and with an admin key everywhere', async () => {
    const { organization, user } = fixture.first;
    fixture.clock.advance(1000);
    const other = await fixture.organizations.create('Other', user.id);
    const here = {
      organizationId: organization.id,
      organizationName: 'Plantroom',
      roleId: 'owner',
      roleName: 'Owner',
      scopes: [...SCOPES],
    };
    const ownProfile = await personal();
    expect(ownProfile).toMatchObject({ id: user.id, name: 'Administrator', memberships: [here] });
    expect(ownProfile.memberships).toHaveLength(1);
    expect((await whoAmI()).user).toEqual(ownProfile);
    const { key } = await fixture.createKey({ scopes: ['users:read'], isAdmin: true });
    const all = await personal(key);
    expect(all.memberships).toMatchObject([
      here,
      { organizationId: other.id, organizationName: 'Other', roleId: 'owner' },
    ]);
    expect((await whoAmI(key)).user).toEqual(all);
  });

  it('show their role in the organization', async () => {
    const role = await people.createRole({ name: 'Profile', scopes: ['users:read', 'media:read'] });
    const { key, userId } = await people.addPerson(role.id);
    expect(await personal(key)).toMatchObject({
      id: userId,
      memberships: [{ roleId: role.id, roleName: 'Profile', scopes: ['users:read', 'media:read'] }],
    });
    await people.updateRole({ id: role.id, name: 'Renamed', scopes: ['users:read'] });
    expect(await personal(key)).toMatchObject({ memberships: [{ roleName: 'Renamed', scopes: ['users:read'] }] });
  });

  it('are renamed and removed by the command line', async () => {
    const { id } = await fixture.users.create('Leaver', 'old@site.example');
    expect(await fixture.users.update(id, { name: ' Left ', email: '' })).toMatchObject({
      id,
      name: 'Left',
      email: '',
    });
    await expect(fixture.users.update(id, { email: 'nowhere' })).rejects.toMatchObject({
      reason: 'validation_failed',
      violations: [{ field: 'email' }],
    });
    const { organization, user } = fixture.first;
    const second = await fixture.organizations.create('Second', user.id);
    for (const organizationId of [organization.id, second.id])
      await fixture.members.add({ ...ALL_PERMISSIONS, isAdmin: true }, organizationId, {
        userId: id,
        name: undefined,
        email: '',
        roleId: 'admin',
      });
    const { key } = await fixture.createKey({ ownerUserId: id, scopes: ['users:read'] });
    expect(await personal(key)).toMatchObject({ name: 'Left' });
    await expect(fixture.members.removeEverywhere(id, 'left')).rejects.toMatchObject({
      reason: 'validation_failed',
      violations: [{ field: 'confirm' }],
    });
    expect(await fixture.members.removeEverywhere(id, 'Left')).toEqual({ organizations: 2, revokedApiKeys: 1 });
    await expect(personal(key)).rejects.toMatchObject({ details: expect.stringContaining('revoked') });
    await expect(fixture.members.removeEverywhere(id, 'Left')).rejects.toMatchObject({ reason: 'user_not_found' });
    expect(await fixture.users.getWithMemberships(id)).toMatchObject({
      name: 'Left',
      removedAt: fixture.clock.now(),
      memberships: [],
    });
    expect((await fixture.users.list()).map((one) => one.id)).not.toContain(id);
  });

  it('never gain more than the caller holds, for any sequence of calls', async () => {
    const scopes = fc.subarray(
      ['organizations:read', 'organizations:write', 'devices:read', 'commands:write', 'audit:read'],
      { minLength: 1 },
    );
    const what = fc.constantFrom(
      'createRole',
      'updateRole',
      'updateRole',
      'deleteRole',
      'addMember',
      'updateMember',
      'updateMember',
      'removeMember',
    );
    const steps = fc.array(fc.record({ what, scopes, at: fc.nat(20), other: fc.nat(20) }), {
      minLength: 10,
      maxLength: 20,
    });
    await fc.assert(fc.asyncProperty(scopes, fc.boolean(), steps, tryToGainScopes), { seed: SEED, numRuns: 8 });
  });

  type Steps = readonly {
    readonly what: string;
    readonly scopes: readonly string[];
    readonly at: number;
    readonly other: number;
  }[];
  let lastNumber = 0;
  const nextNumber = (): number => (lastNumber += 1);
  const membersNow = async (): Promise<Map<string, Member>> =>
    new Map((await fixture.members.list(fixture.first.organization.id)).map((member) => [member.userId, member]));

  /** Calls all methods on users and roles that are weaker or stronger, with a caller of these scopes. */
  async function tryToGainScopes(own: readonly string[], asAdmin: boolean, tries: Steps): Promise<void> {
    const held = [...new Set([...own, 'organizations:read', 'organizations:write'])];
    const addRole = async (name: string, scopes: readonly string[]): Promise<string> =>
      (await people.createRole({ name: `${name} ${nextNumber()}`, scopes: [...scopes] })).id;
    const [strong, weak, ownRole] = [
      await addRole('Strong', ['audit:read', 'commands:write']),
      await addRole('Weak', ['organizations:read']),
      await addRole('Caller', held),
    ];
    const caller = await people.addPerson(asAdmin ? 'admin' : ownRole, held);
    const others = [await people.addPerson(strong), await people.addPerson(weak), await people.addPerson('operator')];
    const before = await membersNow();
    const targets = {
      users: [caller, ...others].map(({ userId }) => userId),
      roles: [strong, weak, ownRole, 'owner', 'admin', 'operator'],
    };
    for (const one of tries) await attempt(one, caller.key, targets);
    const after = await membersNow();
    for (const userId of new Set([...before.keys(), ...after.keys()])) {
      const [was, now] = [before.get(userId), after.get(userId)];
      // what was granted and what was revoked
      expect(held).toEqual(expect.arrayContaining([...findMissingScopes(now, was), ...findMissingScopes(was, now)]));
      expect(now?.roleId === 'owner').toBe(was?.roleId === 'owner');
    }
  }

  /** Makes one call. Many calls are rejected. */
  async function attempt(
    { what, scopes, at, other }: Steps[number],
    key: string,
    { users, roles }: { users: string[]; roles: string[] },
  ): Promise<void> {
    const [userId = '', id = ''] = [users[at % users.length], roles[other % roles.length]];
    const calls: Readonly<Record<string, () => Promise<unknown>>> = {
      createRole: async () =>
        roles.push((await people.createRole({ name: `Made ${nextNumber()}`, scopes: [...scopes] }, key)).id),
      updateRole: async () => await people.updateRole({ id, scopes: [...scopes] }, key),
      deleteRole: async () => await people.deleteRole({ id }, key),
      addMember: async () => users.push((await people.addMember({ name: 'Added', roleId: id }, key)).userId),
      updateMember: async () => await people.updateMember({ userId, roleId: id }, key),
      removeMember: async () => await people.removeMember({ userId }, key),
    };
    await calls[what]?.().catch(() => {}); // a rejection is fine too
  }
});

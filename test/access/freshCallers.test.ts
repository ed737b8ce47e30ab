import { status } from '@grpc/grpc-js';
import type { ApiKey, CreateApiKeyRequest, CreateApiKeyResponse, RevokeApiKeyRequest, RotateApiKeyRequest, RotateApiKeyResponse, UpdateApiKeyRequest } from '../../src/gen/organization_access_control/access_control_service';
import type { CreateOrganizationRequest, DeleteOrganizationRequest, DeleteOrganizationResponse, Organization } from '../../src/gen/organizations_service';
import type { Database } from '../../src/database';
import { SCOPES } from '../../src/kernel/scopes';
import { toTimestamp } from '../../src/kernel/timestamps';
import { call, callFails, MemoryLog, type SeenError } from '../support/edge';
import { engines } from '../support/engines';
import { Statements } from '../support/statements';
import { openAccess, startAccessRoom, type AccessProcess, type AccessRoom } from './accessRoom';
import { ALMIGHTY, peopleCalls, type PeopleCalls } from './peopleCalls';

const HOUR = 3_600_000;
// A key of all scopes can be limited without that of gateways alone.
const MOST = SCOPES.filter((scope) => scope !== 'gateways:write');
const OWNER_REQUIRED = { code: status.PERMISSION_DENIED, reason: 'owner_required' };
const BEYOND = { code: status.PERMISSION_DENIED, reason: 'scope_exceeds_own' };
const SCOPE_MISSING = { code: status.PERMISSION_DENIED, reason: 'scope_missing' };
const REVOKED = { code: status.UNAUTHENTICATED, reason: 'api_key_revoked' };

const wanted = (overrides: Partial<CreateApiKeyRequest>): CreateApiKeyRequest => ({ organizationId: '', name: 'Child', scopes: ['devices:read'], connectionIds: [], allConnections: false, expiresAt: undefined, note: '', restrictions: undefined, allowedAddresses: [], ownerUserId: '', ...overrides });
const change = (id: string, overrides: Partial<UpdateApiKeyRequest> = {}): UpdateApiKeyRequest => ({ id, organizationId: '', expiresAt: undefined, neverExpires: false, restrictions: undefined, allowedAddresses: undefined, ...overrides });
const rotation = (id: string): RotateApiKeyRequest => ({ id, organizationId: '', graceSeconds: 0 });
const limited = { deviceIds: ['device-1'], connectionIds: [], commandIds: [] };

describe.each(engines())('changes of access on $name', (engine) => {
  let room: AccessRoom;
  let people: PeopleCalls;
  let otherDatabase: Database;
  /** Another process on the same database: what it changes is not known to the server for as long as its clock stands still. */
  let other: AccessProcess;
  let organizationId: string;
  beforeAll(async () => {
    room = await startAccessRoom(engine);
    people = peopleCalls(room);
    otherDatabase = await room.db.open();
    other = openAccess(otherDatabase, room.clock, new MemoryLog());
    organizationId = room.first.organization.id;
  });
  afterAll(async () => {
    await other.authentication.close();
    await otherDatabase.close();
    await room.stop();
  });

  const unary = <Request, Response>(method: Parameters<typeof call<Request, Response>>[0]) => ({
    ok: async (request: Request, key: string) => await call<Request, Response>(method, request, room.as(key)),
    fails: async (request: Request, key: string): Promise<SeenError> => await callFails<Request, Response>(method, request, room.as(key)),
  });
  const calls = () => {
    const { client, organizationsClient } = room;
    return {
      create: unary<CreateApiKeyRequest, CreateApiKeyResponse>(client.createApiKey.bind(client)),
      update: unary<UpdateApiKeyRequest, ApiKey>(client.updateApiKey.bind(client)),
      revoke: unary<RevokeApiKeyRequest, ApiKey>(client.revokeApiKey.bind(client)),
      rotate: unary<RotateApiKeyRequest, RotateApiKeyResponse>(client.rotateApiKey.bind(client)),
      createOrganization: unary<CreateOrganizationRequest, Organization>(organizationsClient.createOrganization.bind(organizationsClient)),
      deleteOrganization: unary<DeleteOrganizationRequest, DeleteOrganizationResponse>(organizationsClient.deleteOrganization.bind(organizationsClient)),
    };
  };
  /** A key that the server has read just now. */
  const known = async <Key extends { readonly key: string }>(key: Key): Promise<Key> => {
    await people.listRoles({}, key.key);
    return key;
  };
  const stored = async (id: string): Promise<Awaited<ReturnType<AccessRoom['keys']['get']>>> => await room.keys.get(organizationId, id);

  it('give nobody but an owner a key of an owner, by no name and no rotation', async () => {
    const { create, update, rotate, revoke } = calls();
    const admin = await people.person('admin', MOST);
    const owner = await people.person('owner', MOST);
    const { id: ofOwner, key: secondOfOwner } = await room.key({ ownerUserId: owner.userId, scopes: MOST });
    expect(await create.fails(wanted({ ownerUserId: owner.userId }), admin.key)).toMatchObject(OWNER_REQUIRED);
    expect(await rotate.fails(rotation(ofOwner), admin.key)).toMatchObject(OWNER_REQUIRED);
    expect(await update.fails(change(ofOwner, { note: 'mine' }), admin.key)).toMatchObject(OWNER_REQUIRED);
    expect(await stored(ofOwner)).toMatchObject({ note: '', revision: 1, expiresAt: undefined });
    // What is nobody's but an admin's is open to an admin, and all of it to an owner.
    const { apiKey } = await create.ok(wanted({ ownerUserId: admin.userId }), owner.key);
    expect(await update.ok(change(apiKey?.id ?? '', { note: 'ours' }), admin.key)).toMatchObject({ note: 'ours' });
    await rotate.ok(rotation(apiKey?.id ?? ''), admin.key);
    expect((await create.ok(wanted({ ownerUserId: owner.userId }), secondOfOwner)).apiKey).toMatchObject({ ownerUserId: owner.userId });
    expect(await update.ok(change(ofOwner, { note: 'mine' }), owner.key)).toMatchObject({ note: 'mine' });
    // Whoever learns that a key has leaked ends it.
    expect((await revoke.ok({ id: ofOwner, organizationId: '' }, admin.key)).revokedAt).toBeDefined();
  });

  it('are for a key as it is now: one that was limited by another process cannot take that back', async () => {
    const { create, update, rotate, revoke } = calls();
    const one = await known(await room.key({ scopes: MOST }));
    const { id: another } = await room.key({ scopes: MOST });
    await other.keys.update(organizationId, one.id, { restrictions: limited });
    expect(await update.fails(change(one.id, { restrictions: { deviceIds: [], connectionIds: [], commandIds: [] } }), one.key)).toMatchObject(BEYOND);
    for (const refused of [await update.fails(change(another, { note: 'x' }), one.key), await rotate.fails(rotation(another), one.key), await revoke.fails({ id: another, organizationId: '' }, one.key)]) expect(refused.reason).toBe('api_key_not_found');
    const child = await create.ok(wanted({}), one.key);
    expect(child.apiKey?.restrictions).toEqual(limited);
    const rotated = await rotate.ok(rotation(one.id), one.key);
    expect(rotated.apiKey?.restrictions).toEqual(limited);
    for (const refused of [await people.addMember.fails({ name: 'New' }, (await limitedMeanwhile()).key), await people.createRole.fails({ name: 'New' }, (await limitedMeanwhile()).key)]) expect(refused).toMatchObject(SCOPE_MISSING);
  });

  const limitedMeanwhile = async (): Promise<{ id: string; key: string }> => {
    const one = await known(await room.key({ scopes: MOST }));
    await other.keys.update(organizationId, one.id, { restrictions: limited });
    return one;
  };

  it('are for its life and its addresses of now', async () => {
    const { create, update } = calls();
    const one = await known(await room.key({ scopes: MOST }));
    const end = room.clock.now() + HOUR;
    await other.keys.update(organizationId, one.id, { expiresAt: end });
    expect(await update.fails(change(one.id, { neverExpires: true }), one.key)).toMatchObject(BEYOND);
    expect((await create.ok(wanted({}), one.key)).apiKey?.expiresAt).toEqual(toTimestamp(end));
    expect((await stored(one.id)).expiresAt).toBe(end);
    const two = await known(await room.key({ scopes: MOST }));
    await other.keys.update(organizationId, two.id, { allowedAddresses: ['192.0.2.1'] });
    const refused = { code: status.PERMISSION_DENIED, reason: 'address_not_allowed' };
    expect(await update.fails(change(two.id, { allowedAddresses: { addresses: [] } }), two.key)).toMatchObject(refused);
    expect(await people.addMember.fails({ name: 'New' }, two.key)).toMatchObject(refused);
  });

  it('are refused to a key that has ended, in the words of authentication', async () => {
    const { create, update, rotate, revoke } = calls();
    const { userId } = await people.person('viewer');
    const role = await room.roles.create(ALMIGHTY, organizationId, { name: 'Unused', description: '', scopes: ['devices:read'] });
    const ended = await known(await room.key({ scopes: MOST }));
    const { id: another } = await room.key();
    await other.keys.revoke(organizationId, ended.id);
    const before = (await room.keys.list(organizationId)).length;
    const refusals = [
      await create.fails(wanted({}), ended.key),
      await update.fails(change(another, { note: 'x' }), ended.key),
      await revoke.fails({ id: another, organizationId: '' }, ended.key),
      await rotate.fails(rotation(another), ended.key),
      await people.addMember.fails({ name: 'New' }, ended.key),
      await people.updateMember.fails({ userId, roleId: 'operator' }, ended.key),
      await people.removeMember.fails({ userId }, ended.key),
      await people.createRole.fails({ name: 'New' }, ended.key),
      await people.updateRole.fails({ id: role.id, name: 'Other' }, ended.key),
      await people.deleteRole.fails({ id: role.id }, ended.key),
    ];
    for (const refused of refusals) expect(refused).toMatchObject(REVOKED);
    expect(await room.keys.list(organizationId)).toHaveLength(before);
    const removed = await people.person('admin', MOST);
    await people.listRoles({}, removed.key);
    await other.members.remove(ALMIGHTY, organizationId, removed.userId);
    expect(await create.fails(wanted({}), removed.key)).toMatchObject(REVOKED);
    expect(await people.addMember.fails({ userId: removed.userId, roleId: 'admin' }, removed.key)).toMatchObject(REVOKED);
  });

  it('are for the role of now: nobody who was made less makes himself more', async () => {
    const { create, rotate } = calls();
    const owner = await people.person('owner', MOST);
    await people.listRoles({}, owner.key);
    await other.members.update(ALMIGHTY, organizationId, owner.userId, 'admin');
    expect(await people.updateMember.fails({ userId: owner.userId, roleId: 'owner' }, owner.key)).toMatchObject(OWNER_REQUIRED);
    expect(await create.fails(wanted({ ownerUserId: room.first.user.id }), owner.key)).toMatchObject(OWNER_REQUIRED);
    expect(await rotate.fails(rotation(room.first.apiKey.id), owner.key)).toMatchObject({ code: status.PERMISSION_DENIED });
    await other.members.update(ALMIGHTY, organizationId, owner.userId, 'viewer');
    for (const refused of [await people.updateMember.fails({ userId: owner.userId, roleId: 'owner' }, owner.key), await people.addMember.fails({ name: 'New' }, owner.key), await create.fails(wanted({}), owner.key)]) expect(refused).toMatchObject(SCOPE_MISSING);
    expect(await people.getMember({ userId: owner.userId })).toMatchObject({ roleId: 'viewer' });
  });

  it('make and delete organizations with an admin key of now', async () => {
    const { createOrganization, deleteOrganization } = calls();
    const admin = await known(await room.key({ scopes: MOST, isAdmin: true }));
    const { id } = await room.organizations.create('Goes', room.first.user.id);
    const wish = { id, organizationId: '', confirmation: '', name: 'Goes' };
    const { confirmation } = await deleteOrganization.ok(wish, admin.key);
    await other.keys.revoke(organizationId, admin.id);
    const before = (await room.organizations.list()).length;
    expect(await createOrganization.fails({ name: 'New', ownerUserId: '', organizationId: '' }, admin.key)).toMatchObject(REVOKED);
    expect(await deleteOrganization.fails({ ...wish, confirmation }, admin.key)).toMatchObject(REVOKED);
    expect(await room.organizations.list()).toHaveLength(before);
  });

  it('lock the organization before keys: rotations and removals of people at once wait for each other', async () => {
    const { update, rotate, revoke } = calls();
    const one = await room.key();
    const statements = new Statements();
    const asked = [async () => await update.ok(change(one.id, { note: 'x' }), room.first.key), async () => await rotate.ok(rotation(one.id), room.first.key), async () => await revoke.ok({ id: one.id, organizationId: '' }, room.first.key), async () => await room.keys.revoke(organizationId, one.id)];
    for (const work of asked) {
      const ran = await statements.of(work);
      const [organization, key] = [/from .organizations. where/, /from .api_keys. where/].map((place) => ran.findIndex((sql) => place.test(sql))) as [number, number];
      expect(organization).toBeGreaterThanOrEqual(0);
      expect(key).toBeGreaterThan(organization);
    }
    const [first] = await statements.of(async () => await room.roles.create(ALMIGHTY, organizationId, { name: 'Locked', description: '', scopes: [] }));
    expect(first).toMatch(/from .organizations. where/);
    statements.stop();
    for (let round = 0; round < 5; round += 1) {
      const { userId } = await people.person('operator');
      const { id } = await room.key({ ownerUserId: userId });
      const [, removed] = await Promise.all([rotate.ok(rotation(id), room.first.key).catch((error: unknown) => error), people.removeMember({ userId })]);
      expect(removed.revokedApiKeys).toBeGreaterThan(0);
      expect((await room.keys.list(organizationId)).filter((key) => key.ownerUserId === userId && key.revokedAt === undefined)).toEqual([]);
    }
  });
});

import { status } from '@grpc/grpc-js';
import type {
  ApiKey,
  CreateApiKeyRequest,
  CreateApiKeyResponse,
  RevokeApiKeyRequest,
  RotateApiKeyRequest,
  RotateApiKeyResponse,
  UpdateApiKeyRequest,
} from '../../src/gen/organization_access_control/access_control_service';
import type {
  CreateOrganizationRequest,
  DeleteOrganizationRequest,
  DeleteOrganizationResponse,
  Organization,
} from '../../src/gen/organizations_service';
import type { Database } from '../../src/database';
import { SCOPES } from '../../src/kernel/scopes';
import { toTimestamp } from '../../src/kernel/timestamps';
import { call, callFails, MemoryLog, type GrpcErrorInfo } from '../support/edge';
import { engines } from '../support/engines';
import { Statements } from '../support/statements';
import { openAccess, startAccessFixture, type AccessProcess, type AccessFixture } from './accessFixture';
import { ALL_PERMISSIONS, peopleCalls, type PeopleCalls } from './memberCalls';

const HOUR = 3_600_000;
// A key with all scopes can only be limited without those of gateways.
const ALL_SCOPES = SCOPES.filter((scope) => scope !== 'gateways:write');
const OWNER_REQUIRED = { code: status.PERMISSION_DENIED, reason: 'owner_required' };
const BEYOND = { code: status.PERMISSION_DENIED, reason: 'scope_escalation' };
const SCOPE_MISSING = { code: status.PERMISSION_DENIED, reason: 'insufficient_scope' };
const REVOKED = { code: status.UNAUTHENTICATED, reason: 'api_key_revoked' };

const buildRequest = (overrides: Partial<CreateApiKeyRequest>): CreateApiKeyRequest => ({
  organizationId: '',
  name: 'Child',
  scopes: ['devices:read'],
  connectionIds: [],
  allConnections: false,
  expiresAt: undefined,
  note: '',
  restrictions: undefined,
  allowedAddresses: [],
  ownerUserId: '',
  ...overrides,
});
const change = (id: string, overrides: Partial<UpdateApiKeyRequest> = {}): UpdateApiKeyRequest => ({
  id,
  organizationId: '',
  expiresAt: undefined,
  neverExpires: false,
  restrictions: undefined,
  allowedAddresses: undefined,
  ...overrides,
});
const rotation = (id: string): RotateApiKeyRequest => ({ id, organizationId: '', graceSeconds: 0 });
const limited = { deviceIds: ['device-1'], connectionIds: [], commandIds: [] };

describe.each(engines())('access changes on $name', (engine) => {
  let fixture: AccessFixture;
  let people: PeopleCalls;
  let otherDatabase: Database;
  /**
   * Another process on the same database. The server does not see its changes while the server's clock stands still.
   */
  let other: AccessProcess;
  let organizationId: string;
  beforeAll(async () => {
    fixture = await startAccessFixture(engine);
    people = peopleCalls(fixture);
    otherDatabase = await fixture.db.open();
    other = openAccess(otherDatabase, fixture.clock, new MemoryLog());
    organizationId = fixture.first.organization.id;
  });
  afterAll(async () => {
    await other.authentication.usage.close();
    await otherDatabase.close();
    await fixture.stop();
  });

  const unary = <Request, Response>(method: Parameters<typeof call<Request, Response>>[0]) => ({
    ok: async (request: Request, key: string) => await call<Request, Response>(method, request, fixture.as(key)),
    fails: async (request: Request, key: string): Promise<GrpcErrorInfo> =>
      await callFails<Request, Response>(method, request, fixture.as(key)),
  });
  const calls = () => {
    const { client, organizationsClient } = fixture;
    return {
      create: unary<CreateApiKeyRequest, CreateApiKeyResponse>(client.createApiKey.bind(client)),
      update: unary<UpdateApiKeyRequest, ApiKey>(client.updateApiKey.bind(client)),
      revoke: unary<RevokeApiKeyRequest, ApiKey>(client.revokeApiKey.bind(client)),
      rotate: unary<RotateApiKeyRequest, RotateApiKeyResponse>(client.rotateApiKey.bind(client)),
      createOrganization: unary<CreateOrganizationRequest, Organization>(
        organizationsClient.createOrganization.bind(organizationsClient),
      ),
      deleteOrganization: unary<DeleteOrganizationRequest, DeleteOrganizationResponse>(
        organizationsClient.deleteOrganization.bind(organizationsClient),
      ),
    };
  };
  /** Authenticates a key once, so that the server has it in its cache. */
  const cacheKey = async <Key extends { readonly key: string }>(key: Key): Promise<Key> => {
    await people.listRoles({}, key.key);
    return key;
  };
  const stored = async (id: string): Promise<Awaited<ReturnType<AccessFixture['keys']['get']>>> =>
    await fixture.keys.get(organizationId, id);

  it('give a key of an owner only to owners, neither by name nor by rotation', async () => {
    const { create, update, rotate, revoke } = calls();
    const admin = await people.addPerson('admin', ALL_SCOPES);
    const owner = await people.addPerson('owner', ALL_SCOPES);
    const { id: ofOwner, key: secondOfOwner } = await fixture.createKey({
      ownerUserId: owner.userId,
      scopes: ALL_SCOPES,
    });
    expect(await create.fails(buildRequest({ ownerUserId: owner.userId }), admin.key)).toMatchObject(OWNER_REQUIRED);
    expect(await rotate.fails(rotation(ofOwner), admin.key)).toMatchObject(OWNER_REQUIRED);
    expect(await update.fails(change(ofOwner, { note: 'mine' }), admin.key)).toMatchObject(OWNER_REQUIRED);
    expect(await stored(ofOwner)).toMatchObject({ note: '', revision: 1, expiresAt: undefined });
    // A key of an admin is open to admins, and all keys are open to an owner.
    const { apiKey } = await create.ok(buildRequest({ ownerUserId: admin.userId }), owner.key);
    expect(await update.ok(change(apiKey?.id ?? '', { note: 'ours' }), admin.key)).toMatchObject({ note: 'ours' });
    await rotate.ok(rotation(apiKey?.id ?? ''), admin.key);
    expect((await create.ok(buildRequest({ ownerUserId: owner.userId }), secondOfOwner)).apiKey).toMatchObject({
      ownerUserId: owner.userId,
    });
    expect(await update.ok(change(ofOwner, { note: 'mine' }), owner.key)).toMatchObject({ note: 'mine' });
    // Any caller who learns that a key has leaked can revoke it.
    expect((await revoke.ok({ id: ofOwner, organizationId: '' }, admin.key)).revokedAt).toBeDefined();
  });

  it('use the current key: a key that another process limited cannot undo the limit', async () => {
    const { create, update, rotate, revoke } = calls();
    const one = await cacheKey(await fixture.createKey({ scopes: ALL_SCOPES }));
    const { id: another } = await fixture.createKey({ scopes: ALL_SCOPES });
    await other.keys.update(organizationId, one.id, { restrictions: limited });
    expect(
      await update.fails(
        change(one.id, { restrictions: { deviceIds: [], connectionIds: [], commandIds: [] } }),
        one.key,
      ),
    ).toMatchObject(BEYOND);
    for (const refused of [
      await update.fails(change(another, { note: 'x' }), one.key),
      await rotate.fails(rotation(another), one.key),
      await revoke.fails({ id: another, organizationId: '' }, one.key),
    ])
      expect(refused.reason).toBe('api_key_not_found');
    const child = await create.ok(buildRequest({}), one.key);
    expect(child.apiKey?.restrictions).toEqual(limited);
    const rotated = await rotate.ok(rotation(one.id), one.key);
    expect(rotated.apiKey?.restrictions).toEqual(limited);
    for (const refused of [
      await people.addMember.fails({ name: 'New' }, (await limitedMeanwhile()).key),
      await people.createRole.fails({ name: 'New' }, (await limitedMeanwhile()).key),
    ])
      expect(refused).toMatchObject(SCOPE_MISSING);
  });

  const limitedMeanwhile = async (): Promise<{ id: string; key: string }> => {
    const one = await cacheKey(await fixture.createKey({ scopes: ALL_SCOPES }));
    await other.keys.update(organizationId, one.id, { restrictions: limited });
    return one;
  };

  it('use the current expiry and addresses of the calling key', async () => {
    const { create, update } = calls();
    const one = await cacheKey(await fixture.createKey({ scopes: ALL_SCOPES }));
    const end = fixture.clock.now() + HOUR;
    await other.keys.update(organizationId, one.id, { expiresAt: end });
    expect(await update.fails(change(one.id, { neverExpires: true }), one.key)).toMatchObject(BEYOND);
    expect((await create.ok(buildRequest({}), one.key)).apiKey?.expiresAt).toEqual(toTimestamp(end));
    expect((await stored(one.id)).expiresAt).toBe(end);
    const two = await cacheKey(await fixture.createKey({ scopes: ALL_SCOPES }));
    await other.keys.update(organizationId, two.id, { allowedAddresses: ['192.0.2.1'] });
    const refused = { code: status.PERMISSION_DENIED, reason: 'address_not_allowed' };
    expect(await update.fails(change(two.id, { allowedAddresses: { addresses: [] } }), two.key)).toMatchObject(refused);
    expect(await people.addMember.fails({ name: 'New' }, two.key)).toMatchObject(refused);
  });

  it('are rejected for a revoked or expired key, with the errors of authentication', async () => {
    const { create, update, rotate, revoke } = calls();
    const { userId } = await people.addPerson('viewer');
    const role = await fixture.roles.create(ALL_PERMISSIONS, organizationId, {
      name: 'Unused',
      description: '',
      scopes: ['devices:read'],
    });
    const ended = await cacheKey(await fixture.createKey({ scopes: ALL_SCOPES }));
    const { id: another } = await fixture.createKey();
    await other.keys.revoke(organizationId, ended.id);
    const before = (await fixture.keys.list(organizationId)).length;
    const refusals = [
      await create.fails(buildRequest({}), ended.key),
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
    expect(await fixture.keys.list(organizationId)).toHaveLength(before);
    const removed = await people.addPerson('admin', ALL_SCOPES);
    await people.listRoles({}, removed.key);
    await other.members.remove(ALL_PERMISSIONS, organizationId, removed.userId);
    expect(await create.fails(buildRequest({}), removed.key)).toMatchObject(REVOKED);
    expect(await people.addMember.fails({ userId: removed.userId, roleId: 'admin' }, removed.key)).toMatchObject(
      REVOKED,
    );
  });

  it('use the current role: a demoted user cannot promote themselves', async () => {
    const { create, rotate } = calls();
    const owner = await people.addPerson('owner', ALL_SCOPES);
    await people.listRoles({}, owner.key);
    await other.members.update(ALL_PERMISSIONS, organizationId, owner.userId, 'admin');
    expect(await people.updateMember.fails({ userId: owner.userId, roleId: 'owner' }, owner.key)).toMatchObject(
      OWNER_REQUIRED,
    );
    expect(await create.fails(buildRequest({ ownerUserId: fixture.first.user.id }), owner.key)).toMatchObject(
      OWNER_REQUIRED,
    );
    expect(await rotate.fails(rotation(fixture.first.apiKey.id), owner.key)).toMatchObject({
      code: status.PERMISSION_DENIED,
    });
    await other.members.update(ALL_PERMISSIONS, organizationId, owner.userId, 'viewer');
    for (const refused of [
      await people.updateMember.fails({ userId: owner.userId, roleId: 'owner' }, owner.key),
      await people.addMember.fails({ name: 'New' }, owner.key),
      await create.fails(buildRequest({}), owner.key),
    ])
      expect(refused).toMatchObject(SCOPE_MISSING);
    expect(await people.getMember({ userId: owner.userId })).toMatchObject({ roleId: 'viewer' });
  });

  it('do not give owner power to a key that another user created for a user who later becomes an owner', async () => {
    const { create, rotate } = calls();
    const admin = await people.addPerson('admin');
    const person = await people.addPerson('admin');
    const forPerson = buildRequest({ ownerUserId: person.userId, scopes: [...SCOPES], allConnections: true });
    const own = await stored((await create.ok({ ...forPerson, ownerUserId: '' }, person.key)).apiKey?.id ?? '');
    const personKey = await create.ok(forPerson, admin.key);
    // in the name of the user, created by a caller who holds one of the user's keys
    const child = await create.ok({ ...forPerson, ownerUserId: '' }, personKey.key);
    const { id } = await fixture.createKey({ ownerUserId: person.userId, scopes: SCOPES, allConnections: true });
    const rotated = await rotate.ok(rotation(id), admin.key);
    const fromOwner = await create.ok(forPerson, fixture.first.key);
    const keptByOwner = await rotate.ok(rotation(own.id), fixture.first.key);
    expect([personKey, child, rotated, fromOwner, keptByOwner].map(({ apiKey }) => apiKey?.canActAsOwner)).toEqual([
      false,
      false,
      false,
      true,
      true,
    ]);
    await people.updateMember({ userId: person.userId, roleId: 'owner' });
    for (const { key } of [personKey, child, rotated]) {
      expect(await people.updateMember.fails({ userId: admin.userId, roleId: 'owner' }, key)).toMatchObject(
        OWNER_REQUIRED,
      );
      expect(await create.fails({ ...forPerson, ownerUserId: '' }, key)).toMatchObject(OWNER_REQUIRED);
      expect(await rotate.fails(rotation(fromOwner.apiKey?.id ?? ''), key)).toMatchObject(OWNER_REQUIRED);
      expect(await people.updateMember({ userId: admin.userId, roleId: 'admin' }, key)).toMatchObject({
        roleId: 'admin',
      }); // what an admin may do is still allowed
    }
    for (const key of [person.key, fromOwner.key, keptByOwner.key]) {
      await people.updateMember({ userId: admin.userId, roleId: 'owner' }, key);
      await people.updateMember({ userId: admin.userId, roleId: 'admin' }, key);
    }
    await people.removeMember({ userId: person.userId });
  });

  it('create and delete organizations with the current admin key', async () => {
    const { createOrganization, deleteOrganization } = calls();
    const admin = await cacheKey(await fixture.createKey({ scopes: ALL_SCOPES, isAdmin: true }));
    const { id } = await fixture.organizations.create('Goes', fixture.first.user.id);
    const deleteRequest = { id, organizationId: '', confirmation: '', name: 'Goes' };
    const { confirmation } = await deleteOrganization.ok(deleteRequest, admin.key);
    await other.keys.revoke(organizationId, admin.id);
    const before = (await fixture.organizations.list()).length;
    expect(
      await createOrganization.fails({ name: 'New', ownerUserId: '', organizationId: '' }, admin.key),
    ).toMatchObject(REVOKED);
    expect(await deleteOrganization.fails({ ...deleteRequest, confirmation }, admin.key)).toMatchObject(REVOKED);
    expect(await fixture.organizations.list()).toHaveLength(before);
  });

  it('lock the organization before keys: concurrent rotations and removals of users wait for each other', async () => {
    const { update, rotate, revoke } = calls();
    const one = await fixture.createKey();
    const statements = new Statements();
    const deletions = [
      async () => await update.ok(change(one.id, { note: 'x' }), fixture.first.key),
      async () => await rotate.ok(rotation(one.id), fixture.first.key),
      async () => await revoke.ok({ id: one.id, organizationId: '' }, fixture.first.key),
      async () => await fixture.keys.revoke(organizationId, one.id),
    ];
    for (const work of deletions) {
      const ran = await statements.of(work);
      const [organization, key] = [/from .organizations. where/, /from .api_keys. where/].map((place) =>
        ran.findIndex((sql) => place.test(sql)),
      ) as [number, number];
      expect(organization).toBeGreaterThanOrEqual(0);
      expect(key).toBeGreaterThan(organization);
    }
    const [first] = await statements.of(
      async () =>
        await fixture.roles.create(ALL_PERMISSIONS, organizationId, { name: 'Locked', description: '', scopes: [] }),
    );
    expect(first).toMatch(/from .organizations. where/);
    statements.stop();
    for (let round = 0; round < 5; round += 1) {
      const { userId } = await people.addPerson('operator');
      const { id } = await fixture.createKey({ ownerUserId: userId });
      const [, removed] = await Promise.all([
        rotate.ok(rotation(id), fixture.first.key).catch((error: unknown) => error),
        people.removeMember({ userId }),
      ]);
      expect(removed.revokedApiKeys).toBeGreaterThan(0);
      expect(
        (await fixture.keys.list(organizationId)).filter(
          (key) => key.ownerUserId === userId && key.revokedAt === undefined,
        ),
      ).toEqual([]);
    }
  });
});

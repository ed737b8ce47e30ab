import { status } from '@grpc/grpc-js';
import type {
  AccessControlServiceClient,
  ApiKey,
  CreateApiKeyRequest,
  CreateApiKeyResponse,
  ListApiKeysResponse,
  RotateApiKeyResponse,
  UpdateApiKeyRequest,
} from '../../src/gen/organization_access_control/access_control_service';
import { toTimestamp } from '../../src/kernel/timestamps';
import type { KeyFromCommandLine } from '../../src/access';
import { call, callFails, type GrpcErrorInfo } from '../support/edge';
import { engines } from '../support/engines';
import { getPlan } from '../support/queryPlan';
import { ApiKeyRepository } from '../../src/access/keys/apiKeyRepository';
import { startAccessFixture, type AccessFixture } from './accessFixture';

const HOUR = 3_600_000;
const MANAGES = ['api-keys:read', 'api-keys:write', 'devices:read'];
const limits = (deviceIds: string[] = [], connectionIds: string[] = [], commandIds: string[] = []) => ({
  deviceIds,
  connectionIds,
  commandIds,
});
const buildRequest = (overrides: Partial<CreateApiKeyRequest>): CreateApiKeyRequest => ({
  organizationId: '',
  name: 'Key',
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
const change = (id: string, overrides: Partial<UpdateApiKeyRequest>): UpdateApiKeyRequest => ({
  id,
  organizationId: '',
  neverExpires: false,
  expiresAt: undefined,
  restrictions: undefined,
  allowedAddresses: undefined,
  ...overrides,
});

describe.each(engines())('all fields of API keys over gRPC on $name', (engine) => {
  let fixture: AccessFixture;
  let client: AccessControlServiceClient;
  beforeAll(async () => {
    fixture = await startAccessFixture(engine);
    ({ client } = fixture);
  });
  afterAll(async () => await fixture.stop());

  const create = async (
    overrides: Partial<CreateApiKeyRequest>,
    key?: string,
  ): Promise<{ key: string; apiKey: ApiKey }> =>
    (await call<CreateApiKeyRequest, CreateApiKeyResponse>(
      client.createApiKey.bind(client),
      buildRequest(overrides),
      fixture.as(key),
    )) as { key: string; apiKey: ApiKey };
  const createFails = async (overrides: Partial<CreateApiKeyRequest>, key?: string): Promise<GrpcErrorInfo> =>
    await callFails(client.createApiKey.bind(client), buildRequest(overrides), fixture.as(key));
  const get = async (id: string, key?: string): Promise<ApiKey> =>
    await call(client.getApiKey.bind(client), { id, organizationId: '' }, fixture.as(key));
  const getFails = async (id: string, key?: string): Promise<GrpcErrorInfo> =>
    await callFails(client.getApiKey.bind(client), { id, organizationId: '' }, fixture.as(key));
  const update = async (id: string, overrides: Partial<UpdateApiKeyRequest>, key?: string): Promise<ApiKey> =>
    await call(client.updateApiKey.bind(client), change(id, overrides), fixture.as(key));
  const updateFails = async (
    id: string,
    overrides: Partial<UpdateApiKeyRequest>,
    key?: string,
  ): Promise<GrpcErrorInfo> =>
    await callFails(client.updateApiKey.bind(client), change(id, overrides), fixture.as(key));
  const rotate = async (
    id: string,
    graceSeconds?: number,
    key?: string,
  ): Promise<{ key: string; apiKey: ApiKey; oldApiKey: ApiKey }> =>
    (await call<{ id: string; organizationId: string; graceSeconds?: number | undefined }, RotateApiKeyResponse>(
      client.rotateApiKey.bind(client),
      { id, organizationId: '', graceSeconds },
      fixture.as(key),
    )) as { key: string; apiKey: ApiKey; oldApiKey: ApiKey };
  const rotateFails = async (id: string, key?: string): Promise<GrpcErrorInfo> =>
    await callFails(client.rotateApiKey.bind(client), { id, organizationId: '' }, fixture.as(key));
  const revokeFails = async (id: string, key?: string): Promise<GrpcErrorInfo> =>
    await callFails(client.revokeApiKey.bind(client), { id, organizationId: '' }, fixture.as(key));
  const list = async (key?: string, pageSize?: number, pageToken = ''): Promise<ListApiKeysResponse> =>
    await call(client.listApiKeys.bind(client), { organizationId: '', pageSize, pageToken }, fixture.as(key));
  const key = async (overrides: Partial<KeyFromCommandLine>): Promise<{ id: string; key: string }> =>
    await fixture.createKey({ scopes: MANAGES, ...overrides });

  const listPages = async (secret: string, pageSize: number): Promise<string[][]> => {
    const pages: string[][] = [];
    let token = '';
    do {
      const page = await list(secret, pageSize, token);
      pages.push(page.apiKeys.map(({ id }) => id));
      token = page.nextPageToken;
    } while (token !== '');
    return pages;
  };

  it('stores note, limits and addresses in normalized form', async () => {
    const { apiKey } = await create({
      note: 'By the door',
      restrictions: limits(['device-1'], ['connection-1'], ['command-1']),
      allowedAddresses: ['::ffff:192.0.2.1', '2001:DB8::/32'],
    });
    expect(apiKey).toMatchObject({
      note: 'By the door',
      restrictions: limits(['device-1'], ['connection-1'], ['command-1']),
      allowedAddresses: ['192.0.2.1', '2001:db8::/32'],
      etag: '"1"',
      rotatedFrom: '',
      isAdmin: false,
    });
    expect(await get(apiKey.id)).toEqual(apiKey);
    expect((await create({ restrictions: limits() })).apiKey.restrictions).toBeUndefined();
  });

  it('reports all errors in limits, addresses, owner and texts at once', async () => {
    const secret = fixture.first.key;
    const refused = await createFails({
      name: `for ${secret}`,
      note: secret,
      ownerUserId: 'no-such',
      restrictions: limits(['device-1', 'no-such'], ['no-such'], ['no-such']),
      allowedAddresses: ['192.0.2.1', '192.0.2.5/24', 'x'],
    });
    expect(refused).toMatchObject({ code: status.INVALID_ARGUMENT, reason: 'validation_failed' });
    expect(refused.fields.toSorted()).toEqual([
      'allowedAddresses[1]',
      'allowedAddresses[2]',
      'name',
      'note',
      'ownerUserId',
      'restrictions.commandIds[0]',
      'restrictions.connectionIds[0]',
      'restrictions.deviceIds[1]',
    ]);
    expect(JSON.stringify(refused)).not.toContain(secret.slice(4));
    expect(
      (await createFails({ scopes: ['gateways:write'], allConnections: true, restrictions: limits(['device-1']) }))
        .fields,
    ).toEqual(['restrictions']);
    expect((await createFails({ restrictions: limits([], [], ['no-such']) })).fields).toEqual([
      'restrictions.commandIds[0]',
    ]);
  });

  it('creates a key for another member, with no more than the role of that member holds', async () => {
    const other = await fixture.users.create('Lou', '');
    const refused = await createFails({ ownerUserId: other.id });
    expect(refused.violations['ownerUserId']).toContain('is not a member');
    await fixture.uow.repos.members.create(fixture.first.organization.id, {
      userId: other.id,
      roleId: 'viewer',
      at: fixture.clock.now(),
    });
    expect(
      (await createFails({ ownerUserId: other.id, scopes: ['devices:read', 'devices:write'] })).violations,
    ).toEqual({ 'scopes[1]': expect.stringContaining('Viewer, the role of the owner') });
    const issued = await create({ ownerUserId: other.id });
    expect(issued.apiKey.ownerUserId).toBe(other.id);
    expect(
      await fixture.uow.repos.apiKeys.revokeKeysOfUser(fixture.first.organization.id, other.id, fixture.clock.now()),
    ).toEqual([issued.apiKey.id]);
    expect(
      await fixture.uow.repos.apiKeys.revokeKeysOfUser(fixture.first.organization.id, other.id, fixture.clock.now()),
    ).toEqual([]);
  });

  it('copies missing limits from a limited caller, and rejects larger ones', async () => {
    const end = fixture.clock.now() + HOUR;
    const own = await key({
      restrictions: limits(['device-1', 'device-2'], ['connection-1'], ['command-1']),
      allowedAddresses: ['127.0.0.0/8', '192.0.2.0/24'],
      expiresAt: end,
    });
    const { apiKey } = await create({}, own.key);
    expect(apiKey).toMatchObject({
      restrictions: limits(['device-1', 'device-2'], ['connection-1'], ['command-1']),
      allowedAddresses: ['127.0.0.0/8', '192.0.2.0/24'],
      expiresAt: toTimestamp(end),
    });
    expect(
      (await create({ restrictions: limits(['device-2']), allowedAddresses: ['192.0.2.128/25'] }, own.key)).apiKey,
    ).toMatchObject({ restrictions: limits(['device-2'], [], ['command-1']), allowedAddresses: ['192.0.2.128/25'] });
    // The answer is the same for existing and unknown devices, except for the ID.
    for (const id of ['device-3', 'no-such'])
      expect(await createFails({ restrictions: limits([id]) }, own.key)).toMatchObject({
        code: status.PERMISSION_DENIED,
        reason: 'scope_escalation',
        message: expect.stringContaining(`device ${id}. `),
      });
    for (const overrides of [
      { restrictions: limits([], ['connection-2']) },
      { restrictions: limits([], [], ['command-2']) },
      { allowedAddresses: ['192.0.0.0/16'] },
      { allowedAddresses: ['192.0.2.1', '::1'] },
      { expiresAt: toTimestamp(end + 1) },
    ]) {
      expect(await createFails(overrides, own.key)).toMatchObject({ reason: 'scope_escalation' });
    }
    // An error in another field does not reveal what exists either.
    expect(
      (await createFails({ scopes: ['x'], restrictions: limits(['device-3', 'no-such', 'device-1']) }, own.key)).fields,
    ).toEqual(['scopes[0]']);
  });

  it('changes the given fields, once for each etag, and nothing of an inactive key', async () => {
    const { apiKey, key: secret } = await create({});
    fixture.clock.advance(1);
    const changed = await update(apiKey.id, {
      name: ' Door ',
      note: 'n',
      expiresAt: toTimestamp(fixture.clock.now() + HOUR),
      restrictions: limits(['device-1']),
      allowedAddresses: { addresses: ['127.0.0.1'] },
      etag: apiKey.etag,
    });
    expect(changed).toMatchObject({
      name: 'Door',
      note: 'n',
      restrictions: limits(['device-1']),
      allowedAddresses: ['127.0.0.1'],
      etag: '"2"',
      updatedAt: toTimestamp(fixture.clock.now()),
    });
    expect(await updateFails(apiKey.id, { name: 'Late', etag: apiKey.etag })).toMatchObject({
      code: status.ABORTED,
      reason: 'version_conflict',
    });
    expect(await update(apiKey.id, {})).toEqual(changed);
    expect(
      await update(apiKey.id, { neverExpires: true, restrictions: limits(), allowedAddresses: { addresses: [] } }),
    ).toMatchObject({ name: 'Door', expiresAt: undefined, restrictions: undefined, allowedAddresses: [], etag: '"3"' });
    expect(
      (
        await updateFails(apiKey.id, {
          name: ' ',
          note: secret,
          neverExpires: true,
          expiresAt: toTimestamp(1),
          restrictions: limits(['no-such']),
          allowedAddresses: { addresses: ['x'] },
        })
      ).fields.toSorted(),
    ).toEqual([
      'allowedAddresses.addresses[0]',
      'expiresAt',
      'name',
      'neverExpires',
      'note',
      'restrictions.deviceIds[0]',
    ]);
    expect((await updateFails(apiKey.id, { restrictions: limits(['no-such']) })).fields).toEqual([
      'restrictions.deviceIds[0]',
    ]);
    const gateway = await create({ scopes: ['gateways:write'], allConnections: true });
    expect((await updateFails(gateway.apiKey.id, { restrictions: limits(['device-1']) })).fields).toEqual([
      'restrictions',
    ]);

    await update(apiKey.id, { expiresAt: toTimestamp(fixture.clock.now() + 1) });
    fixture.clock.advance(1);
    expect(await updateFails(apiKey.id, { neverExpires: true })).toMatchObject({
      code: status.FAILED_PRECONDITION,
      reason: 'api_key_inactive',
    });
    expect((await rotateFails(apiKey.id)).reason).toBe('api_key_inactive');
    expect((await updateFails('no-such', { name: 'x' })).reason).toBe('api_key_not_found');
  });

  it('applies a change at once', async () => {
    const { apiKey, key: secret } = await create({});
    const whoAmI = client.whoAmI.bind(client);
    await call(whoAmI, { organizationId: '' }, fixture.as(secret));
    await update(apiKey.id, { allowedAddresses: { addresses: ['192.0.2.1'] } });
    expect(await callFails(whoAmI, { organizationId: '' }, fixture.as(secret))).toMatchObject({
      reason: 'address_not_allowed',
    });
  });

  it('rotates a key, also when it calls for itself, and the old one expires after its grace period', async () => {
    const old = await key({ name: 'Rotating', restrictions: limits(['device-1']), allowedAddresses: ['127.0.0.0/8'] });
    const next = await rotate(old.id, undefined, old.key);
    expect(next.apiKey).toMatchObject({
      name: 'Rotating',
      restrictions: limits(['device-1']),
      allowedAddresses: ['127.0.0.0/8'],
      rotatedFrom: old.id,
      expiresAt: undefined,
    });
    expect(next.oldApiKey).toMatchObject({
      id: old.id,
      expiresAt: toTimestamp(fixture.clock.now() + 24 * HOUR),
      etag: '"2"',
    });
    const last = await rotate(old.id, 3 * 86_400, next.key);
    expect(last.oldApiKey.expiresAt).toEqual(next.oldApiKey.expiresAt);
    expect(last.apiKey.expiresAt).toEqual(toTimestamp(fixture.clock.now() + 24 * HOUR));
    await rotate(old.id, 0, next.key);
    expect(await callFails(client.whoAmI.bind(client), { organizationId: '' }, fixture.as(old.key))).toMatchObject({
      reason: 'api_key_expired',
    });
  });

  it('never grants the power of an admin key over the API', async () => {
    const admin = await key({ isAdmin: true });
    for (const caller of [undefined, admin.key])
      expect(await rotateFails(admin.id, caller)).toMatchObject({
        code: status.PERMISSION_DENIED,
        reason: 'scope_escalation',
      });
    expect((await updateFails(admin.id, { neverExpires: true })).message).toContain('the complete installation');
    expect((await update(admin.id, { note: 'mine' }, admin.key)).note).toBe('mine');
    expect((await create({}, admin.key)).apiKey.isAdmin).toBe(false);
  });

  it('lists for a restricted key only keys that can do no more than itself, on full pages, without a trace of others', async () => {
    const own = await key({ restrictions: limits(['device-1', 'device-2']) });
    const inside: string[] = [own.id];
    const outside: string[] = [];
    for (let n = 0; n < 12; n += 1) {
      outside.push(
        (await create({ scopes: ['devices:read'], restrictions: n % 2 === 0 ? limits(['device-3']) : undefined }))
          .apiKey.id,
      );
      for (let m = 0; m < 3; m += 1)
        outside.push(
          (await create({ scopes: ['devices:read', 'devices:write'], restrictions: limits(['device-1']) })).apiKey.id,
        );
      inside.unshift((await create({ restrictions: limits([n % 2 === 0 ? 'device-1' : 'device-2']) })).apiKey.id);
    }
    const pages = await listPages(own.key, 4);
    const found = pages.flat();
    expect(found.filter((id) => inside.includes(id))).toEqual(inside);
    expect(found.some((id) => outside.includes(id))).toBe(false);
    expect(pages.slice(0, -1).every((page) => page.length === 4)).toBe(true);
    expect((await get(inside[0] ?? '', own.key)).id).toBe(inside[0]);
    const unknown = await getFails('no-such', own.key);
    const [hidden = ''] = outside;
    for (const refused of [
      await getFails(hidden, own.key),
      await updateFails(hidden, { name: 'x', etag: '"9"' }, own.key),
      await revokeFails(hidden, own.key),
      await rotateFails(hidden, own.key),
    ]) {
      expect([refused.code, refused.reason, refused.message.replace(hidden, 'no-such')]).toEqual([
        unknown.code,
        unknown.reason,
        unknown.message,
      ]);
    }
    expect((await get(hidden)).revokedAt).toBeUndefined();
    for (const overrides of [{ restrictions: limits() }, { restrictions: limits(['device-3']) }])
      expect((await updateFails(own.id, overrides, own.key)).reason).toBe('scope_escalation');
    expect((await update(own.id, { restrictions: limits(['device-2']) }, own.key)).restrictions).toEqual(
      limits(['device-2']),
    );
    expect((await getFails(inside[inside.length - 2] ?? '', own.key)).reason).toBe('api_key_not_found');
  });

  it('does not change or rotate a key that can do more than a caller that sees it', async () => {
    const small = await key({ scopes: ['api-keys:read', 'api-keys:write'] });
    const { apiKey } = await create({ scopes: ['devices:read'] });
    expect(await updateFails(apiKey.id, { name: 'x' }, small.key)).toMatchObject({
      code: status.PERMISSION_DENIED,
      reason: 'scope_escalation',
    });
    expect((await rotateFails(apiKey.id, small.key)).reason).toBe('scope_escalation');
    expect((await get(apiKey.id, small.key)).id).toBe(apiKey.id);
  });

  it('reads pages and the keys of a user by an index', async () => {
    const organizationId = fixture.first.organization.id;
    const plan = await getPlan(
      fixture.db.database,
      async (db) => await new ApiKeyRepository(db).list(organizationId, { createdAt: 1, id: 'x' }, 51),
    );
    expect(plan).toContain('api_keys_page');
    expect(plan).not.toMatch(/TEMP B-TREE|Sort/);
    expect(
      await getPlan(
        fixture.db.database,
        async (db) => await new ApiKeyRepository(db).revokeKeysOfUser(organizationId, 'someone', 1),
      ),
    ).toContain('api_keys_owner');
  });
});

import { status } from '@grpc/grpc-js';
import type {
  ApiKey,
  CreateApiKeyRequest,
  CreateApiKeyResponse,
  ListApiKeysRequest,
  ListApiKeysResponse,
  RevokeApiKeyRequest,
  WhoAmIRequest,
  WhoAmIResponse,
} from '../../src/gen/organization_access_control/access_control_service';
import type { GetPersonalUserRequest, User } from '../../src/gen/userprofile/user_profile_service';
import { SCOPES } from '../../src/kernel/scopes';
import { toTimestamp } from '../../src/kernel/timestamps';
import { call, callFails, type GrpcErrorInfo } from '../support/edge';
import { engines } from '../support/engines';
import { startAccessFixture, type AccessFixture } from './accessFixture';

const HOUR = 3_600_000;

const buildRequest = (overrides: Partial<CreateApiKeyRequest> = {}): CreateApiKeyRequest => ({
  organizationId: '',
  name: 'Wall display',
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

describe.each(engines())('API keys over gRPC on $name', (engine) => {
  let fixture: AccessFixture;
  beforeAll(async () => {
    fixture = await startAccessFixture(engine);
  });
  afterAll(async () => await fixture.stop());

  const create = async (
    overrides?: Partial<CreateApiKeyRequest>,
    key?: string,
  ): Promise<CreateApiKeyResponse & { apiKey: ApiKey }> => {
    const created = await call<CreateApiKeyRequest, CreateApiKeyResponse>(
      fixture.client.createApiKey.bind(fixture.client),
      buildRequest(overrides),
      fixture.as(key),
    );
    return created as CreateApiKeyResponse & { apiKey: ApiKey };
  };
  const createFails = async (overrides?: Partial<CreateApiKeyRequest>, key?: string): Promise<GrpcErrorInfo> =>
    await callFails(fixture.client.createApiKey.bind(fixture.client), buildRequest(overrides), fixture.as(key));
  const list = async (request: Partial<ListApiKeysRequest> = {}): Promise<ListApiKeysResponse> =>
    await call<ListApiKeysRequest, ListApiKeysResponse>(
      fixture.client.listApiKeys.bind(fixture.client),
      { organizationId: '', pageToken: '', ...request },
      fixture.as(),
    );
  const revoke = async (id: string, key?: string): Promise<ApiKey> =>
    await call<RevokeApiKeyRequest, ApiKey>(
      fixture.client.revokeApiKey.bind(fixture.client),
      { id, organizationId: '' },
      fixture.as(key),
    );
  const whoAmI = async (key?: string): Promise<WhoAmIResponse> =>
    await call<WhoAmIRequest, WhoAmIResponse>(
      fixture.client.whoAmI.bind(fixture.client),
      { organizationId: '' },
      fixture.as(key),
    );

  it('returns the calling key, for any scope', async () => {
    const { key } = await fixture.createKey({ name: 'Only telemetry', scopes: ['telemetry:read'] });
    const answer = await whoAmI(key);
    expect(answer).toMatchObject({
      organizationName: 'Plantroom',
      user: { name: 'Administrator', email: '' },
      apiKey: {
        name: 'Only telemetry',
        scopes: ['telemetry:read'],
        prefix: key.slice(0, 10),
        organizationId: fixture.first.organization.id,
      },
    });
  });

  it('returns the owner of a key to keys with users:read', async () => {
    const { key } = await fixture.createKey({ scopes: ['users:read'] });
    const get = fixture.profile.getPersonalUser.bind(fixture.profile);
    expect(await call<GetPersonalUserRequest, User>(get, { organizationId: '' }, fixture.as(key))).toMatchObject({
      id: fixture.first.user.id,
      name: 'Administrator',
    });
  });

  it('creates a key that works, and shows it only once', async () => {
    const { key, apiKey } = await create({ name: '  Wall display ' });
    const expected = {
      name: 'Wall display',
      prefix: key.slice(0, 10),
      ownerUserId: fixture.first.user.id,
      expiresAt: undefined,
      revokedAt: undefined,
      lastUsedAt: undefined,
      lastUsedAddress: '',
    };
    expect(apiKey).toMatchObject(expected);
    expect((await whoAmI(key)).apiKey).toEqual(apiKey);
    const page = await list();
    expect(page.apiKeys).toContainEqual(apiKey);
    expect(JSON.stringify(page)).not.toContain(key.slice(0, 20));
  });

  it('never grants more scopes than the caller holds', async () => {
    const { key } = await fixture.createKey({ scopes: ['api-keys:write', 'devices:read'] });
    expect((await create({}, key)).apiKey.scopes).toEqual(['devices:read']);
    const refused = await createFails({ scopes: ['devices:read', 'devices:write'] }, key);
    expect(refused).toMatchObject({ code: status.PERMISSION_DENIED, reason: 'scope_escalation' });
    expect(refused.message).toContain('devices:write');
  });

  it('never grants more connections than the caller holds', async () => {
    const scopes = ['api-keys:write', 'gateways:write'];
    const { key } = await fixture.createKey({ scopes, connectionIds: ['connection-1'] });
    expect(
      (await create({ scopes: ['gateways:write'], connectionIds: ['connection-1'] }, key)).apiKey.connectionIds,
    ).toEqual(['connection-1']);
    expect((await createFails({ scopes: ['gateways:write'], connectionIds: ['connection-2'] }, key)).reason).toBe(
      'scope_escalation',
    );
    expect((await createFails({ scopes: ['gateways:write'], allConnections: true }, key)).reason).toBe(
      'scope_escalation',
    );
    expect((await create({ scopes: ['gateways:write'], allConnections: true })).apiKey.allConnections).toBe(true);
  });

  it('never grants a longer life than the caller has, and copies the expiry of the caller if none is given', async () => {
    const end = fixture.clock.now() + HOUR;
    const { key } = await fixture.createKey({ scopes: ['api-keys:write', 'devices:read'], expiresAt: end });
    expect((await create({}, key)).apiKey.expiresAt).toEqual(toTimestamp(end));
    expect((await create({ expiresAt: toTimestamp(end - 1) }, key)).apiKey.expiresAt).toEqual(toTimestamp(end - 1));
    expect((await createFails({ expiresAt: toTimestamp(end + 1) }, key)).reason).toBe('scope_escalation');
  });

  it('reports all errors of a request at once and stores nothing', async () => {
    const before = (await list({ pageSize: 200 })).apiKeys.length;
    const refused = await createFails({
      name: ' ',
      scopes: ['devices:read', 'everything'],
      connectionIds: ['connection-1', 'no-such', 'a b', 'n\0l'],
      expiresAt: toTimestamp(fixture.clock.now()),
    });
    expect(refused).toMatchObject({ code: status.INVALID_ARGUMENT, reason: 'validation_failed' });
    expect(refused.fields.toSorted()).toEqual([
      'connectionIds',
      'connectionIds[1]',
      'connectionIds[2]',
      'connectionIds[3]',
      'expiresAt',
      'name',
      'scopes[1]',
    ]);
    expect(refused.violations['connectionIds[2]']).toContain('white space');
    const unknown = await createFails({ scopes: ['gateways:write'], connectionIds: ['connection-1', 'no-such'] });
    expect(unknown.fields).toEqual(['connectionIds[1]']);
    expect((await list({ pageSize: 200 })).apiKeys.length).toBe(before);
  });

  it('lists page by page, newest first, each key once', async () => {
    for (let n = 0; n < 5; n += 1) await fixture.createKey({ name: `Key ${n}` });
    const all = (await list({ pageSize: 200 })).apiKeys;
    const listed: ApiKey[] = [];
    let pageToken = '';
    do {
      const page = await list({ pageSize: 2, pageToken });
      expect(page.apiKeys.length).toBeLessThanOrEqual(2);
      listed.push(...page.apiKeys);
      pageToken = page.nextPageToken;
    } while (pageToken !== '');
    expect(listed).toEqual(all);
    expect(all.at(-1)?.id).toBe(fixture.first.apiKey.id);
  });

  it('rejects a page token of another list', async () => {
    const other = await fixture.organizations.create('Other site');
    const foreignKey = await fixture.keys.create(other.id, {
      name: 'Theirs',
      scopes: ['api-keys:read'],
      connectionIds: [],
      allConnections: false,
      expiresAt: undefined,
      isAdmin: false,
      ownerUserId: undefined,
    });
    const { nextPageToken } = await list({ pageSize: 1 });
    const as = { 'x-api-key': foreignKey.key, 'x-organization-id': other.id };
    const listKeys = fixture.client.listApiKeys.bind(fixture.client);
    for (const pageToken of [nextPageToken, 'forged', 'AAAA'.repeat(20)]) {
      expect(await callFails(listKeys, { organizationId: '', pageToken }, as)).toMatchObject({
        reason: 'validation_failed',
        fields: ['pageToken'],
      });
    }
  });

  it('revokes a key at once, and changes nothing on repetition', async () => {
    const { key, apiKey } = await create();
    fixture.clock.advance(1);
    const revoked = await revoke(apiKey.id);
    expect(revoked).toEqual({
      ...apiKey,
      etag: '"2"',
      revokedAt: toTimestamp(fixture.clock.now()),
      updatedAt: toTimestamp(fixture.clock.now()),
    });
    expect(
      await callFails(fixture.client.whoAmI.bind(fixture.client), { organizationId: '' }, fixture.as(key)),
    ).toMatchObject({
      code: status.UNAUTHENTICATED,
      reason: 'api_key_revoked',
    });
    fixture.clock.advance(1);
    expect(await revoke(apiKey.id)).toEqual(revoked);
  });

  it('does not find a key of another organization', async () => {
    const other = await fixture.organizations.create('Far site');
    const foreignKey = await fixture.keys.create(other.id, {
      name: 'Theirs',
      scopes: SCOPES,
      connectionIds: [],
      allConnections: true,
      expiresAt: undefined,
      isAdmin: false,
      ownerUserId: undefined,
    });
    const refused = await callFails(
      fixture.client.revokeApiKey.bind(fixture.client),
      { id: foreignKey.apiKey.id, organizationId: '' },
      fixture.as(),
    );
    expect(refused).toMatchObject({ code: status.NOT_FOUND, reason: 'api_key_not_found' });
    expect((await list({ pageSize: 200 })).apiKeys.map(({ id }) => id)).not.toContain(foreignKey.apiKey.id);
    expect(await fixture.keys.list(other.id)).toMatchObject([{ revokedAt: undefined }]);
  });
});

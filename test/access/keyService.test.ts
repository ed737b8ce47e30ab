import { status } from '@grpc/grpc-js';
import type { ApiKey, CreateApiKeyRequest, CreateApiKeyResponse, ListApiKeysRequest, ListApiKeysResponse, RevokeApiKeyRequest, WhoAmIRequest, WhoAmIResponse } from '../../src/gen/organization_access_control/access_control_service';
import type { GetPersonalUserRequest, User } from '../../src/gen/userprofile/user_profile_service';
import { SCOPES } from '../../src/kernel/scopes';
import { toTimestamp } from '../../src/kernel/timestamps';
import { call, callFails, type SeenError } from '../support/edge';
import { engines } from '../support/engines';
import { startAccessRoom, type AccessRoom } from './accessRoom';

const HOUR = 3_600_000;

const wanted = (overrides: Partial<CreateApiKeyRequest> = {}): CreateApiKeyRequest => ({ organizationId: '', name: 'Wall display', scopes: ['devices:read'], connectionIds: [], allConnections: false, expiresAt: undefined, note: '', restrictions: undefined, allowedAddresses: [], ownerUserId: '', ...overrides });

describe.each(engines())('API keys over gRPC on $name', (engine) => {
  let room: AccessRoom;
  beforeAll(async () => {
    room = await startAccessRoom(engine);
  });
  afterAll(async () => await room.stop());

  const create = async (overrides?: Partial<CreateApiKeyRequest>, key?: string): Promise<CreateApiKeyResponse & { apiKey: ApiKey }> => {
    const made = await call<CreateApiKeyRequest, CreateApiKeyResponse>(room.client.createApiKey.bind(room.client), wanted(overrides), room.as(key));
    return made as CreateApiKeyResponse & { apiKey: ApiKey };
  };
  const createFails = async (overrides?: Partial<CreateApiKeyRequest>, key?: string): Promise<SeenError> => await callFails(room.client.createApiKey.bind(room.client), wanted(overrides), room.as(key));
  const list = async (request: Partial<ListApiKeysRequest> = {}): Promise<ListApiKeysResponse> =>
    await call<ListApiKeysRequest, ListApiKeysResponse>(room.client.listApiKeys.bind(room.client), { organizationId: '', pageToken: '', ...request }, room.as());
  const revoke = async (id: string, key?: string): Promise<ApiKey> => await call<RevokeApiKeyRequest, ApiKey>(room.client.revokeApiKey.bind(room.client), { id, organizationId: '' }, room.as(key));
  const whoAmI = async (key?: string): Promise<WhoAmIResponse> => await call<WhoAmIRequest, WhoAmIResponse>(room.client.whoAmI.bind(room.client), { organizationId: '' }, room.as(key));

  it('says who is calling, whatever the scope', async () => {
    const { key } = await room.key({ name: 'Only telemetry', scopes: ['telemetry:read'] });
    const answer = await whoAmI(key);
    expect(answer).toMatchObject({ organizationName: 'Plantroom', user: { name: 'Administrator', email: '' }, apiKey: { name: 'Only telemetry', scopes: ['telemetry:read'], prefix: key.slice(0, 10), organizationId: room.first.organization.id } });
  });

  it('says who owns a key, to keys with users:read', async () => {
    const { key } = await room.key({ scopes: ['users:read'] });
    const get = room.profile.getPersonalUser.bind(room.profile);
    expect(await call<GetPersonalUserRequest, User>(get, { organizationId: '' }, room.as(key))).toMatchObject({ id: room.first.user.id, name: 'Administrator' });
  });

  it('makes a key that works, and shows it this once', async () => {
    const { key, apiKey } = await create({ name: '  Wall display ' });
    const expected = { name: 'Wall display', prefix: key.slice(0, 10), ownerUserId: room.first.user.id, expiresAt: undefined, revokedAt: undefined, lastUsedAt: undefined, lastUsedAddress: '' };
    expect(apiKey).toMatchObject(expected);
    expect((await whoAmI(key)).apiKey).toEqual(apiKey);
    const page = await list();
    expect(page.apiKeys).toContainEqual(apiKey);
    expect(JSON.stringify(page)).not.toContain(key.slice(0, 20));
  });

  it('never gives more scopes than its caller holds', async () => {
    const { key } = await room.key({ scopes: ['api-keys:write', 'devices:read'] });
    expect((await create({}, key)).apiKey.scopes).toEqual(['devices:read']);
    const refused = await createFails({ scopes: ['devices:read', 'devices:write'] }, key);
    expect(refused).toMatchObject({ code: status.PERMISSION_DENIED, reason: 'scope_exceeds_own' });
    expect(refused.message).toContain('devices:write');
  });

  it('never gives more connections than its caller holds', async () => {
    const scopes = ['api-keys:write', 'gateways:write'];
    const { key } = await room.key({ scopes, connectionIds: ['connection-1'] });
    expect((await create({ scopes: ['gateways:write'], connectionIds: ['connection-1'] }, key)).apiKey.connectionIds).toEqual(['connection-1']);
    expect((await createFails({ scopes: ['gateways:write'], connectionIds: ['connection-2'] }, key)).reason).toBe('scope_exceeds_own');
    expect((await createFails({ scopes: ['gateways:write'], allConnections: true }, key)).reason).toBe('scope_exceeds_own');
    expect((await create({ scopes: ['gateways:write'], allConnections: true })).apiKey.allConnections).toBe(true);
  });

  it('never gives a longer life than its caller has; without an end it is that of the caller', async () => {
    const end = room.clock.now() + HOUR;
    const { key } = await room.key({ scopes: ['api-keys:write', 'devices:read'], expiresAt: end });
    expect((await create({}, key)).apiKey.expiresAt).toEqual(toTimestamp(end));
    expect((await create({ expiresAt: toTimestamp(end - 1) }, key)).apiKey.expiresAt).toEqual(toTimestamp(end - 1));
    expect((await createFails({ expiresAt: toTimestamp(end + 1) }, key)).reason).toBe('scope_exceeds_own');
  });

  it('names all that is wrong with a request at once and stores nothing', async () => {
    const before = (await list({ pageSize: 200 })).apiKeys.length;
    const refused = await createFails({ name: ' ', scopes: ['devices:read', 'everything'], connectionIds: ['connection-1', 'no-such', 'a b', 'n\0l'], expiresAt: toTimestamp(room.clock.now()) });
    expect(refused).toMatchObject({ code: status.INVALID_ARGUMENT, reason: 'validation_failed' });
    expect(refused.fields.toSorted()).toEqual(['connectionIds', 'connectionIds[1]', 'connectionIds[2]', 'connectionIds[3]', 'expiresAt', 'name', 'scopes[1]']);
    expect(refused.violations['connectionIds[2]']).toContain('white space');
    const unknown = await createFails({ scopes: ['gateways:write'], connectionIds: ['connection-1', 'no-such'] });
    expect(unknown.fields).toEqual(['connectionIds[1]']);
    expect((await list({ pageSize: 200 })).apiKeys.length).toBe(before);
  });

  it('lists page by page, newest first, each key once', async () => {
    for (let n = 0; n < 5; n += 1) await room.key({ name: `Key ${n}` });
    const all = (await list({ pageSize: 200 })).apiKeys;
    const seen: ApiKey[] = [];
    let pageToken = '';
    do {
      const page = await list({ pageSize: 2, pageToken });
      expect(page.apiKeys.length).toBeLessThanOrEqual(2);
      seen.push(...page.apiKeys);
      pageToken = page.nextPageToken;
    } while (pageToken !== '');
    expect(seen).toEqual(all);
    expect(all.at(-1)?.id).toBe(room.first.apiKey.id);
  });

  it('refuses a page token that is not of this list', async () => {
    const other = await room.organizations.create('Other site');
    const theirs = await room.keys.create(other.id, { name: 'Theirs', scopes: ['api-keys:read'], connectionIds: [], allConnections: false, expiresAt: undefined, isAdmin: false, ownerUserId: undefined });
    const { nextPageToken } = await list({ pageSize: 1 });
    const as = { 'x-api-key': theirs.key, 'x-organization-id': other.id };
    const listKeys = room.client.listApiKeys.bind(room.client);
    for (const pageToken of [nextPageToken, 'forged', 'AAAA'.repeat(20)]) {
      expect(await callFails(listKeys, { organizationId: '', pageToken }, as)).toMatchObject({ reason: 'validation_failed', fields: ['pageToken'] });
    }
  });

  it('revokes a key at once; once more changes nothing', async () => {
    const { key, apiKey } = await create();
    room.clock.advance(1);
    const revoked = await revoke(apiKey.id);
    expect(revoked).toEqual({ ...apiKey, etag: '"2"', revokedAt: toTimestamp(room.clock.now()), updatedAt: toTimestamp(room.clock.now()) });
    expect(await callFails(room.client.whoAmI.bind(room.client), { organizationId: '' }, room.as(key))).toMatchObject({ code: status.UNAUTHENTICATED, reason: 'api_key_revoked' });
    room.clock.advance(1);
    expect(await revoke(apiKey.id)).toEqual(revoked);
  });

  it('finds no key of another organization', async () => {
    const other = await room.organizations.create('Far site');
    const theirs = await room.keys.create(other.id, { name: 'Theirs', scopes: SCOPES, connectionIds: [], allConnections: true, expiresAt: undefined, isAdmin: false, ownerUserId: undefined });
    const refused = await callFails(room.client.revokeApiKey.bind(room.client), { id: theirs.apiKey.id, organizationId: '' }, room.as());
    expect(refused).toMatchObject({ code: status.NOT_FOUND, reason: 'api_key_not_found' });
    expect((await list({ pageSize: 200 })).apiKeys.map(({ id }) => id)).not.toContain(theirs.apiKey.id);
    expect(await room.keys.list(other.id)).toMatchObject([{ revokedAt: undefined }]);
  });
});

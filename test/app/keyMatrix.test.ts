import { status } from '@grpc/grpc-js';
import { SCOPES } from '../../src/kernel/scopes';
import { engines } from '../support/engines';
import { HttpClient, seenHttp, type SeenHttpError } from '../support/http';
import { anyPath, HTTP_WAYS, type HttpWay } from '../support/restCalls';
import { as, descriptors, startTestApp, type TestApp } from '../support/testApp';

const methods = [...descriptors.methods.values()].map((facts) => [facts.path, facts] as const);
const guarded = methods.filter(([, facts]) => facts.scope !== 'none');
const scoped = guarded.filter(([, facts]) => facts.scope !== 'any');
const guardedWays = HTTP_WAYS.filter(([, { facts }]) => facts.scope !== 'none');
const scopedWays = guardedWays.filter(([, { facts }]) => facts.scope !== 'any');
const EMPTY = new Uint8Array();
const STATES = [['malformed', 'api_key_invalid'], ['unknown', 'api_key_invalid'], ['revoked', 'api_key_revoked'], ['expired', 'api_key_expired']] as const;

describe.each(engines())('every method, every state of a key, on $name', (engine) => {
  let server: TestApp;
  let http: HttpClient;
  let other: string;
  const keys: Record<string, string> = {};
  const narrow = new Map<string, { with: string; without: string }>();

  beforeAll(async () => {
    server = await startTestApp(engine);
    http = new HttpClient(server.app.addresses.http as string, server.app.ca);
    const { organizationId } = server;
    other = await server.organization('Another organization');
    keys['malformed'] = `${server.key.slice(0, -1)}${server.key.endsWith('0') ? '1' : '0'}`;
    const forgotten = await server.newKey(organizationId);
    keys['revoked'] = forgotten.key;
    await server.app.keys.revoke(organizationId, forgotten.id);
    const expiring = await server.newKey(organizationId, { expiresAt: Date.now() + 60_000 });
    keys['expired'] = expiring.key;
    await server.database.database.db.knex('api_keys').where({ id: expiring.id }).update({ expires_at: Date.now() - 1 });
    // A key of another installation: well-formed, and unknown here.
    const foreign = await server.newKey(organizationId);
    keys['unknown'] = foreign.key;
    await server.database.database.db.knex('api_keys').where({ id: foreign.id }).delete();
    for (const scope of new Set(scoped.map(([, facts]) => facts.scope))) {
      const pair = { with: await server.newKey(organizationId, { scopes: [scope] }), without: await server.newKey(organizationId, { scopes: SCOPES.filter((one) => one !== scope) }) };
      narrow.set(scope, { with: pair.with.key, without: pair.without.key });
    }
  });
  afterAll(async () => {
    http.close();
    await server.stop();
  });

  /** What a call over HTTP without a body is refused with. */
  const refusal = async (way: HttpWay, headers: Record<string, string>, query = ''): Promise<SeenHttpError> => seenHttp(await http.send(way.verb, `${anyPath(way)}${query}`, { headers }));

  it.each(scoped)('%s needs its scope, and no other will do', async (_path, facts) => {
    const pair = narrow.get(facts.scope) as { with: string; without: string };
    const refused = await server.send(facts, EMPTY, as(pair.without, server.organizationId));
    expect(refused).toMatchObject({ code: status.PERMISSION_DENIED, error: { reason: 'scope_missing', metadata: { required_scope: facts.scope } } });
    const passed = await server.send(facts, EMPTY, as(pair.with, server.organizationId));
    expect([status.OK, status.INVALID_ARGUMENT]).toContain(passed.code);
  });

  it.each(guarded)('%s refuses a key that is missing, mistyped, unknown, revoked or expired', async (_path, facts) => {
    const ask = async (fields: Record<string, string>) => await server.send(facts, EMPTY, fields);
    expect(await ask({ 'x-organization-id': server.organizationId })).toMatchObject({ code: status.UNAUTHENTICATED, error: { reason: 'api_key_missing' } });
    for (const [state, reason] of STATES) expect(await ask(as(keys[state] as string, server.organizationId))).toMatchObject({ code: status.UNAUTHENTICATED, error: { reason } });
  });

  it.each(guarded)('%s wants the organization of the key, and no other', async (_path, facts) => {
    expect(await server.send(facts, EMPTY, { 'x-api-key': server.key })).toMatchObject({ code: status.UNAUTHENTICATED, error: { reason: 'organization_missing' } });
    expect(await server.send(facts, EMPTY, as(server.key, other))).toMatchObject({ code: status.UNAUTHENTICATED, error: { reason: 'organization_mismatch' } });
  });

  it.each(methods.filter(([, facts]) => facts.scope === 'none'))('%s needs no key', async (_path, facts) => {
    expect(await server.send(facts, EMPTY, {})).toMatchObject({ code: status.OK });
  });

  it.each(scopedWays)('%s needs its scope, and no other will do', async (_name, way) => {
    const pair = narrow.get(way.facts.scope) as { with: string; without: string };
    expect(await refusal(way, as(pair.without, server.organizationId))).toMatchObject({ status: 403, code: 'scope_missing', grpc: 'PERMISSION_DENIED', metadata: { required_scope: way.facts.scope } });
    if (!way.facts.kind.includes('stream')) expect([200, 400, 404]).toContain((await http.send(way.verb, anyPath(way), { headers: as(pair.with, server.organizationId) })).status);
  });

  it.each(guardedWays)('%s refuses a key that is missing, mistyped, unknown, revoked or expired', async (_name, way) => {
    expect(await refusal(way, { 'x-organization-id': server.organizationId })).toMatchObject({ status: 401, code: 'api_key_missing', grpc: 'UNAUTHENTICATED' });
    for (const [state, reason] of STATES) expect(await refusal(way, as(keys[state] as string, server.organizationId))).toMatchObject({ status: 401, code: reason });
  });

  it.each(guardedWays)('%s wants the organization of the key, and no other', async (_name, way) => {
    expect(await refusal(way, { 'x-api-key': server.key })).toMatchObject({ status: 401, code: 'organization_missing' });
    expect(await refusal(way, as(server.key, other))).toMatchObject({ status: 401, code: 'organization_mismatch' });
    for (const headers of [{ 'x-api-key': server.key }, as(server.key, server.organizationId)]) expect(await refusal(way, headers, `?organizationId=${other}`)).toMatchObject({ status: 401, code: 'organization_mismatch' });
    for (const query of [`?organizationId=${server.organizationId}&organizationId=${other}`, `?organizationId=${server.organizationId},${other}`]) expect(await refusal(way, { 'x-api-key': server.key }, query)).toMatchObject({ status: 401, code: 'organization_mismatch' });
  });

  it('never writes a key to the log', () => {
    const log = JSON.stringify(server.log.lines);
    for (const key of [server.key, ...Object.values(keys)]) expect(log).not.toContain(key.slice(10));
  });
});

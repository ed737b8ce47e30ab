import { status } from '@grpc/grpc-js';
import { SCOPES } from '../../src/kernel/scopes';
import type { MethodFacts } from '../../src/rpc/descriptors';
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
/** What each state of a key is refused with: gRPC, HTTP, reason. */
const STATES = [
  ['malformed', status.UNAUTHENTICATED, 401, 'api_key_invalid'],
  ['unknown', status.UNAUTHENTICATED, 401, 'api_key_invalid'],
  ['revoked', status.UNAUTHENTICATED, 401, 'api_key_revoked'],
  ['expired', status.UNAUTHENTICATED, 401, 'api_key_expired'],
  ['of nobody any more', status.UNAUTHENTICATED, 401, 'api_key_revoked'],
  ['for other addresses', status.PERMISSION_DENIED, 403, 'address_not_allowed'],
] as const;
/** Keys of one scope, of all others, and of it in the hands of whoever runs the installation. */
interface Narrow {
  readonly with: string;
  readonly without: string;
  readonly admin: string;
  readonly adminWithout: string;
}

describe.each(engines())('every method, every state of a key, on $name', (engine) => {
  let server: TestApp;
  let http: HttpClient;
  let other: string;
  const keys: Record<string, string> = {};
  const narrow = new Map<string, Narrow>();
  let admin: string;

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
    keys['for other addresses'] = (await server.newKey(organizationId, { allowedAddresses: ['192.0.2.0/24', '2001:db8::1'] })).key;
    const { userId } = (await http.send('POST', '/api/v2/members', { headers: as(server.key, organizationId), body: { name: 'Somebody', roleId: 'admin' } })).json;
    keys['of nobody any more'] = (await server.newKey(organizationId, { ownerUserId: userId as string })).key;
    expect((await http.send('DELETE', `/api/v2/members/${userId as string}`, { headers: as(server.key, organizationId) })).status).toBe(200);
    admin = (await server.newKey(organizationId, { isAdmin: true })).key;
    const key = async (scopes: readonly string[], isAdmin: boolean): Promise<string> => (await server.newKey(organizationId, { scopes, isAdmin })).key;
    for (const scope of new Set(scoped.map(([, facts]) => facts.scope))) {
      const others = SCOPES.filter((one) => one !== scope);
      narrow.set(scope, { with: await key([scope], false), without: await key(others, false), admin: await key([scope], true), adminWithout: await key(others, true) });
    }
  });
  afterAll(async () => {
    http.close();
    await server.stop();
  });

  /** A key that may call the method. */
  const keyFor = ({ adminOnly }: MethodFacts): string => (adminOnly ? admin : server.key);

  it.each(scoped)('%s needs its scope, and no other will do', async (_path, facts) => {
    const pair = narrow.get(facts.scope) as Narrow;
    const ask = async (key: string) => await server.send(facts, EMPTY, as(key, server.organizationId));
    for (const key of [pair.without, pair.adminWithout]) expect(await ask(key)).toMatchObject({ code: status.PERMISSION_DENIED, error: { reason: 'scope_missing', metadata: { required_scope: facts.scope } } });
    if (facts.adminOnly) expect(await ask(pair.with)).toMatchObject({ code: status.PERMISSION_DENIED, error: { reason: 'admin_key_required' } });
    expect([status.OK, status.INVALID_ARGUMENT]).toContain((await ask(facts.adminOnly ? pair.admin : pair.with)).code);
  });

  it.each(guarded)('%s refuses a key that is missing, mistyped, unknown, revoked, expired, of somebody who left, or used from elsewhere', async (_path, facts) => {
    const ask = async (fields: Record<string, string>) => await server.send(facts, EMPTY, fields);
    expect(await ask({ 'x-organization-id': server.organizationId })).toMatchObject({ code: status.UNAUTHENTICATED, error: { reason: 'api_key_missing' } });
    for (const [state, code, , reason] of STATES) expect([state, await ask(as(keys[state] as string, server.organizationId))]).toMatchObject([state, { code, error: { reason } }]);
  });

  it.each(guarded)('%s wants the organization of the key, and no other', async (_path, facts) => {
    const key = keyFor(facts);
    expect(await server.send(facts, EMPTY, { 'x-api-key': key })).toMatchObject({ code: status.UNAUTHENTICATED, error: { reason: 'organization_missing' } });
    expect(await server.send(facts, EMPTY, as(key, other))).toMatchObject({ code: status.UNAUTHENTICATED, error: { reason: 'organization_mismatch' } });
    if (facts.adminOnly) expect(await server.send(facts, EMPTY, as(server.key, other))).toMatchObject({ code: status.PERMISSION_DENIED, error: { reason: 'admin_key_required' } });
  });

  it.each(methods.filter(([, facts]) => facts.scope === 'none'))('%s needs no key', async (_path, facts) => {
    expect(await server.send(facts, EMPTY, {})).toMatchObject({ code: status.OK });
  });

  // What passes or refuses a key is asked by both protocols alike: the second engine would tell nothing new here.
  if (engine.name === 'sqlite') {
    /** What a call over HTTP without a body is refused with. */
    const refusal = async (way: HttpWay, headers: Record<string, string>, query = ''): Promise<SeenHttpError> => seenHttp(await http.send(way.verb, `${anyPath(way)}${query}`, { headers }));

    it.each(scopedWays)('%s needs its scope, and no other will do', async (_name, way) => {
      const { scope, adminOnly, kind } = way.facts;
      const pair = narrow.get(scope) as Narrow;
      for (const key of [pair.without, pair.adminWithout]) expect(await refusal(way, as(key, server.organizationId))).toMatchObject({ status: 403, code: 'scope_missing', grpc: 'PERMISSION_DENIED', metadata: { required_scope: scope } });
      if (adminOnly) expect(await refusal(way, as(pair.with, server.organizationId))).toMatchObject({ status: 403, code: 'admin_key_required', grpc: 'PERMISSION_DENIED' });
      if (!kind.includes('stream')) expect([200, 400, 404]).toContain((await http.send(way.verb, anyPath(way), { headers: as(adminOnly ? pair.admin : pair.with, server.organizationId) })).status);
    });

    it.each(guardedWays)('%s refuses a key that is missing, mistyped, unknown, revoked, expired, of somebody who left, or used from elsewhere', async (_name, way) => {
      expect(await refusal(way, { 'x-organization-id': server.organizationId })).toMatchObject({ status: 401, code: 'api_key_missing', grpc: 'UNAUTHENTICATED' });
      for (const [state, , code, reason] of STATES) expect([state, await refusal(way, as(keys[state] as string, server.organizationId))]).toMatchObject([state, { status: code, code: reason }]);
    });

    it.each(guardedWays)('%s wants the organization of the key, and no other', async (_name, way) => {
      const key = keyFor(way.facts);
      const alone = { 'x-api-key': key };
      expect(await refusal(way, alone)).toMatchObject({ status: 401, code: 'organization_missing' });
      expect(await refusal(way, as(key, other))).toMatchObject({ status: 401, code: 'organization_mismatch' });
      for (const headers of [alone, as(key, server.organizationId)]) expect(await refusal(way, headers, `?organizationId=${other}`)).toMatchObject({ status: 401, code: 'organization_mismatch' });
      for (const query of [`?organizationId=${server.organizationId}&organizationId=${other}`, `?organizationId=${server.organizationId},${other}`]) expect(await refusal(way, alone, query)).toMatchObject({ status: 401, code: 'organization_mismatch' });
    });
  }

  it('never writes a key to the log', () => {
    const log = JSON.stringify(server.log.lines);
    for (const key of [server.key, ...Object.values(keys)]) expect(log).not.toContain(key.slice(10));
  });
});

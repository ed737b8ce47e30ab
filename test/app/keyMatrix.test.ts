import { status } from '@grpc/grpc-js';
import { SCOPES } from '../../src/kernel/scopes';
import { engines } from '../support/engines';
import { as, descriptors, startTestApp, type TestApp } from '../support/testApp';

const methods = [...descriptors.methods.values()].map((facts) => [facts.path, facts] as const);
const guarded = methods.filter(([, facts]) => facts.scope !== 'none');
const scoped = guarded.filter(([, facts]) => facts.scope !== 'any');
const EMPTY = new Uint8Array();

describe.each(engines())('every method, every state of a key, on $name', (engine) => {
  let server: TestApp;
  let other: string;
  const keys: Record<string, string> = {};
  const narrow = new Map<string, { with: string; without: string }>();

  beforeAll(async () => {
    server = await startTestApp(engine);
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
  afterAll(() => server.stop());

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
    for (const [state, reason] of [['malformed', 'api_key_invalid'], ['unknown', 'api_key_invalid'], ['revoked', 'api_key_revoked'], ['expired', 'api_key_expired']] as const) {
      expect(await ask(as(keys[state] as string, server.organizationId))).toMatchObject({ code: status.UNAUTHENTICATED, error: { reason } });
    }
  });

  it.each(guarded)('%s wants the organization of the key, and no other', async (_path, facts) => {
    expect(await server.send(facts, EMPTY, { 'x-api-key': server.key })).toMatchObject({ code: status.UNAUTHENTICATED, error: { reason: 'organization_missing' } });
    expect(await server.send(facts, EMPTY, as(server.key, other))).toMatchObject({ code: status.UNAUTHENTICATED, error: { reason: 'organization_mismatch' } });
  });

  it.each(methods.filter(([, facts]) => facts.scope === 'none'))('%s needs no key', async (_path, facts) => {
    expect(await server.send(facts, EMPTY, {})).toMatchObject({ code: status.OK });
  });

  it('never writes a key to the log', () => {
    const log = JSON.stringify(server.log.lines);
    for (const key of [server.key, ...Object.values(keys)]) expect(log).not.toContain(key.slice(10));
  });
});

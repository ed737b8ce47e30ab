import { status } from '@grpc/grpc-js';
import { IMPLIED_SCOPES } from '../../src/kernel/scopes';
import type { MethodDescriptor } from '../../src/api/descriptors/descriptors';
import { sqliteOnly } from '../support/engines';
import { HttpClient, parseHttpError, type HttpErrorInfo } from '../support/http';
import { anyPath, HTTP_WAYS, type HttpWay } from '../support/restCalls';
import { scopesWithout } from '../support/scopesWithout';
import { as, descriptors, startTestApp, type TestApp } from '../support/testApp';

const methods = [...descriptors.methods.values()].map((descriptor) => [descriptor.path, descriptor] as const);
const guarded = methods.filter(([, descriptor]) => descriptor.scope !== 'none');
const scoped = guarded.filter(([, descriptor]) => descriptor.scope !== 'any');
const guardedWays = HTTP_WAYS.filter(([, { descriptor }]) => descriptor.scope !== 'none');
const scopedWays = guardedWays.filter(([, { descriptor }]) => descriptor.scope !== 'any');
const EMPTY = new Uint8Array();
/** The error for each state of a key: gRPC code, HTTP status, reason. */
const STATES = [
  ['malformed', status.UNAUTHENTICATED, 401, 'api_key_invalid'],
  ['unknown', status.UNAUTHENTICATED, 401, 'api_key_invalid'],
  ['revoked', status.UNAUTHENTICATED, 401, 'api_key_revoked'],
  ['expired', status.UNAUTHENTICATED, 401, 'api_key_expired'],
  ['of a former member', status.UNAUTHENTICATED, 401, 'api_key_revoked'],
  ['for other addresses', status.PERMISSION_DENIED, 403, 'address_not_allowed'],
] as const;
/** Keys with one scope, with all other scopes, and the same for a server administrator. */
interface ScopeKeys {
  readonly with: string;
  readonly without: string;
  readonly admin: string;
  readonly adminWithout: string;
}

describe.each(sqliteOnly())('every method and every state of a key, on $name', (engine) => {
  let server: TestApp;
  let http: HttpClient;
  let other: string;
  const keys: Record<string, string> = {};
  const keysByScope = new Map<string, ScopeKeys>();
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
    await server.database.database.db
      .knex('api_keys')
      .where({ id: expiring.id })
      .update({ expires_at: Date.now() - 1 });
    // A key of another installation: well-formed but unknown here.
    const foreign = await server.newKey(organizationId);
    keys['unknown'] = foreign.key;
    await server.database.database.db.knex('api_keys').where({ id: foreign.id }).delete();
    keys['for other addresses'] = (
      await server.newKey(organizationId, { allowedAddresses: ['192.0.2.0/24', '2001:db8::1'] })
    ).key;
    const { userId } = (
      await http.send('POST', '/api/v2/members', {
        headers: as(server.key, organizationId),
        body: { name: 'Somebody', roleId: 'admin' },
      })
    ).json;
    keys['of a former member'] = (await server.newKey(organizationId, { ownerUserId: userId as string })).key;
    expect(
      (await http.send('DELETE', `/api/v2/members/${userId as string}`, { headers: as(server.key, organizationId) }))
        .status,
    ).toBe(200);
    admin = (await server.newKey(organizationId, { isAdmin: true })).key;
    const key = async (scopes: readonly string[], isAdmin: boolean): Promise<string> =>
      (await server.newKey(organizationId, { scopes, isAdmin })).key;
    for (const scope of new Set(scoped.map(([, descriptor]) => descriptor.scope))) {
      const others = scopesWithout(scope);
      keysByScope.set(scope, {
        with: await key([scope], false),
        without: await key(others, false),
        admin: await key([scope], true),
        adminWithout: await key(others, true),
      });
    }
  });
  afterAll(async () => {
    http.close();
    await server.stop();
  });

  /** Returns a key that may call the method. */
  const keyFor = ({ adminOnly }: MethodDescriptor): string => (adminOnly ? admin : server.key);

  it.each(scoped)('%s requires its scope', async (_path, descriptor) => {
    const pair = keysByScope.get(descriptor.scope) as ScopeKeys;
    const callWith = async (key: string) => await server.send(descriptor, EMPTY, as(key, server.organizationId));
    for (const key of [pair.without, pair.adminWithout])
      expect(await callWith(key)).toMatchObject({
        code: status.PERMISSION_DENIED,
        error: { reason: 'insufficient_scope', metadata: { required_scope: descriptor.scope } },
      });
    if (descriptor.adminOnly)
      expect(await callWith(pair.with)).toMatchObject({
        code: status.PERMISSION_DENIED,
        error: { reason: 'admin_key_required' },
      });
    expect([status.OK, status.INVALID_ARGUMENT]).toContain(
      (await callWith(descriptor.adminOnly ? pair.admin : pair.with)).code,
    );
  });

  it('only one scope implies another: commands:write implies commands:execute for every method that the specification lists', async () => {
    expect(IMPLIED_SCOPES).toEqual({ 'commands:write': ['commands:execute'] });
    const executing = methods.filter(([, { scope }]) => scope === 'commands:execute');
    expect(executing.map(([path]) => path)).toEqual(
      ['ExecuteCommand', 'CancelExecution'].map((name) => `/actuator_command.v2.ActuatorCommandService/${name}`),
    );
    const { with: writeKey } = keysByScope.get('commands:write') as ScopeKeys;
    for (const [, descriptor] of executing) {
      expect(await server.send(descriptor, EMPTY, as(writeKey, server.organizationId))).toMatchObject({
        code: status.INVALID_ARGUMENT,
        error: { reason: 'validation_failed' },
      });
      expect(descriptor.changes).toBe(true);
    }
    const { json } = await http.send('GET', '/api/v2/who-am-i', { headers: as(writeKey, server.organizationId) });
    expect(json).toMatchObject({
      apiKey: { scopes: ['commands:write'] },
      effectiveScopes: ['commands:write', 'commands:execute'],
    });
  });

  it('an operator executes and cancels commands but cannot define them, even with a key of commands:write', async () => {
    const headers = as(server.key, server.organizationId);
    const { userId } = (
      await http.send('POST', '/api/v2/members', { headers, body: { name: 'Operator', roleId: 'admin' } })
    ).json as { userId: string };
    const { key } = await server.newKey(server.organizationId, {
      ownerUserId: userId,
      scopes: ['commands:write', 'commands:read'],
    });
    const { id } = (await http.send('POST', '/api/v2/devices', { headers, body: { name: 'Valve' } })).json as {
      id: string;
    };
    const command = {
      name: 'Open',
      mode: 'direct',
      verificationStrategy: 'no_verification',
      directPayload: '{"open": true}',
    };
    const commands = `/api/v2/devices/${id}/commands`;
    const operatorHeaders = as(key, server.organizationId);
    const created = await http.send('POST', commands, { headers: operatorHeaders, body: { command } });
    expect(created.status).toBe(201);
    expect(
      (await http.send('PATCH', `/api/v2/members/${userId}`, { headers, body: { roleId: 'operator' } })).status,
    ).toBe(200);
    const one = `${commands}/${created.json['id'] as string}`;
    const defining = [
      ['POST', commands, { command: { ...command, name: 'Close' } }],
      ['PATCH', one, { command }],
      ['DELETE', one, undefined],
      ['POST', `${commands}/preview-encoder`, { customEncoder: 'function encodeDownlink() { return []; }' }],
    ] as const;
    for (const [verb, path, body] of defining)
      expect(
        parseHttpError(await http.send(verb, path, { headers: operatorHeaders, ...(body && { body }) })),
      ).toMatchObject({
        status: 403,
        code: 'insufficient_scope',
        metadata: { required_scope: 'commands:write' },
      });
    expect((await http.send('GET', '/api/v2/who-am-i', { headers: operatorHeaders })).json).toMatchObject({
      effectiveScopes: ['commands:read', 'commands:execute'],
    });
    const executed = await http.send('POST', `/api/v2/devices/${id}/actuator-executions`, {
      headers: operatorHeaders,
      body: { commandId: created.json['id'] },
    });
    expect([executed.status, (executed.json as { rejectionReason?: string }).rejectionReason]).toEqual([
      422,
      'validation_failed',
    ]); // the device has no connection: the call itself was allowed
    const cancelled = await http.send(
      'POST',
      `/api/v2/actuator-executions/${executed.json['executionId'] as string}:cancel`,
      { headers: operatorHeaders, body: {} },
    );
    expect(parseHttpError(cancelled)).toMatchObject({ code: 'not_cancellable' });
    await expect(
      server.newKey(server.organizationId, { ownerUserId: userId, scopes: ['commands:write'] }),
    ).rejects.toMatchObject({ violations: [{ field: 'scopes[0]' }] });
    expect(
      (await server.newKey(server.organizationId, { ownerUserId: userId, scopes: ['commands:execute'] })).key,
    ).toMatch(/^plr_/);
  });

  it.each(guarded)(
    '%s rejects a key that is missing, mistyped, unknown, revoked, expired, of a former member, or used from elsewhere',
    async (_path, descriptor) => {
      const callWith = async (fields: Record<string, string>) => await server.send(descriptor, EMPTY, fields);
      expect(await callWith({ 'x-organization-id': server.organizationId })).toMatchObject({
        code: status.UNAUTHENTICATED,
        error: { reason: 'api_key_missing' },
      });
      for (const [state, code, , reason] of STATES)
        expect([state, await callWith(as(keys[state] as string, server.organizationId))]).toMatchObject([
          state,
          { code, error: { reason } },
        ]);
    },
  );

  it.each(guarded)('%s accepts only the organization of the key', async (_path, descriptor) => {
    const key = keyFor(descriptor);
    expect(await server.send(descriptor, EMPTY, { 'x-api-key': key })).toMatchObject({
      code: status.UNAUTHENTICATED,
      error: { reason: 'organization_required' },
    });
    expect(await server.send(descriptor, EMPTY, as(key, other))).toMatchObject({
      code: status.UNAUTHENTICATED,
      error: { reason: 'organization_mismatch' },
    });
    if (descriptor.adminOnly)
      expect(await server.send(descriptor, EMPTY, as(server.key, other))).toMatchObject({
        code: status.PERMISSION_DENIED,
        error: { reason: 'admin_key_required' },
      });
  });

  it.each(methods.filter(([, descriptor]) => descriptor.scope === 'none'))(
    '%s needs no key',
    async (_path, descriptor) => {
      expect(await server.send(descriptor, EMPTY, {})).toMatchObject({ code: status.OK });
    },
  );

  /** Returns the error of a call over HTTP without a body. */
  const refusal = async (way: HttpWay, headers: Record<string, string>, query = ''): Promise<HttpErrorInfo> =>
    parseHttpError(await http.send(way.verb, `${anyPath(way)}${query}`, { headers }));

  it.each(scopedWays)('%s requires its scope over HTTP', async (_name, way) => {
    const { scope, adminOnly, kind } = way.descriptor;
    const pair = keysByScope.get(scope) as ScopeKeys;
    for (const key of [pair.without, pair.adminWithout])
      expect(await refusal(way, as(key, server.organizationId))).toMatchObject({
        status: 403,
        code: 'insufficient_scope',
        grpc: 'PERMISSION_DENIED',
        metadata: { required_scope: scope },
      });
    if (adminOnly)
      expect(await refusal(way, as(pair.with, server.organizationId))).toMatchObject({
        status: 403,
        code: 'admin_key_required',
        grpc: 'PERMISSION_DENIED',
      });
    if (!kind.includes('stream'))
      expect([200, 400, 404]).toContain(
        (
          await http.send(way.verb, anyPath(way), {
            headers: as(adminOnly ? pair.admin : pair.with, server.organizationId),
          })
        ).status,
      );
  });

  it.each(guardedWays)(
    '%s rejects over HTTP a key that is missing, mistyped, unknown, revoked, expired, of a former member, or used from elsewhere',
    async (_name, way) => {
      expect(await refusal(way, { 'x-organization-id': server.organizationId })).toMatchObject({
        status: 401,
        code: 'api_key_missing',
        grpc: 'UNAUTHENTICATED',
      });
      for (const [state, , code, reason] of STATES)
        expect([state, await refusal(way, as(keys[state] as string, server.organizationId))]).toMatchObject([
          state,
          { status: code, code: reason },
        ]);
    },
  );

  it.each(guardedWays)('%s accepts over HTTP only the organization of the key', async (_name, way) => {
    const key = keyFor(way.descriptor);
    const alone = { 'x-api-key': key };
    expect(await refusal(way, alone)).toMatchObject({ status: 401, code: 'organization_required' });
    expect(await refusal(way, as(key, other))).toMatchObject({ status: 401, code: 'organization_mismatch' });
    for (const headers of [alone, as(key, server.organizationId)])
      expect(await refusal(way, headers, `?organizationId=${other}`)).toMatchObject({
        status: 401,
        code: 'organization_mismatch',
      });
    for (const query of [
      `?organizationId=${server.organizationId}&organizationId=${other}`,
      `?organizationId=${server.organizationId},${other}`,
    ])
      expect(await refusal(way, alone, query)).toMatchObject({ status: 401, code: 'organization_mismatch' });
  });

  it('never writes a key to the log', () => {
    const log = JSON.stringify(server.log.lines);
    for (const key of [server.key, ...Object.values(keys)]) expect(log).not.toContain(key.slice(10));
  });
});

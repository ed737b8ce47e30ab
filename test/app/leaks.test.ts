import { systemClock } from '../../src/kernel/clock';
import { ProfileImports } from '../../src/profiles';
import type { MethodFacts } from '../../src/rpc/descriptors';
import { engines } from '../support/engines';
import { HttpClient } from '../support/http';
import { httpWays, onWay, requestJson } from '../support/restCalls';
import { Statements } from '../support/statements';
import { as, descriptors, encode, startTestApp, type Fields, type TestApp } from '../support/testApp';
import { modelOf, vendorOf } from '../support/vendors';
import { ACCESS, answerOf, askJson, COMMANDS, CONNECTIONS, DEVICES, FILTERS, furnish, nobody, ORGANIZATIONS, REFERENCES, REQUESTS, TEMPLATES, type Things } from './foreignRequests';

/** Stands in every name that the other organization gives. */
const MARK = 'zephyr';
/** Different whenever they are asked for: sealed tokens, what a link says of its end, when a key was used last, how long a script ran. */
const VOLATILE = /"(?:nextPageToken|nextCursor|resumeToken)":"[^"]*"|"lastUsed\w+":"[^"]*"|\?organization=[^"]*|"executionTimeMs":[\d.]+|"content-length":"\d+"/g;
const TRIES = 5;

type Ask = (their: Things, own: Things) => Fields;
/** Right for everybody. */
const CATALOGUE: Readonly<Record<string, Ask>> = {
  '/connector.ConnectorService/GetConnector': () => ({ id: 'gateway' }),
  [`${DEVICES}/GetDeviceProfileTemplate`]: () => ({ brand: 'quellwerk', model: 'qw-10', band: 'EU868' }),
};
const reads = [...descriptors.methods.values()].filter(({ changes, kind, scope }) => !changes && kind !== 'bidi_streaming' && scope !== 'none');
const refused: readonly (readonly [string, Ask])[] = [...Object.entries(REQUESTS), ...REFERENCES, ...FILTERS];

/** The same request, each thing named once. */
function onceEach(fields: Fields): Fields {
  return Object.fromEntries(Object.entries(fields).map(([name, value]) => [name, Array.isArray(value) && value.every((item) => typeof item === 'string') ? [...new Set(value)] : value]));
}

function without(text: string, things: Things): string {
  return Object.values(things).reduce((told, id) => told.replaceAll(id, 'ID'), text);
}

describe.each(engines())('what one organization learns of another, on $name', (engine) => {
  let server: TestApp;
  let http: HttpClient;
  let caller: Record<string, string>;
  let otherCaller: Record<string, string>;
  let own: Things;
  let their: Things;
  let before: ReadonlyMap<string, string>;
  let statements: Statements;

  /** What the caller is answered on every way to a method over HTTP. */
  const overHttp = async (facts: MethodFacts, fields: Fields): Promise<(readonly [name: string, told: string])[]> =>
    await Promise.all(
      httpWays(facts).map(async (way) => {
        const { url, body } = onWay(way, requestJson(facts, fields));
        const { status, headers, body: content } = await http.send(way.verb, url, { headers: { ...caller, 'x-request-id': 'leaks' }, ...(body && { body }) });
        const { date: _date, etag: _etag, ...others } = headers;
        return [`${way.verb} ${way.route}`, `${status} ${JSON.stringify(others)} ${content.toString()}`.replaceAll(VOLATILE, '')] as const;
      }),
    );

  /** What the caller is answered everywhere that it can read, over gRPC and HTTP. */
  const everything = async (): Promise<ReadonlyMap<string, string>> => {
    const answers = new Map<string, string>();
    for (const facts of reads) {
      const fields = onceEach((REQUESTS[facts.path] ?? CATALOGUE[facts.path])?.(own, own) ?? {});
      const { code, answer, error } = await server.send(facts, encode(facts.request, fields), caller);
      const told = { code, message: error?.message, answer: answer && answerOf(facts, answer) };
      answers.set(facts.path, JSON.stringify(told).replaceAll(VOLATILE, ''));
      if (facts.kind === 'unary') for (const [name, told] of await overHttp(facts, fields)) answers.set(name, told);
    }
    for (const page of ['/healthz', '/readyz', '/openapi.json', '/docs']) answers.set(page, (await http.get(page)).body.toString());
    return answers;
  };

  /** All that an organization does, and more than once. */
  const live = async (headers: Record<string, string>): Promise<Things> => {
    const ask = async (path: string, fields: Fields): Promise<Record<string, unknown>> => await askJson(server, path, fields, headers);
    const things = await furnish(server, headers);
    for (let more = 0; more < 3; more++) {
      const { id } = await ask(`${DEVICES}/CreateDigitalDevice`, { name: `${MARK} device ${more}` });
      await ask(`${DEVICES}/UpdateDigitalDevice`, { id, name: `${MARK} changed ${more}` });
      await ask(`${CONNECTIONS}/CreateConnection`, { connectorId: 'gateway', name: `${MARK} ${more}` });
      await ask(`${TEMPLATES}/CreateNormalizedKey`, { name: `${MARK} key ${more}` });
      await ask(`${ACCESS}/CreateApiKey`, { name: `${MARK} ${more}`, scopes: ['users:read'] });
      await ask(`${ACCESS}/CreateRole`, { name: `${MARK} ${more}`, scopes: ['devices:read'] });
      await ask(`${ACCESS}/AddMember`, { name: `${MARK} person ${more}`, email: `${MARK}${more}@example.org`, roleId: things.role });
      const command = await ask(`${COMMANDS}/CreateCommand`, { id: things.device, command: { name: `${MARK} ${more}`, mode: 1, verificationStrategy: 1, directPayload: '{"on": true}' } });
      const { executionId } = await ask(`${COMMANDS}/ExecuteCommand`, { id: things.device, commandId: command['id'], triggerId: `${MARK}-${more}` });
      await ask(`${COMMANDS}/CancelExecution`, { executionId });
    }
    return things;
  };

  beforeAll(async () => {
    server = await startTestApp(engine);
    http = new HttpClient(server.app.addresses.http as string, server.app.ca);
    const ownerUserId = server.app.bootstrapped?.user.id ?? '';
    const organizationId = await server.organization('The same name');
    caller = as((await server.newKey(organizationId)).key, organizationId);
    own = await furnish(server, caller);
    await new ProfileImports({ database: server.database.database, clock: systemClock }).store('lorawan-devices', vendorOf({ models: [modelOf()] }));
    await everything(); // what only the first call does is done
    before = await everything();
    // The same person owns it: that tells nothing either.
    const { id: other } = await server.app.organizations.create('The same name', ownerUserId);
    otherCaller = as((await server.newKey(other, { ownerUserId })).key, other);
    their = await live(otherCaller);
    statements = new Statements();
  });
  afterAll(async () => {
    statements.stop();
    http.close();
    await server.stop();
  });

  it('is nothing from what it is answered: all of it stays as it was, to the letter', async () => {
    const after = await everything();
    const changed = [...after].filter(([name, told]) => told !== before.get(name));
    expect(Object.fromEntries(changed)).toEqual(Object.fromEntries(changed.map(([name]) => [name, before.get(name)])));
    expect(after.size).toBeGreaterThan(100);
    expect(reads.filter(({ path }) => !after.get(path)?.startsWith('{"code":0')).map(({ path }) => path)).toEqual([]);
    const all = [...after].filter(([name]) => name !== '/openapi.json').map(([, told]) => told).join('\n');
    for (const secret of [MARK, ...Object.values(their)]) expect(all).not.toContain(secret);
    expect(all).toContain(own.device);
  });

  it.each(refused)('is nothing from how %s refuses: the same words after the same statements', async (path, request) => {
    const facts = descriptors.methods.get(path) as MethodFacts;
    const ask = async (things: Things): Promise<{ told: string; ran: readonly string[] }> => {
      let told = '';
      const ran = await statements.of(async () => {
        const { code, answer, error } = await server.send(facts, encode(facts.request, request(things, own)), caller);
        told = JSON.stringify({ code, reason: error?.reason, message: error?.message, violations: error?.violations, metadata: error?.metadata, answer: answer?.toString('hex') });
      });
      return { told: without(told, things), ran };
    };
    await ask(nobody); // what only the first call does is done
    for (let attempt = 1; ; attempt++) {
      const [theirs, unknown] = [await ask(their), await ask(nobody)];
      expect(theirs.told).toBe(unknown.told);
      // Now and then a server does something by itself meanwhile, so once has to do.
      if (attempt < TRIES && theirs.ran.join(';') !== unknown.ran.join(';')) continue;
      expect(theirs.ran).toEqual(unknown.ran);
      return;
    }
  });

  it('is held against statements that were counted', async () => {
    const facts = descriptors.methods.get(`${DEVICES}/GetDigitalDevice`) as MethodFacts;
    expect(await statements.of(async () => await server.send(facts, encode(facts.request, { id: own.device }), caller))).not.toEqual([]);
  });

  it('is nothing from the trail, though an admin key of its own made another one, asked what would go with it, and deleted it', async () => {
    const trail = async (): Promise<string> => JSON.stringify(await askJson(server, `${ACCESS}/ListAuditEvents`, { pageSize: 200 }, caller));
    const admin = as((await server.newKey(own.organization, { isAdmin: true, ownerUserId: server.app.bootstrapped?.user.id ?? '' })).key, own.organization);
    const start = await trail();
    const { id } = await askJson(server, `${ORGANIZATIONS}/CreateOrganization`, { name: MARK }, admin);
    const path = `/api/v2/organizations/${String(id)}`;
    const { confirmation } = await askJson(server, `${ORGANIZATIONS}/DeleteOrganization`, { id }, admin);
    expect((await http.send('DELETE', path, { headers: admin, body: { confirmation, name: MARK } })).json).toMatchObject({ error: { message: 'takes no body; give confirmation, name in the query' } });
    const confirmed = (name: string): string => `${path}?${new URLSearchParams({ confirmation: String(confirmation), name }).toString()}`;
    expect((await http.send('DELETE', confirmed('other'), { headers: admin })).status).toBe(400);
    expect((await http.send('DELETE', confirmed(MARK), { headers: admin })).json).toMatchObject({ deleted: true });
    expect(await trail()).toBe(start);

    // What its keys tried it is told, but not on whom.
    for (const headers of [admin, caller]) expect((await http.send('PATCH', path, { headers, body: { name: MARK } })).status).toBe(404);
    expect((await http.send('DELETE', path, { headers: caller })).status).toBe(403);
    const told = JSON.parse(await trail()) as { events: Record<string, unknown>[] };
    expect(told.events.slice(0, 2).map(({ method, resource, reason }) => [method, resource, reason])).toEqual([
      [`${ORGANIZATIONS}/DeleteOrganization`, undefined, 'admin_key_required'],
      [`${ORGANIZATIONS}/UpdateOrganization`, undefined, 'organization_not_found'], // one of the two is equal to an attempt before, and counted
    ]);
    expect(JSON.stringify(told)).not.toContain(id);
  });

  it('is nothing from naming it instead of its own', async () => {
    const facts = descriptors.methods.get(`${DEVICES}/ListDigitalDevices`) as MethodFacts;
    const ask = async (organizationId: string): Promise<string> => {
      const { code, error } = await server.send(facts, encode(facts.request, {}), as(caller['x-api-key'] ?? '', organizationId));
      const { status, json } = await http.send('GET', `/api/v2/devices?organizationId=${organizationId}`, { headers: { ...caller, 'x-request-id': 'leaks' } });
      return JSON.stringify([code, error?.reason, error?.message, status, json]).replaceAll(organizationId, 'ID');
    };
    expect(await ask(their.organization)).toBe(await ask(nobody.organization));
  });

  it('is nothing from its tokens, which are answered as if they were garbage', async () => {
    for (const [path, fields] of [[`${DEVICES}/ListDigitalDevices`, { limit: 1 }], [`${ACCESS}/ListApiKeys`, { pageSize: 1 }], [`${ACCESS}/ListMembers`, { pageSize: 1 }], [`${ACCESS}/ListAuditEvents`, { pageSize: 1 }]] as const) {
      const { nextPageToken: pageToken } = await askJson(server, path, fields, otherCaller);
      expect(pageToken).toEqual(expect.any(String));
      const facts = descriptors.methods.get(path) as MethodFacts;
      const ask = async (token: unknown): Promise<unknown> => {
        const { code, error } = await server.send(facts, encode(facts.request, { ...fields, pageToken: token }), caller);
        return [code, error?.reason, error?.message, error?.violations];
      };
      expect(await ask(pageToken)).toEqual(await ask('AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA'));
    }
  });

  it('is nothing from the names that it may take itself', async () => {
    for (const [path, fields] of [
      [`${DEVICES}/CreateDigitalDevice`, { name: `${MARK} device 0`, physicalDevice: { clientDeviceId: 'client-of-both', connectionId: own.connection } }],
      [`${CONNECTIONS}/CreateConnection`, { connectorId: 'gateway', name: `${MARK} 0` }],
      [`${TEMPLATES}/CreateNormalizedKey`, { name: `${MARK} key 0` }],
      [`${ACCESS}/CreateApiKey`, { name: `${MARK} 0`, scopes: ['users:read'] }],
      [`${ACCESS}/CreateRole`, { name: `${MARK} 0`, scopes: ['devices:read'] }],
      [`${ACCESS}/AddMember`, { name: `${MARK} person 0`, email: `${MARK}0@example.org`, roleId: own.role }],
      [`${COMMANDS}/CreateCommand`, { id: own.device, command: { name: `${MARK} 0`, mode: 1, verificationStrategy: 1, directPayload: '{"on": true}' } }],
      [`${COMMANDS}/ExecuteCommand`, { id: own.device, commandId: own.command, triggerId: `${MARK}-0` }],
      [`${ORGANIZATIONS}/UpdateOrganization`, { id: own.organization, name: 'The same name' }],
    ] as const) expect(await askJson(server, path, fields, caller)).toBeDefined();
  });
});

import { systemClock } from '../../src/kernel/clock';
import { ProfileImports } from '../../src/profiles';
import type { MethodDescriptor } from '../../src/api/descriptors/descriptors';
import { sqliteOnly } from '../support/engines';
import { HttpClient } from '../support/http';
import { httpWays, buildRequest, requestJson } from '../support/restCalls';
import { Statements } from '../support/statements';
import { as, descriptors, encode, startTestApp, type Fields, type TestApp } from '../support/testApp';
import { getModel, getVendor } from '../support/vendors';
import {
  ACCESS,
  toAnswer,
  callJson,
  COMMANDS,
  CONNECTIONS,
  DEVICES,
  FILTERS,
  createResources,
  nonexistent,
  ORGANIZATIONS,
  REFERENCES,
  REPORTED,
  REQUESTS,
  TEMPLATES,
  type Resources,
} from './foreignRequests';

/** Part of every name in the other organization. */
const MARK = 'zephyr';
/**
 * Values that differ in every response: sealed tokens, the expiry of a link, the last use of a key, the run time of a
 * script.
 */
const VOLATILE =
  /"(?:nextPageToken|nextCursor|resumeToken)":"[^"]*"|"lastUsed\w+":"[^"]*"|\?organization=[^"]*|"executionTimeMs":[\d.]+|"content-length":"\d+"/g;
const TRIES = 5;

type RequestBuilder = (their: Resources, own: Resources) => Fields;
/** Requests that are valid for every organization. */
const CATALOGUE: Readonly<Record<string, RequestBuilder>> = {
  '/connector.ConnectorService/GetConnector': () => ({ id: 'gateway' }),
  [`${DEVICES}/GetDeviceProfileTemplate`]: () => ({ brand: 'quellwerk', model: 'qw-10', band: 'EU868' }),
};
const reads = [...descriptors.methods.values()].filter(
  ({ changes, kind, scope }) => !changes && kind !== 'bidi_streaming' && scope !== 'none',
);
const requests: Readonly<Record<string, RequestBuilder>> = {
  ...CATALOGUE,
  ...Object.fromEntries(REPORTED),
  ...REQUESTS,
};
const refused: readonly (readonly [string, RequestBuilder])[] = [
  ...Object.entries(REQUESTS),
  ...REFERENCES,
  ...FILTERS,
];

/** Returns the same request with each resource named once. */
function onceEach(fields: Fields): Fields {
  return Object.fromEntries(
    Object.entries(fields).map(([name, value]) => [
      name,
      Array.isArray(value) && value.every((item) => typeof item === 'string') ? [...new Set(value)] : value,
    ]),
  );
}

function without(text: string, things: Resources): string {
  return Object.values(things).reduce((redacted, id) => redacted.replaceAll(id, 'ID'), text);
}

describe.each(sqliteOnly())('what one organization learns about another, on $name', (engine) => {
  let server: TestApp;
  let http: HttpClient;
  let caller: Record<string, string>;
  let otherCaller: Record<string, string>;
  let own: Resources;
  let their: Resources;
  let before: ReadonlyMap<string, string>;
  let statements: Statements;

  /** Returns the responses to the caller on every HTTP route of a method. */
  const overHttp = async (
    descriptor: MethodDescriptor,
    fields: Fields,
  ): Promise<(readonly [name: string, response: string])[]> =>
    await Promise.all(
      httpWays(descriptor).map(async (way) => {
        const { url, body } = buildRequest(way, requestJson(descriptor, fields));
        const {
          status,
          headers,
          body: content,
        } = await http.send(way.verb, url, { headers: { ...caller, 'x-request-id': 'leaks' }, ...(body && { body }) });
        const { date: _date, etag: _etag, ...others } = headers;
        return [
          `${way.verb} ${way.route}`,
          `${status} ${JSON.stringify(others)} ${content.toString()}`.replaceAll(VOLATILE, ''),
        ] as const;
      }),
    );

  /** Returns the responses to the caller of every read, over gRPC and HTTP. */
  const everything = async (): Promise<ReadonlyMap<string, string>> => {
    const answers = new Map<string, string>();
    for (const descriptor of reads) {
      const fields = onceEach(requests[descriptor.path]?.(own, own) ?? {});
      const { code, answer, error } = await server.send(descriptor, encode(descriptor.request, fields), caller);
      const response = { code, message: error?.message, answer: answer && toAnswer(descriptor, answer) };
      answers.set(descriptor.path, JSON.stringify(response).replaceAll(VOLATILE, ''));
      if (descriptor.kind === 'unary')
        for (const [name, response] of await overHttp(descriptor, fields)) answers.set(name, response);
    }
    for (const page of ['/healthz', '/readyz', '/openapi.json', '/openapi-grpc.json', '/docs'])
      answers.set(page, (await http.get(page)).body.toString());
    return answers;
  };

  /** Performs every operation of an organization, and more than once. */
  const performEverything = async (headers: Record<string, string>): Promise<Resources> => {
    const callMethod = async (path: string, fields: Fields): Promise<Record<string, unknown>> =>
      await callJson(server, path, fields, headers);
    const things = await createResources(server, headers);
    for (let more = 0; more < 3; more++) {
      const { id } = await callMethod(`${DEVICES}/CreateDigitalDevice`, { name: `${MARK} device ${more}` });
      await callMethod(`${DEVICES}/UpdateDigitalDevice`, { id, name: `${MARK} changed ${more}` });
      await callMethod(`${CONNECTIONS}/CreateConnection`, { connectorId: 'gateway', name: `${MARK} ${more}` });
      await callMethod(`${TEMPLATES}/CreateNormalizedKey`, { name: `${MARK} key ${more}` });
      await callMethod(`${ACCESS}/CreateApiKey`, { name: `${MARK} ${more}`, scopes: ['users:read'] });
      await callMethod(`${ACCESS}/CreateRole`, { name: `${MARK} ${more}`, scopes: ['devices:read'] });
      await callMethod(`${ACCESS}/AddMember`, {
        name: `${MARK} person ${more}`,
        email: `${MARK}${more}@example.org`,
        roleId: things.role,
      });
      const command = await callMethod(`${COMMANDS}/CreateCommand`, {
        id: things.device,
        command: { name: `${MARK} ${more}`, mode: 1, verificationStrategy: 1, directPayload: '{"on": true}' },
      });
      const { executionId } = await callMethod(`${COMMANDS}/ExecuteCommand`, {
        id: things.device,
        commandId: command['id'],
        triggerId: `${MARK}-${more}`,
      });
      await callMethod(`${COMMANDS}/CancelExecution`, { executionId });
    }
    return things;
  };

  beforeAll(async () => {
    server = await startTestApp(engine);
    http = new HttpClient(server.app.addresses.http as string, server.app.ca);
    const ownerUserId = server.app.bootstrapped?.user.id ?? '';
    const organizationId = await server.organization('The same name');
    caller = as((await server.newKey(organizationId)).key, organizationId);
    own = await createResources(server, caller);
    await new ProfileImports({ database: server.database.database, clock: systemClock }).store(
      'lorawan-devices',
      getVendor({ models: [getModel()] }),
    );
    await everything(); // absorbs effects that only the first call has
    before = await everything();
    // The same user owns it: that must not reveal anything either.
    const { id: other } = await server.app.organizations.create('The same name', ownerUserId);
    otherCaller = as((await server.newKey(other, { ownerUserId })).key, other);
    their = await performEverything(otherCaller);
    statements = new Statements();
  });
  afterAll(async () => {
    statements.stop();
    http.close();
    await server.stop();
  });

  it('is nothing from responses: all of them stay exactly as they were', async () => {
    const after = await everything();
    const changed = [...after].filter(([name, response]) => response !== before.get(name));
    expect(Object.fromEntries(changed)).toEqual(Object.fromEntries(changed.map(([name]) => [name, before.get(name)])));
    expect(after.size).toBeGreaterThan(100);
    expect(reads.filter(({ path }) => !after.get(path)?.startsWith('{"code":0')).map(({ path }) => path)).toEqual([]);
    const all = [...after]
      .filter(([name]) => !name.startsWith('/openapi'))
      .map(([, response]) => response)
      .join('\n');
    for (const secret of [MARK, ...Object.values(their)]) expect(all).not.toContain(secret);
    expect(all).toContain(own.device);
  });

  it.each(refused)(
    'is nothing from the errors of %s: the same words after the same statements',
    async (path, request) => {
      const descriptor = descriptors.methods.get(path) as MethodDescriptor;
      const getOutcome = async (things: Resources): Promise<{ response: string; ran: readonly string[] }> => {
        let response = '';
        const ran = await statements.of(async () => {
          const { code, answer, error } = await server.send(
            descriptor,
            encode(descriptor.request, request(things, own)),
            caller,
          );
          response = JSON.stringify({
            code,
            reason: error?.reason,
            message: error?.message,
            violations: error?.violations,
            metadata: error?.metadata,
            answer: answer?.toString('hex'),
          });
        });
        return { response: without(response, things), ran };
      };
      await getOutcome(nonexistent); // absorbs effects that only the first call has
      for (let attempt = 1; ; attempt++) {
        const [foreign, unknown] = [await getOutcome(their), await getOutcome(nonexistent)];
        expect(foreign.response).toBe(unknown.response);
        // A server occasionally runs background work meanwhile, so one match is enough.
        if (attempt < TRIES && foreign.ran.join(';') !== unknown.ran.join(';')) continue;
        expect(foreign.ran).toEqual(unknown.ran);
        return;
      }
    },
  );

  it('is compared with statements that were counted', async () => {
    const descriptor = descriptors.methods.get(`${DEVICES}/GetDigitalDevice`) as MethodDescriptor;
    expect(
      await statements.of(
        async () => await server.send(descriptor, encode(descriptor.request, { id: own.device }), caller),
      ),
    ).not.toEqual([]);
  });

  it('is nothing from the trail when an admin key creates another organization, previews its deletion, and deletes it', async () => {
    const trail = async (): Promise<string> =>
      JSON.stringify(await callJson(server, `${ACCESS}/ListAuditEvents`, { pageSize: 200 }, caller));
    const admin = as(
      (await server.newKey(own.organization, { isAdmin: true, ownerUserId: server.app.bootstrapped?.user.id ?? '' }))
        .key,
      own.organization,
    );
    const start = await trail();
    const { id } = await callJson(server, `${ORGANIZATIONS}/CreateOrganization`, { name: MARK }, admin);
    const path = `/api/v2/organizations/${String(id)}`;
    const { confirmation } = await callJson(server, `${ORGANIZATIONS}/DeleteOrganization`, { id }, admin);
    expect(
      (await http.send('DELETE', path, { headers: admin, body: { confirmation, name: MARK } })).json,
    ).toMatchObject({ error: { message: 'the request must not have a body: set confirmation, name in the query' } });
    const confirmed = (name: string): string =>
      `${path}?${new URLSearchParams({ confirmation: String(confirmation), name }).toString()}`;
    expect((await http.send('DELETE', confirmed('other'), { headers: admin })).status).toBe(400);
    expect((await http.send('DELETE', confirmed(MARK), { headers: admin })).json).toMatchObject({ deleted: true });
    expect(await trail()).toBe(start);

    // The organization sees the attempts of its keys, but not their resources.
    for (const headers of [admin, caller])
      expect((await http.send('PATCH', path, { headers, body: { name: MARK } })).status).toBe(404);
    expect((await http.send('DELETE', path, { headers: caller })).status).toBe(403);
    const auditPage = JSON.parse(await trail()) as { events: Record<string, unknown>[] };
    expect(auditPage.events.slice(0, 2).map(({ method, resource, reason }) => [method, resource, reason])).toEqual([
      [`${ORGANIZATIONS}/DeleteOrganization`, undefined, 'admin_key_required'],
      // One of the two repeats an earlier attempt and is only counted.
      [`${ORGANIZATIONS}/UpdateOrganization`, undefined, 'organization_not_found'],
    ]);
    expect(JSON.stringify(auditPage)).not.toContain(id);
  });

  it('is nothing from naming the other organization', async () => {
    const descriptor = descriptors.methods.get(`${DEVICES}/ListDigitalDevices`) as MethodDescriptor;
    const getOutcome = async (organizationId: string): Promise<string> => {
      const { code, error } = await server.send(
        descriptor,
        encode(descriptor.request, {}),
        as(caller['x-api-key'] ?? '', organizationId),
      );
      const { status, json } = await http.send('GET', `/api/v2/devices?organizationId=${organizationId}`, {
        headers: { ...caller, 'x-request-id': 'leaks' },
      });
      return JSON.stringify([code, error?.reason, error?.message, status, json]).replaceAll(organizationId, 'ID');
    };
    expect(await getOutcome(their.organization)).toBe(await getOutcome(nonexistent.organization));
  });

  it('is nothing from its tokens, which are answered like garbage', async () => {
    for (const [path, fields] of [
      [`${DEVICES}/ListDigitalDevices`, { limit: 1 }],
      [`${ACCESS}/ListApiKeys`, { pageSize: 1 }],
      [`${ACCESS}/ListMembers`, { pageSize: 1 }],
      [`${ACCESS}/ListAuditEvents`, { pageSize: 1 }],
    ] as const) {
      const { nextPageToken: pageToken } = await callJson(server, path, fields, otherCaller);
      expect(pageToken).toEqual(expect.any(String));
      const descriptor = descriptors.methods.get(path) as MethodDescriptor;
      const getOutcome = async (token: unknown): Promise<unknown> => {
        const { code, error } = await server.send(
          descriptor,
          encode(descriptor.request, { ...fields, pageToken: token }),
          caller,
        );
        return [code, error?.reason, error?.message, error?.violations];
      };
      expect(await getOutcome(pageToken)).toEqual(await getOutcome('AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA'));
    }
  });

  it('is nothing from names that it can use itself', async () => {
    for (const [path, fields] of [
      [
        `${DEVICES}/CreateDigitalDevice`,
        {
          name: `${MARK} device 0`,
          physicalDevice: { clientDeviceId: 'client-of-both', connectionId: own.connection },
        },
      ],
      [`${CONNECTIONS}/CreateConnection`, { connectorId: 'gateway', name: `${MARK} 0` }],
      [`${TEMPLATES}/CreateNormalizedKey`, { name: `${MARK} key 0` }],
      [`${ACCESS}/CreateApiKey`, { name: `${MARK} 0`, scopes: ['users:read'] }],
      [`${ACCESS}/CreateRole`, { name: `${MARK} 0`, scopes: ['devices:read'] }],
      [`${ACCESS}/AddMember`, { name: `${MARK} person 0`, email: `${MARK}0@example.org`, roleId: own.role }],
      [
        `${COMMANDS}/CreateCommand`,
        {
          id: own.device,
          command: { name: `${MARK} 0`, mode: 1, verificationStrategy: 1, directPayload: '{"on": true}' },
        },
      ],
      [`${COMMANDS}/ExecuteCommand`, { id: own.device, commandId: own.command, triggerId: `${MARK}-0` }],
      [`${ORGANIZATIONS}/UpdateOrganization`, { id: own.organization, name: 'The same name' }],
    ] as const)
      expect(await callJson(server, path, fields, caller)).toBeDefined();
  });
});

import { status } from '@grpc/grpc-js';
import type { MethodFacts } from '../../src/rpc/descriptors';
import { engines } from '../support/engines';
import { HttpClient, seenHttp } from '../support/http';
import { httpWays, onWay, requestJson, type HttpWay } from '../support/restCalls';
import { as, descriptors, encode, startTestApp, type Fields, type TestApp } from '../support/testApp';
import { ACCESS, ADMIN, askJson, COMMANDS, CONNECTIONS, DEVICES, FILTERS, furnish, MEDIA, nobody, ORGANIZATIONS, OTHERS, REFERENCES, REQUESTS, SHARED, TEMPLATES, type Things } from './foreignRequests';

const takesIds = (facts: MethodFacts): boolean => JSON.stringify(fieldNames(facts.request.typeName)).match(/Ids?"/) !== null || fieldNames(facts.request.typeName).includes('id');

function fieldNames(typeName: string): string[] {
  const message = descriptors.registry.getMessage(typeName);
  return (message?.fields ?? []).flatMap((field) => {
    const own = field.localName === 'organizationId' || field.localName === 'triggerId' ? [] : [field.localName];
    const isOurs = field.message && !field.message.typeName.startsWith('google.');
    return isOurs && field.message ? [...own, ...fieldNames(field.message.typeName)] : own;
  });
}

const overHttp = [...Object.entries(REQUESTS), ...REFERENCES].flatMap(([path, request]) => httpWays(descriptors.methods.get(path) as MethodFacts).map((way) => [`${way.verb} ${way.route}`, way, request] as const));

describe('the table of this test', () => {
  it('knows every method that takes ids', () => {
    const withIds = [...descriptors.methods.values()].filter((facts) => !facts.service.startsWith('grpc.') && takesIds(facts)).map((facts) => facts.path);
    expect(withIds.filter((path) => !SHARED.has(path) && !OTHERS.has(path) && !(path in REQUESTS))).toEqual([]);
  });
});

describe.each(engines())('what belongs to another organization, on $name', (engine) => {
  let server: TestApp;
  let http: HttpClient;
  let caller: Record<string, string>;
  let own: Things;
  let theirs: Things;
  let before: unknown;

  const ask = async (path: string, fields: Fields, headers: Record<string, string>): Promise<Record<string, unknown>> => await askJson(server, path, fields, headers);

  /** All that the other organization would see change. */
  const snapshot = async (): Promise<unknown> => {
    const headers = as(server.key, server.organizationId);
    const all = [
      await ask(`${DEVICES}/GetDigitalDevice`, { id: theirs.device }, headers),
      await ask(`${COMMANDS}/ListCommands`, { id: theirs.device }, headers),
      await ask(`${CONNECTIONS}/GetConnection`, { id: theirs.connection }, headers),
      await ask(`${TEMPLATES}/ListSensorTemplates`, { pageSize: 5 }, headers),
      await ask(`${ACCESS}/ListApiKeys`, {}, headers),
      await ask(`${ACCESS}/ListMembers`, {}, headers),
      await ask(`${ACCESS}/ListRoles`, {}, headers),
      await ask(`${ORGANIZATIONS}/GetOrganization`, { id: theirs.organization }, headers),
      await ask(`${COMMANDS}/GetExecution`, { executionId: theirs.execution }, headers),
      await ask(`${MEDIA}/GetMedia`, { id: theirs.media }, headers),
    ];
    // A link says until when it is valid, a key when it asked for this, and no token of a page is twice the same.
    return JSON.parse(JSON.stringify(all, (name, value: unknown) => (name.startsWith('lastUsed') || name === 'nextPageToken' ? undefined : value)).replaceAll(/\?organization=[^"]+/g, ''));
  };

  /** The answer with every id of it taken out: what is left must not tell whether the thing exists. */
  const answerTo = async (path: string, request: (their: Things, own: Things) => Fields, things: Things): Promise<unknown> => {
    const facts = descriptors.methods.get(path) as MethodFacts;
    const { code, error } = await server.send(facts, encode(facts.request, request(things, own)), caller);
    const text = JSON.stringify({ code, reason: error?.reason, message: error?.message, violations: error?.violations, metadata: error?.metadata });
    return Object.values(things).reduce((told, id) => told.replaceAll(id, 'ID'), text);
  };

  beforeAll(async () => {
    server = await startTestApp(engine);
    http = new HttpClient(server.app.addresses.http as string, server.app.ca);
    const organizationId = await server.organization('The caller');
    caller = as((await server.newKey(organizationId)).key, organizationId);
    theirs = await furnish(server, as(server.key, server.organizationId));
    own = await furnish(server, caller);
    before = await snapshot();
  });
  afterAll(async () => {
    http.close();
    await server.stop();
  });

  it.each(Object.entries(REQUESTS))('%s does not find it', async (path, request) => {
    const facts = descriptors.methods.get(path) as MethodFacts;
    const { code, error } = await server.send(facts, encode(facts.request, request(theirs, own)), caller);
    expect([status.NOT_FOUND, status.INVALID_ARGUMENT]).toContain(code);
    expect(error?.reason).toMatch(/_not_found$|^validation_failed$/);
  });

  it.each([...Object.entries(REQUESTS), ...REFERENCES])('%s answers as if nobody had it', async (path, request) => {
    const toTheirs = await answerTo(path, request, theirs);
    expect(toTheirs).toEqual(await answerTo(path, request, nobody));
    expect(toTheirs).not.toContain('"code":0');
  });

  /** What a call over HTTP is refused with, every id of it taken out. */
  const refusal = async (way: HttpWay, request: (their: Things, own: Things) => Fields, things: Things): Promise<unknown> => {
    const { url, body } = onWay(way, requestJson(way.facts, request(things, own)));
    const { requestId: _, ...seen } = seenHttp(await http.send(way.verb, url, { headers: caller, ...(body && { body }) }));
    const text = JSON.stringify(seen);
    return Object.values(things).reduce((told, id) => told.replaceAll(id, 'ID'), text);
  };

  it.each(overHttp)('%s over HTTP answers as if nobody had it', async (_name, way, request) => {
    const toTheirs = await refusal(way, request, theirs);
    expect(toTheirs).toEqual(await refusal(way, request, nobody));
    expect(toTheirs).toMatch(/^\{"status":(404,"code":"\w+_not_found"|400,"code":"validation_failed")/);
  });

  it.each(FILTERS)('%s shows nothing where it filters by it', async (path, request) => {
    const answers = [];
    for (const things of [theirs, nobody]) answers.push(await ask(path, request(things), caller));
    expect(answers).toEqual([{}, {}]);
  });

  it.each(ADMIN)('%s tells nothing of it to a key that is none of an admin', async (path, request) => {
    for (const things of [theirs, nobody]) expect(JSON.parse((await answerTo(path, request, things)) as string)).toMatchObject({ code: status.PERMISSION_DENIED, reason: 'admin_key_required' });
  });

  it('shows none of it in a list', async () => {
    const all = JSON.stringify([
      await ask(`${DEVICES}/ListDigitalDevices`, {}, caller),
      await ask(`${CONNECTIONS}/ListConnections`, {}, caller),
      await ask(`${TEMPLATES}/ListSensorTemplates`, {}, caller),
      await ask(`${TEMPLATES}/ListNormalizedKeys`, {}, caller),
      await ask(`${ACCESS}/ListApiKeys`, {}, caller),
      await ask(`${ACCESS}/ListMembers`, {}, caller),
      await ask(`${ACCESS}/ListRoles`, {}, caller),
      await ask(`${ORGANIZATIONS}/ListOrganizations`, {}, caller),
    ]);
    for (const id of Object.values(theirs)) expect(all).not.toContain(id);
    expect(all).toContain('"total":1');
  });

  it('is what it was before', async () => {
    expect(await snapshot()).toEqual(before);
  });
});

import { status } from '@grpc/grpc-js';
import type { MethodDescriptor } from '../../src/api/descriptors/descriptors';
import { sqliteOnly } from '../support/engines';
import { HttpClient, parseHttpError } from '../support/http';
import { httpWays, buildRequest, requestJson, type HttpWay } from '../support/restCalls';
import { as, descriptors, encode, startTestApp, type Fields, type TestApp } from '../support/testApp';
import {
  ACCESS,
  ADMIN,
  callJson,
  COMMANDS,
  CONNECTIONS,
  DASHBOARDS,
  DEVICES,
  FILTERS,
  createResources,
  MEDIA,
  nonexistent,
  ORGANIZATIONS,
  OTHERS,
  REFERENCES,
  REPORTED,
  REQUESTS,
  SHARED,
  TEMPLATES,
  type Resources,
} from './foreignRequests';

const takesIds = (descriptor: MethodDescriptor): boolean =>
  JSON.stringify(fieldNames(descriptor.request.typeName)).match(/Ids?"/) !== null ||
  fieldNames(descriptor.request.typeName).includes('id');

function fieldNames(typeName: string): string[] {
  const message = descriptors.registry.getMessage(typeName);
  return (message?.fields ?? []).flatMap((field) => {
    const own = field.localName === 'organizationId' || field.localName === 'triggerId' ? [] : [field.localName];
    const isOurs = field.message && !field.message.typeName.startsWith('google.');
    return isOurs && field.message ? [...own, ...fieldNames(field.message.typeName)] : own;
  });
}

const overHttp = [...Object.entries(REQUESTS), ...REFERENCES].flatMap(([path, request]) =>
  httpWays(descriptors.methods.get(path) as MethodDescriptor).map(
    (way) => [`${way.verb} ${way.route}`, way, request] as const,
  ),
);

describe('the requests of this test', () => {
  it('cover every method that takes ids', () => {
    const withIds = [...descriptors.methods.values()]
      .filter((descriptor) => !descriptor.service.startsWith('grpc.') && takesIds(descriptor))
      .map((descriptor) => descriptor.path);
    expect(withIds.filter((path) => !SHARED.has(path) && !OTHERS.has(path) && !(path in REQUESTS))).toEqual([]);
  });
});

describe.each(sqliteOnly())('resources of another organization, on $name', (engine) => {
  let server: TestApp;
  let http: HttpClient;
  let caller: Record<string, string>;
  let own: Resources;
  let foreign: Resources;
  let before: unknown;

  const callMethod = async (
    path: string,
    fields: Fields,
    headers: Record<string, string>,
  ): Promise<Record<string, unknown>> => await callJson(server, path, fields, headers);

  /** Reads everything of the other organization that could change. */
  const snapshot = async (): Promise<unknown> => {
    const headers = as(server.key, server.organizationId);
    const all = [
      await callMethod(`${DEVICES}/GetDigitalDevice`, { id: foreign.device }, headers),
      await callMethod(`${COMMANDS}/ListCommands`, { id: foreign.device }, headers),
      await callMethod(`${CONNECTIONS}/GetConnection`, { id: foreign.connection }, headers),
      await callMethod(`${TEMPLATES}/ListSensorTemplates`, { pageSize: 5 }, headers),
      await callMethod(`${ACCESS}/ListApiKeys`, {}, headers),
      await callMethod(`${ACCESS}/ListMembers`, {}, headers),
      await callMethod(`${ACCESS}/ListRoles`, {}, headers),
      await callMethod(`${ORGANIZATIONS}/GetOrganization`, { id: foreign.organization }, headers),
      await callMethod(`${COMMANDS}/GetExecution`, { executionId: foreign.execution }, headers),
      await callMethod(`${MEDIA}/GetMedia`, { id: foreign.media }, headers),
      await callMethod(`${DASHBOARDS}/GetDashboard`, { id: foreign.dashboard }, headers),
    ];
    // A link contains its expiry, a key may contain its last use, and page tokens are never equal.
    return JSON.parse(
      JSON.stringify(all, (name, value: unknown) =>
        name.startsWith('lastUsed') || name === 'nextPageToken' ? undefined : value,
      ).replaceAll(/\?organization=[^"]+/g, ''),
    );
  };

  /** Returns the response without the ids of the resources. The rest must not reveal whether they exist. */
  const answerTo = async (
    path: string,
    request: (their: Resources, own: Resources) => Fields,
    things: Resources,
  ): Promise<unknown> => {
    const descriptor = descriptors.methods.get(path) as MethodDescriptor;
    const { code, error } = await server.send(descriptor, encode(descriptor.request, request(things, own)), caller);
    const text = JSON.stringify({
      code,
      reason: error?.reason,
      message: error?.message,
      violations: error?.violations,
      metadata: error?.metadata,
    });
    return Object.values(things).reduce((redacted, id) => redacted.replaceAll(id, 'ID'), text);
  };

  beforeAll(async () => {
    server = await startTestApp(engine);
    http = new HttpClient(server.app.addresses.http as string, server.app.ca);
    const organizationId = await server.organization('The caller');
    caller = as((await server.newKey(organizationId)).key, organizationId);
    foreign = await createResources(server, as(server.key, server.organizationId));
    own = await createResources(server, caller);
    before = await snapshot();
  });
  afterAll(async () => {
    http.close();
    await server.stop();
  });

  it.each(Object.entries(REQUESTS))('%s does not find them', async (path, request) => {
    const descriptor = descriptors.methods.get(path) as MethodDescriptor;
    const { code, error } = await server.send(descriptor, encode(descriptor.request, request(foreign, own)), caller);
    expect([status.NOT_FOUND, status.INVALID_ARGUMENT]).toContain(code);
    expect(error?.reason).toMatch(/_not_found$|^validation_failed$/);
  });

  it.each([...Object.entries(REQUESTS), ...REFERENCES])(
    '%s answers as if they did not exist',
    async (path, request) => {
      const foreignAnswer = await answerTo(path, request, foreign);
      expect(foreignAnswer).toEqual(await answerTo(path, request, nonexistent));
      expect(foreignAnswer).not.toContain('"code":0');
    },
  );

  /** Returns the error of a call over HTTP, without the ids of the resources. */
  const refusal = async (
    way: HttpWay,
    request: (their: Resources, own: Resources) => Fields,
    things: Resources,
  ): Promise<unknown> => {
    const { url, body } = buildRequest(way, requestJson(way.descriptor, request(things, own)));
    const { requestId: _, ...seen } = parseHttpError(
      await http.send(way.verb, url, { headers: caller, ...(body && { body }) }),
    );
    const text = JSON.stringify(seen);
    return Object.values(things).reduce((redacted, id) => redacted.replaceAll(id, 'ID'), text);
  };

  it.each(overHttp)('%s over HTTP answers as if they did not exist', async (_name, way, request) => {
    const foreignAnswer = await refusal(way, request, foreign);
    expect(foreignAnswer).toEqual(await refusal(way, request, nonexistent));
    expect(foreignAnswer).toMatch(/^\{"status":(404,"code":"\w+_not_found"|400,"code":"validation_failed")/);
  });

  it.each(FILTERS)('%s returns nothing when it filters by them', async (path, request) => {
    const answers = [];
    for (const things of [foreign, nonexistent]) answers.push(await callMethod(path, request(things), caller));
    expect(answers).toEqual([{}, {}]);
  });

  it.each(REPORTED)('%s reports foreign ids like unknown ones', async (path, request) => {
    const reports = [];
    for (const things of [foreign, nonexistent])
      reports.push(JSON.stringify(await callMethod(path, request(things), caller)).replaceAll(things.sensor, 'ID'));
    expect(reports[0]).toBe(reports[1]);
    expect(reports[0]).toContain('sensor_not_found');
  });

  it.each(ADMIN)('%s reveals nothing about them to a key without administrator rights', async (path, request) => {
    for (const things of [foreign, nonexistent])
      expect(JSON.parse((await answerTo(path, request, things)) as string)).toMatchObject({
        code: status.PERMISSION_DENIED,
        reason: 'admin_key_required',
      });
  });

  it('do not appear in any list', async () => {
    const all = JSON.stringify([
      await callMethod(`${DEVICES}/ListDigitalDevices`, {}, caller),
      await callMethod(`${CONNECTIONS}/ListConnections`, {}, caller),
      await callMethod(`${DASHBOARDS}/ListDashboards`, {}, caller),
      await callMethod(`${TEMPLATES}/ListSensorTemplates`, {}, caller),
      await callMethod(`${TEMPLATES}/ListNormalizedKeys`, {}, caller),
      await callMethod(`${ACCESS}/ListApiKeys`, {}, caller),
      await callMethod(`${ACCESS}/ListMembers`, {}, caller),
      await callMethod(`${ACCESS}/ListRoles`, {}, caller),
      await callMethod(`${ORGANIZATIONS}/ListOrganizations`, {}, caller),
    ]);
    for (const id of Object.values(foreign)) expect(all).not.toContain(id);
    expect(all).toContain('"total":1');
  });

  it('remain unchanged', async () => {
    expect(await snapshot()).toEqual(before);
  });
});

import { request } from 'node:https';
import { readFileSync } from 'node:fs';
import { SCOPES } from '../../../src/kernel/scopes';
import { engines, type TestEngine } from '../../support/engines';
import { HttpClient, parseHttpError, type HttpAnswer } from '../../support/http';
import { anyPath, HTTP_WAYS, type HttpWay } from '../../support/restCalls';
import { scopesWithout } from '../../support/scopesWithout';
import { as, startTestApp, type TestApp } from '../../support/testApp';
import { missingFields, unknownFields, wrongQuery, wrongTypes } from './wrongRequests';

// Tests every HTTP route of every method and the requests that it must reject, derived from the protos.

const guarded = HTTP_WAYS.filter(([, { descriptor }]) => descriptor.scope !== 'none');
const withBody = guarded.filter(([, { body }]) => body === '*');
const withQuery = guarded.filter(
  ([, { body, inPath, descriptor }]) => body === '' && descriptor.request.fields.length > inPath.length,
);
const withPath = guarded.filter(([, { inPath }]) => inPath.length > 0);
const routes = [...new Set(HTTP_WAYS.map(([, { route }]) => route))].map(
  (route) => [route, HTTP_WAYS.map(([, way]) => way).filter((way) => way.route === route)] as const,
);
const VERBS = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE'];
const MAX_BODY_BYTES = 1024 * 1024;

let server: TestApp;
let http: HttpClient;
/** Keys of an administrator: only with these does every method validate its request. */
let key: string;
const keyWithout: Record<string, string> = {};

beforeAll(async () => {
  server = await startTestApp(engines()[0] as TestEngine);
  ({ key } = await server.newKey(server.organizationId, { isAdmin: true }));
  http = new HttpClient(server.app.addresses.http as string, server.app.ca, as(key, server.organizationId));
  for (const scope of SCOPES)
    keyWithout[scope] = (await server.newKey(server.organizationId, { scopes: scopesWithout(scope) })).key;
});
afterAll(async () => {
  http.close();
  await server.stop();
});

const refused = async (way: HttpWay, body: unknown, path = anyPath(way)): Promise<ReturnType<typeof parseHttpError>> =>
  parseHttpError(await http.send(way.verb, path, { body }));

/** Sends only the head of a call and returns the response. */
async function head(
  verb: string,
  path: string,
  headers: Record<string, string>,
): Promise<{ status: number | undefined }> {
  const { hostname, port } = new URL(`http://${server.app.addresses.http}`);
  const headRequest = request({
    host: hostname,
    port,
    method: verb,
    path,
    headers: { ...as(key, server.organizationId), ...headers },
    agent: false,
    ca: readFileSync(server.app.ca as string),
  });
  const status = await new Promise<number | undefined>((resolve, reject) => {
    headRequest.on('response', (answer) => resolve(answer.statusCode)).on('error', reject);
    headRequest.flushHeaders();
  });
  headRequest.on('error', () => {}).destroy();
  return { status };
}

describe('the request as a whole', () => {
  it.each(guarded.filter(([, { descriptor }]) => descriptor.scope !== 'any'))(
    '%s requires its scope',
    async (_name, way) => {
      const { scope } = way.descriptor;
      const answer = await http.send(way.verb, anyPath(way), {
        headers: as(keyWithout[scope] as string, server.organizationId),
      });
      expect(parseHttpError(answer)).toMatchObject({
        status: 403,
        code: 'insufficient_scope',
        grpc: 'PERMISSION_DENIED',
        metadata: { required_scope: scope },
      });
    },
  );

  it.each(withBody)('%s accepts only JSON', async (_name, way) => {
    for (const type of [
      'text/plain',
      'application/x-www-form-urlencoded',
      'application/xml',
      'multipart/form-data; boundary=x',
      'application/jsonp',
      'nonsense',
    ]) {
      const answer = await http.send(way.verb, anyPath(way), {
        headers: { 'content-type': type },
        body: Buffer.from('{}'),
      });
      expect([type, parseHttpError(answer)]).toMatchObject([type, { status: 415, code: 'media_type_unsupported' }]);
    }
  });

  it.each(withBody)('%s rejects a body that is too large by its head alone', async (_name, way) => {
    expect(
      await head(way.verb, anyPath(way), {
        'content-type': 'application/json',
        'content-length': String(MAX_BODY_BYTES + 1),
      }),
    ).toEqual({ status: 413 });
  });

  it.each(withBody)('%s accepts only a JSON object', async (_name, way) => {
    for (const body of ['null', '[]', '7', '"text"', 'true', ' ', '{', 'undefined', "{'a': 1}", '{"a": 1,}', '{} {}']) {
      const answer = await http.send(way.verb, anyPath(way), {
        headers: { 'content-type': 'application/json' },
        body: Buffer.from(body),
      });
      expect([body, parseHttpError(answer)]).toMatchObject([body, { status: 400, code: 'validation_failed' }]);
    }
  });

  it.each(routes)('%s lists its verbs when the verb is not allowed', async (_route, ways) => {
    const allowed = ways.map(({ verb }) => verb);
    const path = anyPath(ways[0] as HttpWay);
    for (const verb of VERBS.filter((one) => !allowed.includes(one))) {
      const answer = await http.send(verb, path);
      expect([verb, parseHttpError(answer)]).toMatchObject([
        verb,
        { status: 405, code: 'method_not_allowed', grpc: 'UNIMPLEMENTED' },
      ]);
      expect(allowedBy(answer)).toEqual(expect.arrayContaining(allowed));
      expect(allowedBy(answer)).not.toContain(verb);
    }
    const options = await http.send('OPTIONS', path);
    expect([options.status, options.body.length]).toEqual([204, 0]);
    expect(allowedBy(options)).toEqual(expect.arrayContaining([...allowed, 'OPTIONS']));
  });
});

describe('the fields of the request', () => {
  it.each(withBody)(
    '%s rejects each field of each message with a wrong type and names its path',
    async (_name, way) => {
      for (const { what, body, fields } of wrongTypes(way.descriptor.request, way.inPath)) {
        const seen = await refused(way, body);
        expect([what, seen]).toMatchObject([
          what,
          {
            status: 400,
            code: 'validation_failed',
            grpc: 'INVALID_ARGUMENT',
            fields: expect.arrayContaining([...fields]) as unknown,
          },
        ]);
      }
    },
  );

  it.each(withBody)('%s rejects unknown fields in the body and in the query', async (_name, way) => {
    for (const { what, body, fields } of unknownFields(way.descriptor.request))
      expect([what, await refused(way, body)]).toMatchObject([
        what,
        { status: 400, fields: expect.arrayContaining([...fields]) as unknown },
      ]);
    expect(await refused(way, {}, `${anyPath(way)}?nope=1`)).toMatchObject({
      status: 400,
      fields: expect.arrayContaining(['nope']) as unknown,
    });
  });

  it.each(withBody)('%s names missing required fields', async (_name, way) => {
    for (const { what, body, fields } of missingFields(way.descriptor.request, way.inPath))
      expect([what, await refused(way, body)]).toMatchObject([
        what,
        { status: 400, fields: expect.arrayContaining([...fields]) as unknown },
      ]);
  });

  it.each(withQuery)('%s rejects query parameters with a wrong type or an unknown name', async (_name, way) => {
    const wrong = [...wrongQuery(way.descriptor.request, way.inPath), ['nope', '1'] as const];
    for (const pairs of [wrong, ...wrong.map((pair) => [pair])]) {
      const query = new URLSearchParams(Object.fromEntries(pairs)).toString();
      const seen = await refused(way, undefined, `${anyPath(way)}?${query}`);
      expect([
        query,
        seen.status,
        pairs.filter(([name]) => !seen.fields.some((field) => field.startsWith(name))),
      ]).toEqual([query, 400, []]);
    }
  });

  it.each(withQuery)('%s rejects a repeated query parameter', async (_name, way) => {
    const { jsonName } =
      way.descriptor.request.fields.find(
        (field) => field.fieldKind === 'scalar' && !way.inPath.includes(field) && field.name !== 'organization_id',
      ) ?? {};
    if (jsonName === undefined) return;
    expect((await refused(way, undefined, `${anyPath(way)}?${jsonName}=1&${jsonName}=1`)).fields).toContain(jsonName);
  });

  it.each(guarded.filter(([, { verb, body }]) => verb === 'DELETE' && body === ''))(
    '%s rejects a body',
    async (_name, way) => {
      expect(await refused(way, { nope: 1 })).toMatchObject({ status: 400, code: 'validation_failed' });
    },
  );

  it.each(withPath)('%s accepts only ids in its path', async (_name, way) => {
    for (const id of ['a b', 'a\u0000b', 'a\u0007', 'x'.repeat(129), ' ']) {
      const seen = await refused(way, way.body === '*' ? {} : undefined, anyPath(way, id));
      expect([id, seen.status]).toEqual([id, 400]);
      expect([id, seen.fields]).toEqual([id, expect.arrayContaining(way.inPath.map(({ jsonName }) => jsonName))]);
    }
  });
});

function allowedBy(answer: HttpAnswer): string[] {
  return (answer.headers.allow ?? '').split(', ');
}

it('logged no internal error', () => {
  expect(server.log.lines.filter(({ level }) => level === 'error').slice(0, 3)).toEqual([]);
});

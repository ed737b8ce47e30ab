import { UserProfileServiceService } from '../../../src/gen/userprofile/user_profile_service';
import { HttpClient } from '../../support/http';
import { FIELDS, startRestEdge, type RestEdge } from './restEdge';

const USER = '/userprofile.UserProfileService/GetPersonalUser';
const PAGE = 'https://console.example';

describe('headers and status for browsers', () => {
  const started: { edge: RestEdge; client: HttpClient }[] = [];
  const serve = async (corsOrigins: readonly string[]): Promise<{ edge: RestEdge; client: HttpClient }> => {
    const edge = await startRestEdge(
      (server) =>
        server.addService(UserProfileServiceService, {
          getPersonalUser: async () => ({
            id: 'u',
            name: 'n',
            email: '',
            createdAt: undefined,
            updatedAt: undefined,
            memberships: [],
          }),
        }),
      { rest: { corsOrigins } },
    );
    const one = { edge, client: new HttpClient(edge.address, edge.ca) };
    started.push(one);
    return one;
  };
  let closed: HttpClient;
  let some: { edge: RestEdge; client: HttpClient };
  let open: HttpClient;

  beforeAll(async () => {
    closed = (await serve([])).client;
    some = await serve([PAGE, 'http://localhost:5173']);
    open = (await serve(['*'])).client;
  });
  afterAll(async () => {
    for (const { edge, client } of started) {
      client.close();
      await edge.stop();
    }
  });

  /**
   * One response of each kind: from a method, an error of a method, a path without a call, an unknown path and an
   * unreadable path.
   */
  const ANSWERS: readonly (readonly [string, string, string, number, Readonly<Record<string, string>>])[] = [
    ['a call', 'POST', USER, 200, FIELDS],
    ['a call without a key', 'POST', USER, 401, {}],
    ['a body that is too large', 'POST', USER, 413, FIELDS],
    ['a verb that is not accepted', 'GET', USER, 405, FIELDS],
    ['an unknown path', 'GET', '/nowhere', 404, FIELDS],
    ['a path that cannot be decoded', 'GET', '/api/v2/devices/%zz', 400, FIELDS],
    ['the server health', 'GET', '/healthz', 200, {}],
  ];
  const sendRequest = async (
    client: HttpClient,
    [, verb, path, status, headers]: (typeof ANSWERS)[number],
    own: Readonly<Record<string, string>> = {},
  ) =>
    await client
      .send(verb, path, {
        headers: { ...headers, ...own },
        ...(status === 413 ? { body: Buffer.alloc(1024 * 1024 + 1, 32) } : {}),
      })
      .then((answer) => {
        expect(answer.status).toBe(status);
        return answer;
      });

  it.each(ANSWERS)('marks the response of %s as not a page', async (...answer) => {
    const { headers } = await sendRequest(closed, answer);
    expect(headers).toMatchObject({
      'x-content-type-options': 'nosniff',
      'referrer-policy': 'no-referrer',
      'x-frame-options': 'DENY',
      'content-security-policy': "default-src 'none'; frame-ancestors 'none'",
      'cross-origin-resource-policy': 'same-origin',
    });
    for (const name of ['server', 'strict-transport-security', 'x-powered-by'])
      expect(headers).not.toHaveProperty(name);
  });

  it.each(ANSWERS)('allows only the configured origins to read %s', async (...answer) => {
    const named = await sendRequest(some.client, answer, { origin: PAGE });
    expect(named.headers).toMatchObject({
      'access-control-allow-origin': PAGE,
      'access-control-expose-headers': expect.stringContaining('etag'),
      vary: expect.stringMatching(/\borigin\b/),
    });
    for (const headers of [{ origin: 'https://evil.example' }, { origin: 'null' }, {}] as Record<string, string>[]) {
      const other = await sendRequest(some.client, answer, headers);
      expect(Object.keys(other.headers).filter((name) => name.startsWith('access-control'))).toEqual([]);
      expect(other.headers.vary).toMatch(/\borigin\b/);
    }
  });

  it.each(ANSWERS)('sends no CORS header on %s when none is configured', async (...answer) => {
    const { headers } = await sendRequest(closed, answer, { origin: PAGE });
    expect(Object.keys(headers).filter((name) => name.startsWith('access-control'))).toEqual([]);
    expect(headers.vary).toBe('accept-encoding, x-api-key, x-organization-id');
  });

  it('allows every origin when the wildcard is configured', async () => {
    const { headers } = await open.send('POST', USER, { headers: { ...FIELDS, origin: 'https://any.example' } });
    expect(headers).toMatchObject({
      'access-control-allow-origin': '*',
      vary: 'accept-encoding, x-api-key, x-organization-id',
    });
    expect(headers).not.toHaveProperty('access-control-allow-credentials');
  });

  it('answers a preflight without a key and without running a call', async () => {
    const before = some.edge.log.of('rpc.request').length;
    for (const path of [USER, '/nowhere']) {
      const answer = await some.client.send('OPTIONS', path, {
        headers: {
          origin: PAGE,
          'access-control-request-method': 'PATCH',
          'access-control-request-headers': 'x-api-key,if-match',
        },
      });
      expect([answer.status, answer.body.length]).toEqual([204, 0]);
      expect(answer.headers['access-control-allow-origin']).toBe(PAGE);
      expect(answer.headers['access-control-max-age']).toBe('3600');
      expect(answer.headers['access-control-allow-methods']?.split(', ')).toEqual([
        'GET',
        'HEAD',
        'POST',
        'PUT',
        'PATCH',
        'DELETE',
      ]);
      expect(answer.headers['access-control-allow-headers']?.split(', ')).toEqual(
        expect.arrayContaining([
          'content-type',
          'x-api-key',
          'x-organization-id',
          'x-request-id',
          'if-match',
          'if-none-match',
          'range',
          'last-event-id',
        ]),
      );
    }
    expect(some.edge.log.of('rpc.request')).toHaveLength(before);
  });

  it('tells an origin that is not allowed only which methods the path accepts', async () => {
    const { status, headers } = await some.client.send('OPTIONS', USER, {
      headers: { origin: 'https://evil.example', 'access-control-request-method': 'POST' },
    });
    expect([status, headers.allow]).toEqual([204, 'POST, OPTIONS']);
    expect(headers).not.toHaveProperty('access-control-allow-origin');
  });
});

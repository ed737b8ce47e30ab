import { UserProfileServiceService } from '../../../src/gen/userprofile/user_profile_service';
import { HttpClient, parseHttpError } from '../../support/http';
import { startRestEdge, type RestEdge } from './restEdge';

const USER = '/userprofile.UserProfileService/GetPersonalUser';
const PAGE = 'https://console.example';

// Requests outside of the methods get responses of the same format.
describe('health, pages and other paths without a call', () => {
  let edge: RestEdge;
  let http: HttpClient;

  beforeAll(async () => {
    edge = await startRestEdge(
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
      { rest: { docsEnabled: true, corsOrigins: [PAGE] } },
    );
    http = new HttpClient(edge.address, edge.ca);
  });
  afterAll(async () => {
    http.close();
    await edge.stop();
  });

  const PREFLIGHT = { origin: PAGE, 'access-control-request-method': 'POST' };

  it.each<[number, string, string, Record<string, string>]>([
    [200, 'GET', '/healthz', {}],
    [200, 'HEAD', '/readyz', {}],
    [200, 'GET', '/openapi.json', {}],
    [200, 'GET', '/openapi-grpc.json', {}],
    [304, 'GET', '/openapi.json', { 'if-none-match': '*' }],
    [200, 'GET', '/docs/', {}],
    [308, 'GET', '/docs', {}],
    [308, 'GET', '/', {}],
    [204, 'OPTIONS', '/docs/', {}],
    [204, 'OPTIONS', USER, {}],
    [204, 'OPTIONS', USER, PREFLIGHT],
    [405, 'DELETE', '/healthz', {}],
    [401, 'POST', USER, {}],
    [404, 'GET', '/nowhere', {}],
    [400, 'GET', '/%zz', {}],
    [204, 'OPTIONS', '/%zz', PREFLIGHT],
  ])('returns %d for %s %s with the id of the request or a generated one', async (status, verb, path, headers) => {
    const answers = [
      await http.send(verb, path, { headers: { 'x-request-id': 'mine', ...headers } }),
      await http.send(verb, path, { headers }),
    ];
    expect(answers.map((answer) => answer.status)).toEqual([status, status]);
    expect(answers.map((answer) => answer.headers['x-request-id'])).toEqual([
      'mine',
      expect.stringMatching(/^[\da-f-]{36}$/),
    ]);
    if (status >= 400)
      expect(answers.map((answer) => parseHttpError(answer).requestId)).toEqual(
        answers.map((answer) => answer.headers['x-request-id']),
      );
  });

  it.each(['/healthz', '/readyz', '/openapi.json', '/', '/docs', '/docs/'])(
    'accepts only reads at %s',
    async (path) => {
      for (const verb of ['POST', 'PUT', 'PATCH', 'DELETE']) {
        const answer = await http.send(verb, path);
        expect(parseHttpError(answer)).toMatchObject({ status: 405, code: 'method_not_allowed' });
        expect(answer.headers.allow).toBe('GET, HEAD, OPTIONS');
      }
      expect(await http.send('OPTIONS', path)).toMatchObject({ status: 204, headers: { allow: 'GET, HEAD, OPTIONS' } });
    },
  );
});

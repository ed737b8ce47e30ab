import { RestServer } from '../../src/rpc/rest/server';
import type { CallEnd, CallObserver, ObservedCall } from '../../src/rpc/callObserver';
import type { HandlersOf } from '../../src/rpc/handlers';
import { UserProfileServiceClient, UserProfileServiceService, type UserProfileServiceServer } from '../../src/gen/userprofile/user_profile_service';
import { call, callFails, plainText, startEdge, type TestEdge } from '../support/edge';
import { HttpClient } from '../support/http';

const TRACE = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';

/** What an observer was told of one call. */
type Seen = Pick<ObservedCall, 'path' | 'kind' | 'isKnown' | 'transport' | 'requestId' | 'traceparent'> & { readonly end: CallEnd };

describe('who observes calls', () => {
  const seen: Seen[] = [];
  const begun: string[] = [];
  const observers: CallObserver[] = [
    {
      began: ({ path, kind, isKnown, transport, requestId, traceparent }) => {
        begun.push(requestId);
        return { ended: (end) => void seen.push({ path, kind, isKnown, transport, requestId, traceparent, end }) };
      },
    },
    { began: () => undefined }, // one that does not want to know the end keeps nobody else from it
  ];
  let edge: TestEdge;
  let rest: RestServer;
  let http: HttpClient;
  let client: UserProfileServiceClient;

  beforeAll(async () => {
    const handlers: HandlersOf<UserProfileServiceServer> = { getPersonalUser: async () => ({ id: 'u', name: 'n', email: '', createdAt: undefined, updatedAt: undefined, memberships: [] }) };
    edge = await startEdge((server) => server.add(UserProfileServiceService, handlers), { observers });
    rest = new RestServer({ services: edge.server, tls: plainText(edge.log), trustedProxies: [], docs: false, publicUrl: '', links: [] });
    http = new HttpClient((await rest.start('127.0.0.1:0')).address, undefined, { 'x-api-key': edge.keys.add('good'), 'x-organization-id': 'org-1' });
    client = edge.client(UserProfileServiceClient);
  });
  afterAll(async () => {
    http.close();
    await rest.close();
    await edge.stop();
  });
  beforeEach(() => {
    begun.length = 0;
    seen.length = 0;
  });

  it('is told of a call over gRPC, with the trace that it belongs to, and how it ended', async () => {
    await call(client.getPersonalUser.bind(client), { organizationId: '' }, { 'x-api-key': 'good', 'x-organization-id': 'org-1', 'x-request-id': 'r-1', traceparent: TRACE });
    const durationMs: unknown = expect.any(Number);
    expect(seen).toEqual([{ path: '/userprofile.UserProfileService/GetPersonalUser', kind: 'unary', isKnown: true, transport: 'grpc', requestId: 'r-1', traceparent: TRACE, end: { code: 'OK', reason: undefined, http: undefined, durationMs } }]);
  });

  it('is told of one that was refused before its key was known', async () => {
    await callFails(client.getPersonalUser.bind(client), { organizationId: '' }, { 'x-api-key': 'bad', 'x-request-id': 'r-2' });
    expect(begun).toEqual(['r-2']);
    expect(seen).toMatchObject([{ traceparent: undefined, end: { code: 'UNAUTHENTICATED', reason: 'api_key_invalid' } }]);
  });

  it('is told of the same call over HTTP, with its status there', async () => {
    await http.get('/userprofile.UserProfileService/GetPersonalUser'); // no such verb: no call
    await http.send('POST', '/userprofile.UserProfileService/GetPersonalUser', { headers: { 'x-request-id': 'r-3', traceparent: TRACE }, body: {} });
    expect(seen).toMatchObject([{ path: '/userprofile.UserProfileService/GetPersonalUser', transport: 'http', requestId: 'r-3', traceparent: TRACE, end: { code: 'OK', http: 200 } }]);
  });

  it('can tell a method that the server does not have, whose name the caller made up', async () => {
    await callFails((request: Buffer, metadata, callback) => client.makeUnaryRequest('/nobody/Knows', (it: Buffer) => it, (it: Buffer) => it, request, metadata, (error, answer) => callback(error, answer as Buffer)), Buffer.alloc(0), {});
    expect(seen).toMatchObject([{ path: '/nobody/Knows', isKnown: false, end: { code: 'UNIMPLEMENTED', reason: 'method_unknown' } }]);
  });
});

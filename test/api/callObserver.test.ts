import { RestServer } from '../../src/api/rest/restServer';
import type { CallEnd, CallObserver, ObservedCall } from '../../src/api/pipeline/callObserver';
import type { HandlersOf } from '../../src/api/pipeline/handlers';
import {
  UserProfileServiceClient,
  UserProfileServiceService,
  type UserProfileServiceServer,
} from '../../src/gen/userprofile/user_profile_service';
import { call, callFails, plainText, startEdge, type TestEdge } from '../support/edge';
import { HttpClient } from '../support/http';

const TRACE = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';

/** The events that an observer received about one call. */
type RecordedCall = Pick<ObservedCall, 'path' | 'kind' | 'isKnown' | 'transport' | 'requestId' | 'traceparent'> & {
  readonly end: CallEnd;
};

describe('call observers', () => {
  const observed: RecordedCall[] = [];
  const begunIds: string[] = [];
  const observers: CallObserver[] = [
    {
      onCallStarted: ({ path, kind, isKnown, transport, requestId, traceparent }) => {
        begunIds.push(requestId);
        return {
          onCallEnded: (end) => void observed.push({ path, kind, isKnown, transport, requestId, traceparent, end }),
        };
      },
    },
    { onCallStarted: () => undefined }, // an observer that ignores the end must not affect the others
  ];
  let edge: TestEdge;
  let rest: RestServer;
  let http: HttpClient;
  let client: UserProfileServiceClient;

  beforeAll(async () => {
    const handlers: HandlersOf<UserProfileServiceServer> = {
      getPersonalUser: async () => ({
        id: 'u',
        name: 'n',
        email: '',
        createdAt: undefined,
        updatedAt: undefined,
        memberships: [],
      }),
    };
    edge = await startEdge((server) => server.addService(UserProfileServiceService, handlers), { observers });
    rest = new RestServer({
      services: edge.server,
      tls: plainText(edge.log),
      trustedProxies: [],
      docsEnabled: false,
      publicUrl: '',
      links: [],
    });
    http = new HttpClient((await rest.start('127.0.0.1:0')).address, undefined, {
      'x-api-key': edge.keys.add('good'),
      'x-organization-id': 'org-1',
    });
    client = edge.client(UserProfileServiceClient);
  });
  afterAll(async () => {
    http.close();
    await rest.close();
    await edge.stop();
  });
  beforeEach(() => {
    begunIds.length = 0;
    observed.length = 0;
  });

  it('receive a call over gRPC, its trace and its outcome', async () => {
    await call(
      client.getPersonalUser.bind(client),
      { organizationId: '' },
      { 'x-api-key': 'good', 'x-organization-id': 'org-1', 'x-request-id': 'r-1', traceparent: TRACE },
    );
    const durationMs: unknown = expect.any(Number);
    expect(observed).toEqual([
      {
        path: '/userprofile.UserProfileService/GetPersonalUser',
        kind: 'unary',
        isKnown: true,
        transport: 'grpc',
        requestId: 'r-1',
        traceparent: TRACE,
        end: { code: 'OK', reason: undefined, http: undefined, durationMs },
      },
    ]);
  });

  it('receive a call that was rejected before its key was known', async () => {
    await callFails(
      client.getPersonalUser.bind(client),
      { organizationId: '' },
      { 'x-api-key': 'bad', 'x-request-id': 'r-2' },
    );
    expect(begunIds).toEqual(['r-2']);
    expect(observed).toMatchObject([
      { traceparent: undefined, end: { code: 'UNAUTHENTICATED', reason: 'api_key_invalid' } },
    ]);
  });

  it('receive the same call over HTTP, with its HTTP status', async () => {
    await http.get('/userprofile.UserProfileService/GetPersonalUser'); // an unsupported verb is not a call
    await http.send('POST', '/userprofile.UserProfileService/GetPersonalUser', {
      headers: { 'x-request-id': 'r-3', traceparent: TRACE },
      body: {},
    });
    expect(observed).toMatchObject([
      {
        path: '/userprofile.UserProfileService/GetPersonalUser',
        transport: 'http',
        requestId: 'r-3',
        traceparent: TRACE,
        end: { code: 'OK', http: 200 },
      },
    ]);
  });

  it('can recognize an unknown method, whose name comes from the caller', async () => {
    await callFails(
      (request: Buffer, metadata, callback) =>
        client.makeUnaryRequest(
          '/nobody/Knows',
          (it: Buffer) => it,
          (it: Buffer) => it,
          request,
          metadata,
          (error, answer) => callback(error, answer as Buffer),
        ),
      Buffer.alloc(0),
      {},
    );
    expect(observed).toMatchObject([
      { path: '/nobody/Knows', isKnown: false, end: { code: 'UNIMPLEMENTED', reason: 'method_not_found' } },
    ]);
  });
});

import { UserProfileServiceService, type User } from '../../../src/gen/userprofile/user_profile_service';
import { HttpClient } from '../../support/http';
import { FIELDS, startRestEdge, type RestEdge } from './restEdge';

const USER = '/userprofile.UserProfileService/GetPersonalUser';

describe('requests behind proxies', () => {
  const started: { edge: RestEdge; client: HttpClient }[] = [];
  const peers: string[] = [];
  const serve = async (trustedProxies: readonly string[], listen = '127.0.0.1:0'): Promise<HttpClient> => {
    const edge = await startRestEdge(
      (server) =>
        server.addService(UserProfileServiceService, {
          getPersonalUser: async (_, { peer }) => (
            peers.push(peer),
            { id: 'u', memberships: [] as User['memberships'] } as User
          ),
        }),
      { rest: { trustedProxies }, listen, isSecure: listen.startsWith('[::]') },
    );
    const authenticate = edge.keys.authenticate.bind(edge.keys);
    edge.keys.authenticate = (key: string | undefined, peer: string) => (peers.push(peer), authenticate(key, peer));
    const client = new HttpClient(edge.address.replace('[::]', '127.0.0.1'), edge.ca, FIELDS);
    started.push({ edge, client });
    return client;
  };
  /** The peer as seen by authentication, the handler and the log. */
  const peerSeen = async (client: HttpClient, headers: Readonly<Record<string, string>>): Promise<string> => {
    peers.splice(0);
    expect((await client.send('POST', USER, { headers })).status).toBe(200);
    const log = started.find((one) => one.client === client)?.edge.log;
    const all = [...peers, log?.of('rpc.request').at(-1)?.['peer']];
    expect(all).toEqual([all[0], all[0], all[0]]);
    return String(all[0]);
  };
  afterAll(async () => {
    for (const { edge, client } of started) {
      client.close();
      await edge.stop();
    }
  });

  it('ignores X-Forwarded-For unless a proxy is trusted', async () => {
    const client = await serve([]);
    expect(
      await peerSeen(client, {
        'x-forwarded-for': '203.0.113.9',
        'x-forwarded-proto': 'http',
        'x-forwarded-host': 'evil.example',
        forwarded: 'for=203.0.113.9',
      }),
    ).toBe('127.0.0.1');
    const other = await serve(['192.0.2.1', '10.0.0.0/8']);
    expect(await peerSeen(other, { 'x-forwarded-for': '203.0.113.9' })).toBe('127.0.0.1');
  });

  it('uses the address that the trusted proxy saw and ignores earlier entries of the client', async () => {
    const client = await serve(['127.0.0.1', '10.0.0.0/8', '2001:db8::/32']);
    const seen: readonly (readonly [string, string])[] = [
      ['203.0.113.9', '203.0.113.9'],
      ['198.51.100.1, 203.0.113.9', '203.0.113.9'],
      ['127.0.0.1, 203.0.113.9', '203.0.113.9'],
      ['198.51.100.1, 203.0.113.9, 10.1.2.3', '203.0.113.9'],
      ['198.51.100.1, 203.0.113.9, 10.1.2.3, 2001:db8::7', '203.0.113.9'],
      ['2001:db9::1', '2001:db9::1'],
      ['::ffff:203.0.113.9', '203.0.113.9'],
      ['203.0.113.9:4711', '203.0.113.9'],
      ['[2001:db9::1]:4711', '2001:db9::1'],
      ['10.1.2.3', '10.1.2.3'],
      ['unknown', '127.0.0.1'],
      ['<script>', '127.0.0.1'],
      ['', '127.0.0.1'],
    ];
    for (const [forwardedFor, peer] of seen)
      expect([forwardedFor, await peerSeen(client, { 'x-forwarded-for': forwardedFor })]).toEqual([forwardedFor, peer]);
    expect(await peerSeen(client, {})).toBe('127.0.0.1');
  });

  it('shows IPv4 addresses as IPv4 on a dual-stack port and recognizes a proxy there', async () => {
    expect(await peerSeen(await serve([], '[::]:0'), {})).toBe('127.0.0.1');
    expect(await peerSeen(await serve(['127.0.0.1'], '[::]:0'), { 'x-forwarded-for': '203.0.113.9' })).toBe(
      '203.0.113.9',
    );
  });

  it('logs the client address of a request that is rejected before there is a call', async () => {
    const client = await serve(['127.0.0.0/8']);
    expect((await client.get('/nowhere', { 'x-forwarded-for': '203.0.113.9' })).status).toBe(404);
    expect(started.at(-1)?.edge.log.of('http.rejected')).toEqual([expect.objectContaining({ peer: '203.0.113.9' })]);
  });
});

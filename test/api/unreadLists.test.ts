import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { connect, type ClientHttp2Session, type ClientHttp2Stream } from 'node:http2';
import { connect as connectTcp } from 'node:net';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { connect as connectTls } from 'node:tls';
import { DigitalDeviceServiceService, type DigitalDevice } from '../../src/gen/digitaldevice/v2/digital_device_service';
import { ResponseBudget } from '../../src/api/pipeline/responseBudget';
import type { ServerCall } from '../../src/api/pipeline/serverCall';
import type { Services } from '../../src/api/services';
import { startEdge, type FakeAuthenticator } from '../support/edge';
import { frame, packed, PREFACE } from '../support/http2Frames';
import { FIELDS, startRestEdge } from './rest/restEdge';

const RESPONSE_BYTES = 512 * 1024;
const PER_CONNECTION = 2; // 1 MiB
const PER_KEY = 8; // 4 MiB
const GRPC = { 'content-type': 'application/grpc', te: 'trailers' };

let listed = 0;
let onListed = (): void => {};

function addLists(server: Services): void {
  const device = { id: 'd', name: 'x'.repeat(RESPONSE_BYTES), sensors: [], images: [] } as unknown as DigitalDevice;
  server.addService(
    { listDigitalDevices: DigitalDeviceServiceService.listDigitalDevices },
    {
      listDigitalDevices: async () => {
        listed += 1;
        onListed();
        return { devices: [device], total: 1, nextPageToken: '' };
      },
    },
  );
}

/** A server, and how a client calls its list. */
interface ListSite {
  readonly keys: FakeAuthenticator;
  readonly url: string;
  readonly ca: Buffer | undefined;
  readonly request: Readonly<Record<string, string>>;
  /** Undefined for a request that ends with its headers. */
  readonly body: Buffer | undefined;
  stop(): Promise<void>;
}

async function startGrpc(): Promise<ListSite> {
  const edge = await startEdge(addLists);
  edge.keys.add('key');
  const path = '/digitaldevice.v2.DigitalDeviceService/ListDigitalDevices';
  const request = { ':method': 'POST', ':path': path, ...GRPC };
  return { ...edge, url: `http://${edge.address}`, ca: undefined, request, body: Buffer.alloc(5) };
}

async function startHttp(): Promise<ListSite> {
  const edge = await startRestEdge(addLists, { isSecure: true });
  const request = { ':method': 'GET', ':path': '/api/v2/devices' };
  return { ...edge, url: `https://${edge.address}`, ca: readFileSync(edge.ca ?? ''), request, body: undefined };
}

describe.each([
  ['gRPC', startGrpc],
  ['HTTP', startHttp],
])('lists that clients do not read over %s', (_, start) => {
  let site: ListSite;
  let other: ClientHttp2Session;
  const sessions: ClientHttp2Session[] = [];

  beforeAll(async () => {
    site = await start();
    site.keys.add('other');
  });
  beforeEach(async () => {
    listed = 0;
    other = await openSession(1 << 20);
  });
  afterEach(() => sessions.splice(0).forEach((session) => session.destroy()));
  afterAll(async () => await site.stop());

  /** Opens a connection whose client reads this many bytes of each response. */
  async function openSession(initialWindowSize: number): Promise<ClientHttp2Session> {
    const { url, ca } = site;
    const session = connect(url, { ...(ca && { ca }), settings: { initialWindowSize } });
    sessions.push(session.on('error', () => {}));
    await once(session, 'remoteSettings');
    return session;
  }

  const openLists = (session: ClientHttp2Session, count: number, key = 'key'): ClientHttp2Stream[] =>
    Array.from({ length: count }, () => {
      const stream = session.request({ ...site.request, ...FIELDS, 'x-api-key': key });
      stream.on('error', () => {}).resume();
      if (site.body) stream.end(site.body);
      return stream;
    });

  /** Opens lists that the server waits to encode, on several connections. Resolves when it has encoded `expected`. */
  async function openUnreadLists(connections: number, count: number, expected: number): Promise<ClientHttp2Stream[]> {
    const unread = await Promise.all(Array.from({ length: connections }, async () => await openSession(0)));
    const reached = new Promise<void>((resolve) => {
      onListed = () => listed === expected && resolve();
    });
    // The size of the first response is the estimate for the next ones.
    const [first] = openLists(unread[0] as ClientHttp2Session, 1) as [ClientHttp2Stream];
    await once(first, 'response');
    const streams = [first, ...unread.flatMap((session) => openLists(session, count))];
    await reached;
    return streams;
  }

  /** Makes calls with another key, one after the other, which the server starts after those that wait. */
  async function callWithOtherKey(): Promise<void> {
    for (let n = 0; n < 10; n += 1) {
      const [stream] = openLists(other, 1, 'other') as [ClientHttp2Stream];
      await once(stream, 'end');
    }
    listed -= 10;
  }

  it.each([
    ['connection', 1, PER_CONNECTION],
    ['key on all its connections', 8, PER_KEY],
  ])('are encoded up to the limit of a %s, then when they are read', async (_limit, connections, expected) => {
    const streams = await openUnreadLists(connections, 10, expected);
    await callWithOtherKey();
    expect(listed).toBe(expected);
    const ended = streams.map(async (stream) => await once(stream, 'end'));
    for (const session of sessions) {
      session.setLocalWindowSize(1 << 30);
      session.settings({ initialWindowSize: 1 << 24 });
    }
    await Promise.all(ended);
    expect(listed).toBe(streams.length);
  });

  it('do not run if they are reset in the same packet', async () => {
    const { url, ca, request, body = Buffer.alloc(0) } = site;
    const port = Number(new URL(url).port);
    const socket = ca
      ? connectTls({ port, ca, servername: 'localhost', ALPNProtocols: ['h2'] })
      : connectTcp(port, '127.0.0.1');
    await once(socket, ca ? 'secureConnect' : 'connect');
    const pseudo = { ':scheme': 'https', ':authority': 'x' };
    const block = packed({ ...pseudo, ...request, ...FIELDS });
    const calls = [1, 3, 5].flatMap((id) => [
      frame(1, 4, id, block),
      frame(0, 1, id, body),
      frame(3, 0, id, Buffer.from([0, 0, 0, 8])),
    ]);
    socket.write(Buffer.concat([PREFACE, frame(4, 0, 0), ...calls]));
    await once(socket, 'data');
    await callWithOtherKey();
    expect(listed).toBe(0);
    socket.destroy();
  });
});

it('continues a few waiting calls in each turn of the event loop', async () => {
  const budget = new ResponseBudget({ bytesPerConnection: 100, bytesPerKey: 100 });
  const context = { principal: { keyId: 'key' } };
  const [first, ...others] = Array.from(
    { length: 21 },
    () => ({ session: {}, method: { isUnary: true }, context }) as unknown as ServerCall,
  );
  let resumed = 0;
  void budget.registerCall(first as ServerCall);
  budget.setUnreadBytes(first as ServerCall, 100);
  for (const call of others) void budget.registerCall(call)?.then(() => (resumed += 1));
  budget.unregisterCall(first as ServerCall);
  await Promise.resolve();
  expect(resumed).toBe(0); // their connections may be closed in the same turn
  const late = { session: {}, method: { isUnary: true }, context } as unknown as ServerCall;
  expect(budget.registerCall(late)).toBeDefined(); // it waits behind the earlier calls
  for (let turn = 1; turn <= 5; turn += 1) {
    await nextTurn();
    expect(resumed).toBe(4 * turn);
  }
});

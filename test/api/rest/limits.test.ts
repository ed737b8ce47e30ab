import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { connect as connectHttp2, constants, type ClientHttp2Session } from 'node:http2';
import { connect, type Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import { buffer } from 'node:stream/consumers';
import {
  DigitalDeviceServiceService,
  type DigitalDevice,
} from '../../../src/gen/digitaldevice/v2/digital_device_service';
import type { HttpLimits } from '../../../src/api/rest/httpLimits';
import { HttpClient } from '../../support/http';
import { FIELDS, startRestEdge, type RestEdge } from './restEdge';

const { getDigitalDevice, createDigitalDevice } = DigitalDeviceServiceService;
const DEVICE = '/api/v2/devices/d1';
const HEAD = Object.entries({ host: 'x', ...FIELDS })
  .map(([name, value]) => `${name}: ${value}\r\n`)
  .join('');
const QUICK: Partial<HttpLimits> = { headersMs: 300, requestMs: 400, checkMs: 50, lingerMs: 200 };

/** A socket, a session or a stream. */
interface Closing {
  readonly destroyed: boolean;
  resume?(): unknown;
  once(event: 'close', listener: () => void): unknown;
}

/** A frame of HTTP/2. */
function frame(type: number, flags: number, stream: number, payload: Buffer = Buffer.alloc(0)): Buffer {
  const head = Buffer.alloc(9);
  head.writeUIntBE(payload.length, 0, 3);
  head.writeUInt8(type, 3);
  head.writeUInt8(flags, 4);
  head.writeUInt32BE(stream, 5);
  return Buffer.concat([head, payload]);
}

/** Resolves when the connection is closed, with or without an error. */
const closed = async (one: Closing): Promise<void> => {
  if (one.destroyed) return;
  one.resume?.();
  await new Promise<void>((resolve) => one.once('close', resolve));
};

/** Returns everything received until the connection is closed, with or without an error. */
const received = async (socket: Socket): Promise<string> => {
  const chunks: Buffer[] = [];
  socket.on('data', (chunk: Buffer) => chunks.push(chunk));
  await closed(socket);
  return Buffer.concat(chunks).toString();
};

describe.each([
  ['with TLS', true],
  ['without TLS', false],
])('limits of the HTTP port, %s', (_, isSecure) => {
  let edge: RestEdge;
  let client: HttpClient;
  const sockets: Socket[] = [];

  const serve = async (limits: Partial<HttpLimits>): Promise<void> => {
    edge = await startRestEdge(
      (server) => {
        const device = { id: 'd1', name: 'Valve', sensors: [], images: [], etag: '"1"' } as unknown as DigitalDevice;
        server.addService(
          { getDigitalDevice, createDigitalDevice },
          { getDigitalDevice: async () => device, createDigitalDevice: async () => device },
        );
      },
      { isSecure, rest: { limits } },
    );
    client = new HttpClient(edge.address, edge.ca, FIELDS);
  };
  const port = (): number => Number(edge.address.split(':').at(-1));
  /** Opens a connection that is ready for HTTP/1.1. */
  const open = async (): Promise<Socket> => {
    const socket = isSecure
      ? connectTls({
          host: '127.0.0.1',
          port: port(),
          ca: readFileSync(String(edge.ca)),
          servername: 'localhost',
          ALPNProtocols: ['http/1.1'],
        })
      : connect(port(), '127.0.0.1');
    sockets.push(socket);
    socket.on('error', () => {});
    await once(socket, isSecure ? 'secureConnect' : 'connect');
    return socket;
  };
  const send = async (text: string): Promise<string> => {
    const socket = await open();
    socket.write(text);
    return (await buffer(socket)).toString();
  };
  const isServed = async (): Promise<void> => expect((await client.get(DEVICE)).status).toBe(200);

  afterEach(async () => {
    for (const socket of sockets.splice(0)) socket.destroy();
    client.close();
    await edge.stop();
  });

  it('serves others while a thousand connections are idle, and closes those that never send a request', async () => {
    await serve({ ...QUICK, headersMs: 1000, requestMs: 1000 });
    const idle = await Promise.all(Array.from({ length: isSecure ? 200 : 1000 }, open));
    for (let n = 0; n < 5; n += 1) await isServed();
    await Promise.all(idle.map(closed));
    await isServed();
  });

  it('serves others while headers arrive byte by byte, and closes the slow connections', async () => {
    await serve({ ...QUICK, headersMs: 700, requestMs: 700 });
    const slow = await Promise.all(Array.from({ length: 200 }, open));
    const texts = slow.map(async (socket) => await received(socket));
    const dripping = setInterval(() => slow.forEach((socket) => socket.writable && socket.write('x')), 20);
    for (const socket of slow) socket.write(`GET ${DEVICE} HTTP/1.1\r\n${HEAD}x-slow: `);
    await isServed();
    const answers = await Promise.all(texts);
    clearInterval(dripping);
    // A client that still sends when the server closes the connection may not receive the response.
    const responses = answers.filter((text) => text !== '');
    expect(responses.length).toBeGreaterThan(0);
    for (const text of responses) expect(text).toMatch(/^HTTP\/1.1 408 [^]*"code":"request_timeout"/);
    await isServed();
  });

  it.each([
    ['arrives too slowly', 'content-length: 100\r\n\r\n{', 408, 'request_timeout'],
    ['arrives too slowly in chunks', 'transfer-encoding: chunked\r\n\r\n2\r\n{', 408, 'request_timeout'],
    ['contains a broken chunk', 'transfer-encoding: chunked\r\n\r\nZZ\r\n', 400, 'request_malformed'],
  ])('answers a request whose body %s and closes the connection', async (_what, rest, status, code) => {
    await serve(QUICK);
    const slow = await open();
    const text = received(slow);
    slow.write(`POST /api/v2/devices HTTP/1.1\r\n${HEAD}content-type: application/json\r\n${rest}`);
    await isServed();
    const [head = '', body = ''] = (await text).split('\r\n\r\n');
    expect(head).toMatch(new RegExp(`^HTTP/1.1 ${status} `));
    expect(JSON.parse(body)).toMatchObject({ error: { code, requestId: expect.any(String) } });
    await edge.log.until('rpc.request', 2);
    expect(new Set(edge.log.of('rpc.request').map(({ http }) => http))).toEqual(new Set([200, status]));
    await isServed();
  });

  it.each([
    ['bytes that are not HTTP', '\0garbage\r\n\r\n'],
    ['headers without an end', `GET ${DEVICE} HTTP/1.1\r\n${HEAD}`],
  ])('answers the requests before %s and closes the connection', async (_what, after) => {
    await serve(QUICK);
    const socket = await open();
    const text = received(socket);
    socket.write(
      `POST /api/v2/devices HTTP/1.1\r\n${HEAD}content-type: application/json\r\ncontent-length: 14\r\n\r\n{"name": "It"}${after}`,
    );
    expect(await text).toMatch(/^HTTP\/1.1 200 [^]*"name":"Valve"/);
  });

  it.each([
    ['bytes that are not HTTP', 'HELLO\r\n\r\n', 400, 'request_malformed'],
    [
      'two lengths',
      `POST /x HTTP/1.1\r\n${HEAD}content-length: 1\r\ncontent-length: 2\r\n\r\n`,
      400,
      'request_malformed',
    ],
    [
      'a length and chunks',
      `POST /x HTTP/1.1\r\n${HEAD}content-length: 1\r\ntransfer-encoding: chunked\r\n\r\n`,
      400,
      'request_malformed',
    ],
    [
      'headers that are too large',
      `GET ${DEVICE} HTTP/1.1\r\n${HEAD}x-large: ${'x'.repeat(17_000)}\r\n\r\n`,
      431,
      'headers_too_large',
    ],
    [
      'too many headers',
      `GET ${DEVICE} HTTP/1.1\r\n${HEAD}${'a: b\r\n'.repeat(98)}connection: close\r\n\r\n`,
      431,
      'headers_too_large',
    ],
  ])('answers %s in the standard error format', async (_what, text, status, code) => {
    await serve({});
    const [head = '', body = ''] = (await send(text)).split('\r\n\r\n');
    expect(head).toMatch(new RegExp(`^HTTP/1.1 ${status} `));
    expect(JSON.parse(body)).toMatchObject({
      error: { code, requestId: expect.any(String), details: [expect.objectContaining({ reason: code })] },
    });
    expect(edge.log.of('http.rejected')).toEqual([
      expect.objectContaining({ http: status, reason: code, peer: '127.0.0.1' }),
    ]);
    await isServed();
  });

  it('rejects a body that is too large before it is complete, and closes the connection when the client keeps sending', async () => {
    await serve({ lingerMs: 200 });
    for (const length of ['content-length: 9999999999', 'transfer-encoding: chunked']) {
      const large = await open();
      const text = received(large);
      large.write(`POST /api/v2/devices HTTP/1.1\r\n${HEAD}content-type: application/json\r\n${length}\r\n\r\n`);
      const piece = length.startsWith('content') ? ' '.repeat(65_536) : `10000\r\n${' '.repeat(65_536)}\r\n`;
      const writer = setInterval(() => large.writable && large.write(piece), 5);
      expect(await text).toMatch(/^HTTP\/1.1 413 /);
      clearInterval(writer);
    }
    await isServed();
  });

  it('keeps a connection open for the next call and closes one that stays idle', async () => {
    await serve({ ...QUICK, idleMs: 100 });
    const socket = await open();
    const text = buffer(socket);
    socket.write(`GET ${DEVICE} HTTP/1.1\r\n${HEAD}\r\nGET ${DEVICE} HTTP/1.1\r\n${HEAD}\r\n`);
    expect((await text).toString().match(/HTTP\/1.1 200 /g)).toHaveLength(2);
  });

  const session = async (): Promise<ClientHttp2Session> => {
    const http2Client = connectHttp2(`https://${edge.address}`, { ca: readFileSync(String(edge.ca)) });
    http2Client.on('error', () => {});
    await once(http2Client, 'connect');
    return http2Client;
  };

  /** A raw HTTP/2 connection that repeats the same bytes until it is closed. */
  const sendFlood = async (bytesOf: (round: number) => Buffer): Promise<void> => {
    const socket = connectTls({
      host: '127.0.0.1',
      port: port(),
      ca: readFileSync(String(edge.ca)),
      servername: 'localhost',
      ALPNProtocols: ['h2'],
    });
    sockets.push(socket);
    const ended = new Promise((resolve) => socket.once('close', resolve).once('error', resolve));
    await once(socket, 'secureConnect');
    socket.write('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n');
    socket.write(frame(4, 0, 0));
    let round = 0;
    const writer = setInterval(
      () => socket.writable && socket.writableLength < 4_000_000 && socket.write(bytesOf((round += 1))),
      2,
    );
    await isServed();
    socket.resume();
    await ended;
    clearInterval(writer);
    await isServed();
  };

  if (!isSecure) return;

  describe('over HTTP/2', () => {
    it('cuts handshakes that do not finish and accepts others meanwhile', async () => {
      await serve({ ...QUICK, handshakeMs: 300 });
      const silent = await Promise.all(
        Array.from({ length: 50 }, async () => {
          const socket = connect(port(), '127.0.0.1').on('error', () => {});
          sockets.push(socket);
          await once(socket, 'connect');
          return socket;
        }),
      );
      await isServed();
      await Promise.all(silent.map(closed));
    });

    it('announces its limits and closes an idle connection but not an open stream', async () => {
      await serve({ ...QUICK, idleMs: 100, maxConcurrentStreams: 7 });
      const http2Client = await session();
      await once(http2Client, 'remoteSettings');
      expect(http2Client.remoteSettings).toMatchObject({ maxConcurrentStreams: 7, maxHeaderListSize: 16 * 1024 });
      await closed(http2Client);
    });

    it('ends a request whose body does not end', async () => {
      await serve(QUICK);
      const http2Client = await session();
      const stream = http2Client.request(
        { ':method': 'POST', ':path': '/api/v2/devices', 'content-type': 'application/json', ...FIELDS },
        { endStream: false },
      );
      const answered = new Promise<unknown>((resolve) =>
        stream.on('response', ({ ':status': status }) => resolve(status)),
      );
      stream.on('error', () => {});
      stream.write('{');
      await closed(stream);
      expect([await answered, stream.rstCode]).toEqual([408, constants.NGHTTP2_NO_ERROR]);
      await isServed();
      http2Client.close();
    });

    it('ends a rejected request that keeps sending long after the response', async () => {
      await serve({ lingerMs: 100 });
      const http2Client = await session();
      const stream = http2Client.request(
        { ':method': 'POST', ':path': '/api/v2/devices', 'content-type': 'application/json', ...FIELDS },
        { endStream: false },
      );
      const answered = new Promise<unknown>((resolve) =>
        stream.on('response', ({ ':status': status }) => resolve(status)),
      );
      const writer = setInterval(() => stream.writable && stream.write(' '.repeat(65_536)), 5);
      stream.on('error', () => {});
      await closed(stream);
      clearInterval(writer);
      expect([await answered, stream.rstCode]).toEqual([413, constants.NGHTTP2_NO_ERROR]);
      await isServed();
      http2Client.close();
    });

    it('closes a connection that opens and resets calls endlessly', async () => {
      await serve({ ...QUICK, rstStreamBurst: 20, rstStreamsPerSecond: 1 });
      const call = Buffer.from([0x82, 0x87, 0x84, 0x41, 0x01, 0x78]); // GET / of the host x, by the HPACK static table
      await sendFlood((round) => {
        const ids = Array.from({ length: 50 }, (_one, n) => (round * 50 + n) * 2 + 1);
        return Buffer.concat(ids.flatMap((id) => [frame(1, 5, id, call), frame(3, 0, id, Buffer.from([0, 0, 0, 8]))]));
      });
    });

    it('rejects headers that are too many or too large, and keeps the connection', async () => {
      await serve({});
      const http2Client = await session();
      for (const headers of [
        Object.fromEntries(Array.from({ length: 120 }, (_one, n) => [`x-${n}`, 'y'])),
        { 'x-large': 'x'.repeat(17_000) },
      ]) {
        const stream = http2Client.request({ ':path': DEVICE, ...FIELDS, ...headers });
        const refused = new Promise<unknown>((resolve) =>
          stream.on('response', ({ ':status': status }) => resolve(status)).on('error', () => resolve('reset')),
        );
        expect([431, 'reset']).toContain(await refused);
        stream.close();
      }
      await isServed();
      http2Client.destroy();
    });

    it('closes a connection that floods SETTINGS and PING without reading the replies', async () => {
      await serve(QUICK);
      const flood = Buffer.concat(
        Array.from({ length: 2000 }, () => Buffer.concat([frame(4, 0, 0), frame(6, 0, 0, Buffer.alloc(8))])),
      );
      await sendFlood(() => flood);
    });
  });
});

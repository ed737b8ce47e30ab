import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { connect as connectHttp2, constants, type ClientHttp2Session } from 'node:http2';
import { connect, type Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import { buffer } from 'node:stream/consumers';
import { DigitalDeviceServiceService, type DigitalDevice } from '../../src/gen/digitaldevice/v2/digital_device_service';
import type { HttpLimits } from '../../src/rpc/rest/httpLimits';
import { HttpClient } from '../support/http';
import { FIELDS, startRestEdge, type RestEdge } from './restEdge';

const { getDigitalDevice, createDigitalDevice } = DigitalDeviceServiceService;
const DEVICE = '/api/v2/devices/d1';
const HEAD = Object.entries({ host: 'x', ...FIELDS }).map(([name, value]) => `${name}: ${value}\r\n`).join('');
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

/** Resolves when it is closed, in peace or not. */
const closed = async (one: Closing): Promise<void> => {
  if (one.destroyed) return;
  one.resume?.();
  await new Promise<void>((resolve) => one.once('close', resolve));
};

/** All that comes until the connection is closed, in peace or not. */
const received = async (socket: Socket): Promise<string> => {
  const chunks: Buffer[] = [];
  socket.on('data', (chunk: Buffer) => chunks.push(chunk));
  await closed(socket);
  return Buffer.concat(chunks).toString();
};

describe.each([['with TLS', true], ['without TLS', false]])('the limits of the HTTP port, %s', (_, isSecure) => {
  let edge: RestEdge;
  let client: HttpClient;
  const sockets: Socket[] = [];

  const serve = async (limits: Partial<HttpLimits>): Promise<void> => {
    edge = await startRestEdge((server) => {
      const device = { id: 'd1', name: 'Valve', sensors: [], images: [], etag: '"1"' } as unknown as DigitalDevice;
      server.add({ getDigitalDevice, createDigitalDevice }, { getDigitalDevice: async () => device, createDigitalDevice: async () => device });
    }, { isSecure, rest: { limits } });
    client = new HttpClient(edge.address, edge.ca, FIELDS);
  };
  const port = (): number => Number(edge.address.split(':').at(-1));
  /** A connection that is ready to speak HTTP/1.1. */
  const open = async (): Promise<Socket> => {
    const socket = isSecure ? connectTls({ host: '127.0.0.1', port: port(), ca: readFileSync(String(edge.ca)), servername: 'localhost', ALPNProtocols: ['http/1.1'] }) : connect(port(), '127.0.0.1');
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

  it('serves others while a thousand connections are idle, and lets those go that never ask', async () => {
    await serve({ ...QUICK, headersMs: 1000, requestMs: 1000 });
    const idle = await Promise.all(Array.from({ length: isSecure ? 200 : 1000 }, open));
    for (let n = 0; n < 5; n += 1) await isServed();
    await Promise.all(idle.map(closed));
    await isServed();
  });

  it('serves others while headers come byte by byte, and ends those', async () => {
    await serve({ ...QUICK, headersMs: 700, requestMs: 700 });
    const slow = await Promise.all(Array.from({ length: 200 }, open));
    const texts = slow.map(async (socket) => await received(socket));
    const dripping = setInterval(() => slow.forEach((socket) => socket.writable && socket.write('x')), 20);
    for (const socket of slow) socket.write(`GET ${DEVICE} HTTP/1.1\r\n${HEAD}x-slow: `);
    await isServed();
    const answers = await Promise.all(texts);
    clearInterval(dripping);
    // One that still sends when the connection is closed under it may not see why.
    const told = answers.filter((text) => text !== '');
    expect(told.length).toBeGreaterThan(0);
    for (const text of told) expect(text).toMatch(/^HTTP\/1.1 408 [^]*"code":"request_timeout"/);
    await isServed();
  });

  it.each([
    ['comes too slowly', 'content-length: 100\r\n\r\n{', 408, 'request_timeout'],
    ['comes too slowly as chunks', 'transfer-encoding: chunked\r\n\r\n2\r\n{', 408, 'request_timeout'],
    ['comes as a broken chunk', 'transfer-encoding: chunked\r\n\r\nZZ\r\n', 400, 'request_malformed'],
  ])('answers a request whose body %s, and closes the connection', async (_what, rest, status, code) => {
    await serve(QUICK);
    const slow = await open();
    const text = received(slow);
    slow.write(`POST /api/v2/devices HTTP/1.1\r\n${HEAD}content-type: application/json\r\n${rest}`);
    await isServed();
    const [head = '', body = ''] = (await text).split('\r\n\r\n');
    expect(head).toMatch(new RegExp(`^HTTP/1.1 ${status} `));
    expect(JSON.parse(body)).toMatchObject({ error: { code, requestId: expect.any(String) } });
    await edge.log.until('rpc.call', 2);
    expect(new Set(edge.log.of('rpc.call').map(({ http }) => http))).toEqual(new Set([200, status]));
    await isServed();
  });

  it.each([['what is no HTTP', '\0garbage\r\n\r\n'], ['headers that do not end', `GET ${DEVICE} HTTP/1.1\r\n${HEAD}`]])('answers what was carried out before %s, and closes the connection', async (_what, after) => {
    await serve(QUICK);
    const socket = await open();
    const text = received(socket);
    socket.write(`POST /api/v2/devices HTTP/1.1\r\n${HEAD}content-type: application/json\r\ncontent-length: 14\r\n\r\n{"name": "It"}${after}`);
    expect(await text).toMatch(/^HTTP\/1.1 200 [^]*"name":"Valve"/);
  });

  it.each([
    ['what is no HTTP', 'HELLO\r\n\r\n', 400, 'request_malformed'],
    ['two lengths', `POST /x HTTP/1.1\r\n${HEAD}content-length: 1\r\ncontent-length: 2\r\n\r\n`, 400, 'request_malformed'],
    ['a length beside chunks', `POST /x HTTP/1.1\r\n${HEAD}content-length: 1\r\ntransfer-encoding: chunked\r\n\r\n`, 400, 'request_malformed'],
    ['headers that are too large', `GET ${DEVICE} HTTP/1.1\r\n${HEAD}x-large: ${'x'.repeat(17_000)}\r\n\r\n`, 431, 'headers_too_large'],
    ['too many headers', `GET ${DEVICE} HTTP/1.1\r\n${HEAD}${'a: b\r\n'.repeat(98)}connection: close\r\n\r\n`, 431, 'headers_too_large'],
  ])('answers %s in the shape of every error', async (_what, text, status, code) => {
    await serve({});
    const [head = '', body = ''] = (await send(text)).split('\r\n\r\n');
    expect(head).toMatch(new RegExp(`^HTTP/1.1 ${status} `));
    expect(JSON.parse(body)).toMatchObject({ error: { code, requestId: expect.any(String), details: [expect.objectContaining({ reason: code })] } });
    expect(edge.log.of('http.refused')).toEqual([expect.objectContaining({ http: status, reason: code, peer: '127.0.0.1' })]);
    await isServed();
  });

  it('answers a body that is too large before it is whole, and closes the connection when it goes on', async () => {
    await serve({ lingerMs: 200 });
    for (const length of ['content-length: 9999999999', 'transfer-encoding: chunked']) {
      const large = await open();
      const text = received(large);
      large.write(`POST /api/v2/devices HTTP/1.1\r\n${HEAD}content-type: application/json\r\n${length}\r\n\r\n`);
      const piece = length.startsWith('content') ? ' '.repeat(65_536) : `10000\r\n${' '.repeat(65_536)}\r\n`;
      const pouring = setInterval(() => large.writable && large.write(piece), 5);
      expect(await text).toMatch(/^HTTP\/1.1 413 /);
      clearInterval(pouring);
    }
    await isServed();
  });

  it('keeps a connection for the next call, and closes one that is idle for long', async () => {
    await serve({ ...QUICK, idleMs: 100 });
    const socket = await open();
    const text = buffer(socket);
    socket.write(`GET ${DEVICE} HTTP/1.1\r\n${HEAD}\r\nGET ${DEVICE} HTTP/1.1\r\n${HEAD}\r\n`);
    expect((await text).toString().match(/HTTP\/1.1 200 /g)).toHaveLength(2);
  });

  const session = async (): Promise<ClientHttp2Session> => {
    const made = connectHttp2(`https://${edge.address}`, { ca: readFileSync(String(edge.ca)) });
    made.on('error', () => {});
    await once(made, 'connect');
    return made;
  };

  /** A connection that speaks HTTP/2 by hand, and pours the same bytes until it is closed. */
  const pour = async (bytesOf: (round: number) => Buffer): Promise<void> => {
    const socket = connectTls({ host: '127.0.0.1', port: port(), ca: readFileSync(String(edge.ca)), servername: 'localhost', ALPNProtocols: ['h2'] });
    sockets.push(socket);
    const ended = new Promise((resolve) => socket.once('close', resolve).once('error', resolve));
    await once(socket, 'secureConnect');
    socket.write('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n');
    socket.write(frame(4, 0, 0));
    let round = 0;
    const pouring = setInterval(() => socket.writable && socket.writableLength < 4_000_000 && socket.write(bytesOf((round += 1))), 2);
    await isServed();
    socket.resume();
    await ended;
    clearInterval(pouring);
    await isServed();
  };

  if (!isSecure) return;

  describe('over HTTP/2', () => {

    it('cuts handshakes that do not end, and takes others meanwhile', async () => {
      await serve({ ...QUICK, handshakeMs: 300 });
      const silent = await Promise.all(Array.from({ length: 50 }, async () => {
        const socket = connect(port(), '127.0.0.1').on('error', () => {});
        sockets.push(socket);
        await once(socket, 'connect');
        return socket;
      }));
      await isServed();
      await Promise.all(silent.map(closed));
    });

    it('tells its limits, and closes a connection that is idle for long but no stream that is open', async () => {
      await serve({ ...QUICK, idleMs: 100, concurrentStreams: 7 });
      const made = await session();
      await once(made, 'remoteSettings');
      expect(made.remoteSettings).toMatchObject({ maxConcurrentStreams: 7, maxHeaderListSize: 16 * 1024 });
      await closed(made);
    });

    it('ends a request whose body does not end', async () => {
      await serve(QUICK);
      const made = await session();
      const stream = made.request({ ':method': 'POST', ':path': '/api/v2/devices', 'content-type': 'application/json', ...FIELDS }, { endStream: false });
      const answered = new Promise<unknown>((resolve) => stream.on('response', ({ ':status': status }) => resolve(status)));
      stream.on('error', () => {});
      stream.write('{');
      await closed(stream);
      expect([await answered, stream.rstCode]).toEqual([408, constants.NGHTTP2_NO_ERROR]);
      await isServed();
      made.close();
    });

    it('ends a refused request that goes on sending, when its answer is long out', async () => {
      await serve({ lingerMs: 100 });
      const made = await session();
      const stream = made.request({ ':method': 'POST', ':path': '/api/v2/devices', 'content-type': 'application/json', ...FIELDS }, { endStream: false });
      const answered = new Promise<unknown>((resolve) => stream.on('response', ({ ':status': status }) => resolve(status)));
      const pouring = setInterval(() => stream.writable && stream.write(' '.repeat(65_536)), 5);
      stream.on('error', () => {});
      await closed(stream);
      clearInterval(pouring);
      expect([await answered, stream.rstCode]).toEqual([413, constants.NGHTTP2_NO_ERROR]);
      await isServed();
      made.close();
    });

    it('closes a connection that opens and resets calls without end', async () => {
      await serve({ ...QUICK, resetBurst: 20, resetsPerSecond: 1 });
      const call = Buffer.from([0x82, 0x87, 0x84, 0x41, 0x01, 0x78]); // GET / of the host x, by the static table
      await pour((round) => {
        const ids = Array.from({ length: 50 }, (_one, n) => (round * 50 + n) * 2 + 1);
        return Buffer.concat(ids.flatMap((id) => [frame(1, 5, id, call), frame(3, 0, id, Buffer.from([0, 0, 0, 8]))]));
      });
    });

    it('refuses headers that are too many or too large, and goes on', async () => {
      await serve({});
      const made = await session();
      for (const headers of [Object.fromEntries(Array.from({ length: 120 }, (_one, n) => [`x-${n}`, 'y'])), { 'x-large': 'x'.repeat(17_000) }]) {
        const stream = made.request({ ':path': DEVICE, ...FIELDS, ...headers });
        const refused = new Promise<unknown>((resolve) => stream.on('response', ({ ':status': status }) => resolve(status)).on('error', () => resolve('reset')));
        expect([431, 'reset']).toContain(await refused);
        stream.close();
      }
      await isServed();
      made.destroy();
    });

    it('closes a connection that pours SETTINGS and PING, and reads no answer', async () => {
      await serve(QUICK);
      const flood = Buffer.concat(Array.from({ length: 2000 }, () => Buffer.concat([frame(4, 0, 0), frame(6, 0, 0, Buffer.alloc(8))])));
      await pour(() => flood);
    });
  });
});

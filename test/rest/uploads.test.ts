import { readFileSync } from 'node:fs';
import { request as plainRequest, type ClientRequest, type IncomingMessage } from 'node:http';
import { connect as connectHttp2, type IncomingHttpHeaders } from 'node:http2';
import { connect, type Socket } from 'node:net';
import { json } from 'node:stream/consumers';
import { Media, MediaServiceService, type UploadMediaRequest } from '../../src/gen/media/v1/media_service';
import { validationFailed } from '../../src/kernel/errors';
import type { CallContext } from '../../src/rpc/callContext';
import type { Services } from '../../src/rpc/services';
import { HttpClient, seenHttp, type HttpAnswer } from '../support/http';
import { FIELDS, startRestEdge, type RestEdge } from './restEdge';

const ROUTE = '/api/v2/media';
const LARGEST = 10 * 1024 * 1024 + 64 * 1024;
const BYTES = Buffer.from(Array.from({ length: 300_000 }, (_, at) => at % 251));
const PNG = { 'content-type': 'image/png' };

/** The headers of an upload that asks first. */
const askFirst = (key: string): string => `POST ${ROUTE} HTTP/1.1\r\nhost: x\r\nx-api-key: ${key}\r\nx-organization-id: org-1\r\ncontent-type: image/png\r\ncontent-length: 5\r\nexpect: 100-continue\r\n\r\n`;

type Uploading = (requests: AsyncIterable<UploadMediaRequest>, context: CallContext) => Promise<Media>;
let uploading: Uploading;
let received: UploadMediaRequest[];

const collect: Uploading = async (requests, { organizationId }) => {
  for await (const message of requests) received.push(message);
  const sizeBytes = received.reduce((sum, { chunk }) => sum + chunk.length, 0);
  return Media.fromPartial({ id: 'm-1', organizationId, filename: received[0]?.filename ?? '-', sizeBytes });
};
const add = (server: Services): void => server.add({ uploadMedia: MediaServiceService.uploadMedia }, { uploadMedia: (requests, context) => uploading(requests, context) });

beforeEach(() => {
  received = [];
  uploading = collect;
});

const bytes = (): Buffer => Buffer.concat(received.map(({ chunk }) => chunk));

/** A form as a browser makes it. */
async function formOf(parts: readonly (readonly [string, string | Blob, string?])[]): Promise<{ headers: Record<string, string>; body: Buffer }> {
  const form = new FormData();
  for (const [name, value, filename] of parts) {
    if (typeof value === 'string') form.append(name, value);
    else form.append(name, value, filename);
  }
  const made = new Response(form);
  return { headers: { 'content-type': made.headers.get('content-type') ?? '' }, body: Buffer.from(await made.arrayBuffer()) };
}

describe('uploads over HTTP', () => {
  let edge: RestEdge;
  let http: HttpClient;
  beforeAll(async () => {
    edge = await startRestEdge(add, { keyRecheckMs: 20 });
    http = new HttpClient(edge.address, edge.ca, FIELDS);
  });
  afterEach(() => edge.keys.ended.clear());
  afterAll(async () => {
    http.close();
    await edge.stop();
  });

  const post = async (body: Buffer | Buffer[], headers: Record<string, string> = PNG, query = ''): Promise<HttpAnswer> => await http.send('POST', `${ROUTE}${query}`, { body, headers });
  const postForm = async (...parts: (readonly [string, string | Blob, string?])[]): Promise<HttpAnswer> => {
    const { headers, body } = await formOf(parts);
    return await post(body, headers);
  };
  const file = new Blob([BYTES]);

  it.each([
    ['image/png', 'as it is', BYTES],
    ['Image/JPEG; charset=x', 'as it is', BYTES],
    ['application/octet-stream', 'in chunks', [BYTES.subarray(0, 100_000), BYTES.subarray(100_000)]],
  ])('are the body itself, of %s, %s', async (type, _, body) => {
    const { status, json: answer } = await post(body, { 'content-type': type }, '?filename=plan.png');
    expect([status, answer]).toMatchObject([201, { id: 'm-1', filename: 'plan.png', sizeBytes: BYTES.length, organizationId: 'org-1' }]);
    expect(bytes().equals(BYTES)).toBe(true);
    expect(Math.max(...received.map(({ chunk }) => chunk.length))).toBeLessThanOrEqual(65_536);
    expect(received.slice(1).every(({ filename, organizationId }) => filename === undefined && organizationId === '')).toBe(true);
    expect(edge.log.of('rpc.call').at(-1)).toMatchObject({ http: 201, code: 'OK', method: '/media.v1.MediaService/UploadMedia' });
  });

  it.each([
    ['attachment; filename="a \\"b\\".png"', 'a "b".png'],
    ['inline; filename=c.png; x=y', 'c.png'],
    [`attachment; filename="d.png"; filename*=UTF-8''Z%C3%A4hler.png`, 'Zähler.png'],
    [`attachment; filename*=UTF-8''%E4`, ''],
    ['attachment', ''],
    [undefined, ''],
  ])('are named by Content-Disposition %s', async (disposition, filename) => {
    expect((await post(BYTES, { ...PNG, ...(disposition !== undefined && { 'content-disposition': disposition }) })).json['filename']).toBe(filename === '' ? '-' : filename);
  });

  it('are named by the query before that', async () => {
    expect((await post(BYTES, { ...PNG, 'content-disposition': 'x; filename=other' }, '?filename=mine')).json['filename']).toBe('mine');
  });

  it('may be empty, which is for the handler to judge', async () => {
    expect((await post(Buffer.alloc(0))).json).toMatchObject({ sizeBytes: 0 });
    expect(received).toHaveLength(1);
    received = [];
    expect((await postForm(['file', new Blob([]), 'x.png'])).json).toMatchObject({ sizeBytes: 0, filename: 'x.png' });
  });

  it('are the one file of a form, its fields before it', async () => {
    const { status, json: answer } = await postForm(['organizationId', 'org-1'], ['filename', 'plan.png'], ['picture', file, 'other.png']);
    expect([status, answer]).toMatchObject([201, { filename: 'plan.png', sizeBytes: BYTES.length }]);
    expect(bytes().equals(BYTES)).toBe(true);
    received = [];
    expect((await postForm(['picture', file, 'Zähler.png'])).json).toMatchObject({ filename: 'Zähler.png' });
  });

  it.each<[string, (readonly [string, string | Blob, string?])[], string, RegExp]>([
    ['no file', [['filename', 'x']], '', /no file/],
    ['nothing', [], '', /no file|cannot be read/],
    ['two files', [['a', file, 'a.png'], ['b', file, 'b.png']], '', /more than one file/],
    ['a field after the file', [['a', file, 'a.png'], ['filename', 'x']], 'filename', /before/],
    ['a field that is unknown', [['colour', 'red'], ['a', file, 'a.png']], 'colour', /./],
    ['a field twice', [['filename', 'x'], ['filename', 'y'], ['a', file, 'a.png']], 'filename', /./],
    ['too large a field', [['filename', 'x'.repeat(5000)], ['a', file, 'a.png']], 'filename', /too long/],
    ['too many fields', [...Array.from({ length: 30 }, (_, at) => [`f${at}`, 'x'] as const), ['a', file, 'a.png']], '', /too many fields/],
    ['the chunk as a field', [['chunk', 'AAAA'], ['a', file, 'a.png']], 'chunk', /itself/],
    ['a forbidden name', [['__proto__', 'x'], ['a', file, 'a.png']], '', /./],
    ['a field that breaks its rule', [['filename', 'x'.repeat(1025)], ['a', file, 'a.png']], 'filename', /1024/],
  ])('refuse a form with %s', async (_, parts, field, message) => {
    const answer = seenHttp(await postForm(...parts));
    expect(answer).toMatchObject({ status: 400, code: 'validation_failed', fields: [field] });
    expect(answer.message).toMatch(message);
  });

  it.each([
    ['multipart/form-data', 'x'],
    ['multipart/form-data; boundary=b', '--b\r\ncontent-disposition: form-data; name="f"; filename="f"\r\n\r\nhalf'],
    ['multipart/form-data; boundary=b', 'no form at all'],
  ])('refuse what is no form: %s', async (type, body) => {
    expect(seenHttp(await post(Buffer.from(body), { 'content-type': type }))).toMatchObject({ status: 400, code: 'validation_failed' });
  });

  it.each(['application/json', 'text/plain', 'application/x-www-form-urlencoded', 'imagex'])('refuse a body of type %s', async (type) => {
    expect(seenHttp(await post(BYTES, { 'content-type': type })).status).toBe(415);
    expect(received).toEqual([]);
  });

  it('refuse what stands wrong in the query', async () => {
    expect(seenHttp(await post(BYTES, PNG, '?chunk=AAAA'))).toMatchObject({ status: 400, fields: ['chunk'] });
    expect(seenHttp(await post(BYTES, PNG, '?colour=red'))).toMatchObject({ status: 400, fields: ['colour'] });
    expect(seenHttp(await post(BYTES, { ...PNG, 'x-organization-id': '' }))).toMatchObject({ status: 401, code: 'organization_missing' });
    expect(seenHttp(await postForm(['organizationId', 'org-2'], ['a', file, 'a.png']))).toMatchObject({ status: 401, code: 'organization_mismatch' });
  });

  it('are refused when they are too large: by their length at once, else where it is passed', async () => {
    const tooLarge = Buffer.alloc(LARGEST + 1);
    expect(seenHttp(await post(tooLarge))).toMatchObject({ status: 413, code: 'message_too_large' });
    expect(received).toEqual([]);
    expect(seenHttp(await post([tooLarge.subarray(0, LARGEST), tooLarge.subarray(LARGEST)]))).toMatchObject({ status: 413 });
    received = [];
    const { headers, body } = await formOf([['a', new Blob([tooLarge]), 'a.png']]);
    expect(seenHttp(await post([body.subarray(0, 100_000), body.subarray(100_000)], headers))).toMatchObject({ status: 413 });
    expect((await post(tooLarge.subarray(1))).status).toBe(201);
  });

  it('are answered before they are here, and the connection can be used again or is closed', async () => {
    uploading = async (requests) => {
      for await (const { chunk } of requests) if (chunk.length > 0) throw validationFailed([{ field: 'chunk', description: 'is no picture' }]);
      return Media.fromPartial({});
    };
    const asked = plainRequest(`http://${edge.address}${ROUTE}`, { method: 'POST', headers: { ...FIELDS, ...PNG, 'content-length': String(5_000_000) }, agent: false });
    asked.on('error', () => {}).write(BYTES);
    const answer = await answerTo(asked);
    expect([answer.statusCode, await json(answer)]).toMatchObject([400, { error: { code: 'validation_failed' } }]);
    asked.destroy();
    for (let count = 0; count < 5; count += 1) expect(seenHttp(await post(BYTES)).status).toBe(400);
  });

  it('make the caller wait while the handler is slow', async () => {
    const { promise, resolve } = Promise.withResolvers<void>();
    let taken = 0;
    uploading = async (requests) => {
      for await (const { chunk } of requests) {
        taken += chunk.length;
        await promise;
      }
      return Media.fromPartial({ sizeBytes: taken });
    };
    const asked = plainRequest(`http://${edge.address}${ROUTE}`, { method: 'POST', headers: { ...FIELDS, ...PNG }, agent: false });
    const answered = answerTo(asked);
    const piece = Buffer.alloc(1_000_000);
    for (let count = 0; count < 9; count += 1) asked.write(piece);
    asked.end();
    for (let count = 0; count < 20; count += 1) await http.get('/healthz');
    expect(taken).toBeLessThanOrEqual(65_536);
    expect(asked.writableLength).toBeGreaterThan(0);
    resolve();
    expect(await json(await answered)).toMatchObject({ sizeBytes: 9_000_000 });
  });

  it.each([
    ['the body', PNG, Buffer.alloc(100_000)],
    ['a form', { 'content-type': 'multipart/form-data; boundary=b' }, Buffer.from(`--b\r\ncontent-disposition: form-data; name="f"; filename="f"\r\n\r\n${'x'.repeat(100_000)}`)],
  ])('are cancelled when the caller breaks off %s', async (_, headers, half) => {
    const begun = Promise.withResolvers<void>();
    const told = new Promise<unknown>((resolve) => {
      uploading = async (requests, { signal }) => {
        try {
          for await (const message of requests) if (message.chunk.length > 0) begun.resolve();
          resolve('whole');
        } catch (error) {
          resolve([error, signal.aborted]);
        }
        return Media.fromPartial({});
      };
    });
    const asked = plainRequest(`http://${edge.address}${ROUTE}`, { method: 'POST', headers: { ...FIELDS, ...headers, 'content-length': '9000000' }, agent: false });
    asked.on('error', () => {}).write(half);
    await begun.promise;
    asked.destroy();
    expect(await told).toMatchObject([{ reason: 'cancelled' }, true]);
    expect(edge.log.of('rpc.call').at(-1)).toMatchObject({ code: 'CANCELLED', http: 499 });
  });

  it('end when their key is revoked', async () => {
    const asked = plainRequest(`http://${edge.address}${ROUTE}`, { method: 'POST', headers: { ...FIELDS, ...PNG }, agent: false });
    uploading = async (requests, context) => {
      edge.keys.ended.set('key', validationFailed([]));
      edge.keys.ended.set('key', Object.assign(validationFailed([]), { kind: 'unauthenticated', reason: 'api_key_revoked' }));
      return await collect(requests, context);
    };
    asked.on('error', () => {}).write(BYTES);
    const answer = await answerTo(asked);
    expect([answer.statusCode, await json(answer)]).toMatchObject([401, { error: { code: 'api_key_revoked' } }]);
    asked.destroy();
  });

  describe('of a caller that asks first', () => {
    it('are wanted only when its key has passed', async () => {
      const socket = await socketTo(edge.address);
      socket.write(askFirst('key'));
      const seen = reader(socket);
      expect(await seen(/\r\n\r\n/)).toMatch(/^HTTP\/1\.1 100 Continue\r\n\r\n$/);
      socket.write('hello');
      expect(await seen(/m-1/)).toMatch(/HTTP\/1\.1 201 Created/);
      expect(bytes().toString()).toBe('hello');
      socket.destroy();
    });

    it('are refused without being asked for, and the connection is closed', async () => {
      const socket = await socketTo(edge.address);
      const ended = new Promise<void>((resolve) => socket.once('close', () => resolve()));
      socket.write(askFirst('nobody'));
      const seen = reader(socket);
      const answer = await seen(/api_key_invalid/);
      expect(answer).toMatch(/^HTTP\/1\.1 401 /);
      expect(answer).toMatch(/\r\nconnection: close\r\n/i);
      await ended;
    });
  });
});

describe('uploads over HTTP/2', () => {
  it('are the same; one that is refused is answered while it is sent', async () => {
    const edge = await startRestEdge(add, { isSecure: true });
    const session = connectHttp2(`https://${edge.address}`, { ca: readFileSync(edge.ca as string) });
    const open = () => {
      const stream = session.request({ ':method': 'POST', ':path': `${ROUTE}?filename=h2`, ...FIELDS, ...PNG });
      return { stream, headers: new Promise<IncomingHttpHeaders>((resolve) => stream.on('response', resolve)), closed: new Promise<void>((resolve) => stream.once('close', resolve)) };
    };
    const one = open();
    one.stream.end(BYTES);
    expect([await one.headers, await json(one.stream)]).toMatchObject([{ ':status': 201 }, { filename: 'h2', sizeBytes: BYTES.length }]);
    expect(bytes().equals(BYTES)).toBe(true);
    uploading = async () => await Promise.reject(validationFailed([{ field: 'chunk', description: 'is no picture' }]));
    const two = open();
    two.stream.write(Buffer.alloc(3_000_000));
    expect([await two.headers, await json(two.stream)]).toMatchObject([{ ':status': 400 }, { error: { code: 'validation_failed' } }]);
    two.stream.end();
    await two.closed;
    session.close();
    await edge.stop();
  });
});

async function answerTo(asked: ClientRequest): Promise<IncomingMessage> {
  return await new Promise((resolve, reject) => asked.on('response', resolve).on('error', reject));
}

async function socketTo(address: string): Promise<Socket> {
  const { hostname, port } = new URL(`http://${address}`);
  return await new Promise((resolve) => {
    const socket = connect(Number(port), hostname, () => resolve(socket));
  });
}

/** What a socket has said since it was last asked, up to a pattern. */
function reader(socket: Socket): (until: RegExp) => Promise<string> {
  let said = '';
  let look: (() => void) | undefined;
  socket.on('data', (piece: Buffer) => {
    said += piece.toString();
    look?.();
  });
  return async (until) =>
    await new Promise((resolve) => {
      look = () => {
        if (!until.test(said)) return;
        resolve(said);
        said = '';
        look = undefined;
      };
      look();
    });
}

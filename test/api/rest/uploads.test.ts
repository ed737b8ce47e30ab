import { readFileSync } from 'node:fs';
import { request as plainRequest, type ClientRequest, type IncomingMessage } from 'node:http';
import { connect as connectHttp2, type IncomingHttpHeaders } from 'node:http2';
import { connect, type Socket } from 'node:net';
import { json } from 'node:stream/consumers';
import { Media, MediaServiceService, type UploadMediaRequest } from '../../../src/gen/media/v1/media_service';
import { validationFailed } from '../../../src/kernel/errors';
import type { CallContext } from '../../../src/api/pipeline/callContext';
import type { Services } from '../../../src/api/services';
import { HttpClient, parseHttpError, type HttpAnswer } from '../../support/http';
import { FIELDS, startRestEdge, type RestEdge } from './restEdge';

const ROUTE = '/api/v2/media';
const MAX_UPLOAD_BYTES = 10 * 1024 * 1024 + 64 * 1024;
const BYTES = Buffer.from(Array.from({ length: 300_000 }, (_, at) => at % 251));
const PNG = { 'content-type': 'image/png' };

/** The headers of an upload that sends Expect: 100-continue. */
const formatExpectHead = (key: string): string =>
  `POST ${ROUTE} HTTP/1.1\r\nhost: x\r\nx-api-key: ${key}\r\nx-organization-id: org-1\r\ncontent-type: image/png\r\ncontent-length: 5\r\nexpect: 100-continue\r\n\r\n`;

type Uploading = (requests: AsyncIterable<UploadMediaRequest>, context: CallContext) => Promise<Media>;
let uploading: Uploading;
let received: UploadMediaRequest[];

const collect: Uploading = async (requests, { organizationId }) => {
  for await (const message of requests) received.push(message);
  const sizeBytes = received.reduce((sum, { chunk }) => sum + chunk.length, 0);
  return Media.fromPartial({ id: 'm-1', organizationId, filename: received[0]?.filename ?? '-', sizeBytes });
};
const add = (server: Services): void =>
  server.addService(
    { uploadMedia: MediaServiceService.uploadMedia },
    { uploadMedia: (requests, context) => uploading(requests, context) },
  );

beforeEach(() => {
  received = [];
  uploading = collect;
});

const bytes = (): Buffer => Buffer.concat(received.map(({ chunk }) => chunk));

/** Encodes a form as a browser does. */
async function getForm(
  parts: readonly (readonly [string, string | Blob, string?])[],
): Promise<{ headers: Record<string, string>; body: Buffer }> {
  const form = new FormData();
  for (const [name, value, filename] of parts) {
    if (typeof value === 'string') form.append(name, value);
    else form.append(name, value, filename);
  }
  const response = new Response(form);
  return {
    headers: { 'content-type': response.headers.get('content-type') ?? '' },
    body: Buffer.from(await response.arrayBuffer()),
  };
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

  const post = async (
    body: Buffer | Buffer[],
    headers: Record<string, string> = PNG,
    query = '',
  ): Promise<HttpAnswer> => await http.send('POST', `${ROUTE}${query}`, { body, headers });
  const postForm = async (...parts: (readonly [string, string | Blob, string?])[]): Promise<HttpAnswer> => {
    const { headers, body } = await getForm(parts);
    return await post(body, headers);
  };
  const file = new Blob([BYTES]);

  it.each([
    ['image/png', 'one piece', BYTES],
    ['Image/JPEG; charset=x', 'one piece', BYTES],
    ['application/octet-stream', 'chunks', [BYTES.subarray(0, 100_000), BYTES.subarray(100_000)]],
  ])('accept the raw body of %s, sent in %s', async (type, _, body) => {
    const { status, json: answer } = await post(body, { 'content-type': type }, '?filename=plan.png');
    expect([status, answer]).toMatchObject([
      201,
      { id: 'm-1', filename: 'plan.png', sizeBytes: BYTES.length, organizationId: 'org-1' },
    ]);
    expect(bytes().equals(BYTES)).toBe(true);
    expect(Math.max(...received.map(({ chunk }) => chunk.length))).toBeLessThanOrEqual(65_536);
    expect(
      received.slice(1).every(({ filename, organizationId }) => filename === undefined && organizationId === ''),
    ).toBe(true);
    expect(edge.log.of('rpc.request').at(-1)).toMatchObject({
      http: 201,
      code: 'OK',
      method: '/media.v1.MediaService/UploadMedia',
    });
  });

  it.each([
    ['attachment; filename="a \\"b\\".png"', 'a "b".png'],
    ['inline; filename=c.png; x=y', 'c.png'],
    [`attachment; filename="d.png"; filename*=UTF-8''Z%C3%A4hler.png`, 'Zähler.png'],
    [`attachment; filename*=UTF-8''%E4`, ''],
    ['attachment', ''],
    [undefined, ''],
  ])('take their name from Content-Disposition %s', async (disposition, filename) => {
    expect(
      (await post(BYTES, { ...PNG, ...(disposition !== undefined && { 'content-disposition': disposition }) })).json[
        'filename'
      ],
    ).toBe(filename === '' ? '-' : filename);
  });

  it('prefer the name in the query', async () => {
    expect(
      (await post(BYTES, { ...PNG, 'content-disposition': 'x; filename=other' }, '?filename=mine')).json['filename'],
    ).toBe('mine');
  });

  it('may be empty; the handler decides', async () => {
    expect((await post(Buffer.alloc(0))).json).toMatchObject({ sizeBytes: 0 });
    expect(received).toHaveLength(1);
    received = [];
    expect((await postForm(['file', new Blob([]), 'x.png'])).json).toMatchObject({ sizeBytes: 0, filename: 'x.png' });
  });

  it('accept the single file of a form, with the fields before it', async () => {
    const { status, json: answer } = await postForm(
      ['organizationId', 'org-1'],
      ['filename', 'plan.png'],
      ['picture', file, 'other.png'],
    );
    expect([status, answer]).toMatchObject([201, { filename: 'plan.png', sizeBytes: BYTES.length }]);
    expect(bytes().equals(BYTES)).toBe(true);
    received = [];
    expect((await postForm(['picture', file, 'Zähler.png'])).json).toMatchObject({ filename: 'Zähler.png' });
  });

  it.each<[string, (readonly [string, string | Blob, string?])[], string, RegExp]>([
    ['no file', [['filename', 'x']], '', /no file/],
    ['nothing', [], '', /no file|cannot be read/],
    [
      'two files',
      [
        ['a', file, 'a.png'],
        ['b', file, 'b.png'],
      ],
      '',
      /more than one file/,
    ],
    [
      'a field after the file',
      [
        ['a', file, 'a.png'],
        ['filename', 'x'],
      ],
      'filename',
      /before/,
    ],
    [
      'an unknown field',
      [
        ['colour', 'red'],
        ['a', file, 'a.png'],
      ],
      'colour',
      /./,
    ],
    [
      'a field twice',
      [
        ['filename', 'x'],
        ['filename', 'y'],
        ['a', file, 'a.png'],
      ],
      'filename',
      /./,
    ],
    [
      'a field that is too large',
      [
        ['filename', 'x'.repeat(5000)],
        ['a', file, 'a.png'],
      ],
      'filename',
      /too long/,
    ],
    [
      'too many fields',
      [...Array.from({ length: 30 }, (_, at) => [`f${at}`, 'x'] as const), ['a', file, 'a.png']],
      '',
      /too many fields/,
    ],
    [
      'the chunk as a field',
      [
        ['chunk', 'AAAA'],
        ['a', file, 'a.png'],
      ],
      'chunk',
      /is the body or the file of the form/,
    ],
    [
      'a forbidden field name',
      [
        ['__proto__', 'x'],
        ['a', file, 'a.png'],
      ],
      '',
      /./,
    ],
    [
      'a field that breaks its rule',
      [
        ['filename', 'x'.repeat(1025)],
        ['a', file, 'a.png'],
      ],
      'filename',
      /1024/,
    ],
  ])('reject a form with %s', async (_, parts, field, message) => {
    const answer = parseHttpError(await postForm(...parts));
    expect(answer).toMatchObject({ status: 400, code: 'validation_failed', fields: [field] });
    expect(answer.message).toMatch(message);
  });

  it.each([
    ['multipart/form-data', 'x'],
    ['multipart/form-data; boundary=b', '--b\r\ncontent-disposition: form-data; name="f"; filename="f"\r\n\r\nhalf'],
    ['multipart/form-data; boundary=b', 'no form at all'],
  ])('reject an invalid form: %s', async (type, body) => {
    expect(parseHttpError(await post(Buffer.from(body), { 'content-type': type }))).toMatchObject({
      status: 400,
      code: 'validation_failed',
    });
  });

  it.each(['application/json', 'text/plain', 'application/x-www-form-urlencoded', 'imagex'])(
    'reject a body of type %s',
    async (type) => {
      expect(parseHttpError(await post(BYTES, { 'content-type': type })).status).toBe(415);
      expect(received).toEqual([]);
    },
  );

  it('reject invalid query parameters', async () => {
    expect(parseHttpError(await post(BYTES, PNG, '?chunk=AAAA'))).toMatchObject({ status: 400, fields: ['chunk'] });
    expect(parseHttpError(await post(BYTES, PNG, '?colour=red'))).toMatchObject({ status: 400, fields: ['colour'] });
    expect(parseHttpError(await post(BYTES, { ...PNG, 'x-organization-id': '' }))).toMatchObject({
      status: 401,
      code: 'organization_required',
    });
    expect(parseHttpError(await postForm(['organizationId', 'org-2'], ['a', file, 'a.png']))).toMatchObject({
      status: 401,
      code: 'organization_mismatch',
    });
  });

  it('are rejected when too large, at once by their length or otherwise when the limit is passed', async () => {
    const tooLarge = Buffer.alloc(MAX_UPLOAD_BYTES + 1);
    expect(parseHttpError(await post(tooLarge))).toMatchObject({ status: 413, code: 'message_too_large' });
    expect(received).toEqual([]);
    expect(
      parseHttpError(await post([tooLarge.subarray(0, MAX_UPLOAD_BYTES), tooLarge.subarray(MAX_UPLOAD_BYTES)])),
    ).toMatchObject({
      status: 413,
    });
    received = [];
    const { headers, body } = await getForm([['a', new Blob([tooLarge]), 'a.png']]);
    expect(parseHttpError(await post([body.subarray(0, 100_000), body.subarray(100_000)], headers))).toMatchObject({
      status: 413,
    });
    expect((await post(tooLarge.subarray(1))).status).toBe(201);
  });

  it('can be answered before the body is complete; the connection is reused or closed', async () => {
    uploading = async (requests) => {
      for await (const { chunk } of requests)
        if (chunk.length > 0) throw validationFailed([{ field: 'chunk', description: 'is no picture' }]);
      return Media.fromPartial({});
    };
    const clientRequest = plainRequest(`http://${edge.address}${ROUTE}`, {
      method: 'POST',
      headers: { ...FIELDS, ...PNG, 'content-length': String(5_000_000) },
      agent: false,
    });
    clientRequest.on('error', () => {}).write(BYTES);
    const answer = await answerTo(clientRequest);
    expect([answer.statusCode, await json(answer)]).toMatchObject([400, { error: { code: 'validation_failed' } }]);
    clientRequest.destroy();
    for (let count = 0; count < 5; count += 1) expect(parseHttpError(await post(BYTES)).status).toBe(400);
  });

  it('apply backpressure while the handler is slow', async () => {
    const { promise, resolve } = Promise.withResolvers<void>();
    let consumed = 0;
    uploading = async (requests) => {
      for await (const { chunk } of requests) {
        consumed += chunk.length;
        await promise;
      }
      return Media.fromPartial({ sizeBytes: consumed });
    };
    const clientRequest = plainRequest(`http://${edge.address}${ROUTE}`, {
      method: 'POST',
      headers: { ...FIELDS, ...PNG },
      agent: false,
    });
    const answered = answerTo(clientRequest);
    const piece = Buffer.alloc(1_000_000);
    for (let count = 0; count < 9; count += 1) clientRequest.write(piece);
    clientRequest.end();
    for (let count = 0; count < 20; count += 1) await http.get('/healthz');
    expect(consumed).toBeLessThanOrEqual(65_536);
    expect(clientRequest.writableLength).toBeGreaterThan(0);
    resolve();
    expect(await json(await answered)).toMatchObject({ sizeBytes: 9_000_000 });
  });

  it.each([
    ['the body', PNG, Buffer.alloc(100_000)],
    [
      'a form',
      { 'content-type': 'multipart/form-data; boundary=b' },
      Buffer.from(`--b\r\ncontent-disposition: form-data; name="f"; filename="f"\r\n\r\n${'x'.repeat(100_000)}`),
    ],
  ])('are cancelled when the client aborts %s', async (_, headers, half) => {
    const started = Promise.withResolvers<void>();
    const outcome = new Promise<unknown>((resolve) => {
      uploading = async (requests, { signal }) => {
        try {
          for await (const message of requests) if (message.chunk.length > 0) started.resolve();
          resolve('whole');
        } catch (error) {
          resolve([error, signal.aborted]);
        }
        return Media.fromPartial({});
      };
    });
    const clientRequest = plainRequest(`http://${edge.address}${ROUTE}`, {
      method: 'POST',
      headers: { ...FIELDS, ...headers, 'content-length': '9000000' },
      agent: false,
    });
    clientRequest.on('error', () => {}).write(half);
    await started.promise;
    clientRequest.destroy();
    expect(await outcome).toMatchObject([{ reason: 'cancelled' }, true]);
    expect(edge.log.of('rpc.request').at(-1)).toMatchObject({ code: 'CANCELLED', http: 499 });
  });

  it('end when their key is revoked', async () => {
    const clientRequest = plainRequest(`http://${edge.address}${ROUTE}`, {
      method: 'POST',
      headers: { ...FIELDS, ...PNG },
      agent: false,
    });
    uploading = async (requests, context) => {
      edge.keys.ended.set('key', validationFailed([]));
      edge.keys.ended.set(
        'key',
        Object.assign(validationFailed([]), { kind: 'unauthenticated', reason: 'api_key_revoked' }),
      );
      return await collect(requests, context);
    };
    clientRequest.on('error', () => {}).write(BYTES);
    const answer = await answerTo(clientRequest);
    expect([answer.statusCode, await json(answer)]).toMatchObject([401, { error: { code: 'api_key_revoked' } }]);
    clientRequest.destroy();
  });

  describe('uploads with Expect: 100-continue', () => {
    it('are invited only after the key was accepted', async () => {
      const socket = await socketTo(edge.address);
      socket.write(formatExpectHead('key'));
      const readText = reader(socket);
      expect(await readText(/\r\n\r\n/)).toMatch(/^HTTP\/1\.1 100 Continue\r\n\r\n$/);
      socket.write('hello');
      expect(await readText(/m-1/)).toMatch(/HTTP\/1\.1 201 Created/);
      expect(bytes().toString()).toBe('hello');
      socket.destroy();
    });

    it('are rejected without a 100 response, and the connection is closed', async () => {
      const socket = await socketTo(edge.address);
      const ended = new Promise<void>((resolve) => socket.once('close', () => resolve()));
      socket.write(formatExpectHead('nobody'));
      const readText = reader(socket);
      const answer = await readText(/api_key_invalid/);
      expect(answer).toMatch(/^HTTP\/1\.1 401 /);
      expect(answer).toMatch(/\r\nconnection: close\r\n/i);
      await ended;
    });
  });
});

describe('uploads over HTTP/2', () => {
  it('behave the same; a rejected upload is answered while it is sent', async () => {
    const edge = await startRestEdge(add, { isSecure: true });
    const session = connectHttp2(`https://${edge.address}`, { ca: readFileSync(edge.ca as string) });
    const open = () => {
      const stream = session.request({ ':method': 'POST', ':path': `${ROUTE}?filename=h2`, ...FIELDS, ...PNG });
      return {
        stream,
        headers: new Promise<IncomingHttpHeaders>((resolve) => stream.on('response', resolve)),
        closed: new Promise<void>((resolve) => stream.once('close', resolve)),
      };
    };
    const one = open();
    one.stream.end(BYTES);
    expect([await one.headers, await json(one.stream)]).toMatchObject([
      { ':status': 201 },
      { filename: 'h2', sizeBytes: BYTES.length },
    ]);
    expect(bytes().equals(BYTES)).toBe(true);
    uploading = async () => await Promise.reject(validationFailed([{ field: 'chunk', description: 'is no picture' }]));
    const two = open();
    two.stream.write(Buffer.alloc(3_000_000));
    expect([await two.headers, await json(two.stream)]).toMatchObject([
      { ':status': 400 },
      { error: { code: 'validation_failed' } },
    ]);
    two.stream.end();
    await two.closed;
    session.close();
    await edge.stop();
  });
});

async function answerTo(clientRequest: ClientRequest): Promise<IncomingMessage> {
  return await new Promise((resolve, reject) => clientRequest.on('response', resolve).on('error', reject));
}

async function socketTo(address: string): Promise<Socket> {
  const { hostname, port } = new URL(`http://${address}`);
  return await new Promise((resolve) => {
    const socket = connect(Number(port), hostname, () => resolve(socket));
  });
}

/** Returns what a socket has received since the last call, up to a pattern. */
function reader(socket: Socket): (until: RegExp) => Promise<string> {
  let text = '';
  let notify: (() => void) | undefined;
  socket.on('data', (piece: Buffer) => {
    text += piece.toString();
    notify?.();
  });
  return async (until) =>
    await new Promise((resolve) => {
      notify = () => {
        if (!until.test(text)) return;
        resolve(text);
        text = '';
        notify = undefined;
      };
      notify();
    });
}

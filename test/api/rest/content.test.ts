import { readFileSync } from 'node:fs';
import { request as plainRequest, type IncomingMessage } from 'node:http';
import { connect, type IncomingHttpHeaders } from 'node:http2';
import { buffer } from 'node:stream/consumers';
import {
  MediaServiceService,
  type DownloadMediaRequest,
  type DownloadMediaResponse,
} from '../../../src/gen/media/v1/media_service';
import { notFound } from '../../../src/kernel/errors';
import type { CallContext } from '../../../src/api/pipeline/callContext';
import type { Content, LinkedContent } from '../../../src/api/pipeline/handlers';
import type { Services } from '../../../src/api/services';
import { HttpClient, parseHttpError } from '../../support/http';
import { FIELDS, startRestEdge, type RestEdge } from './restEdge';

const BYTES = Buffer.from(Array.from({ length: 200_000 }, (_, at) => at % 251));
const MODIFIED = Date.UTC(2026, 4, 1, 12, 0, 0) + 345;
const DATE = 'Fri, 01 May 2026 12:00:00 GMT';
const ONE = '/api/v2/media/one/content';
const LINK = '/media/one?signature=s3cret';

/** Content in chunks whose size does not match any tested range. */
const content = (overrides: Partial<Content> = {}): Content => ({
  contentType: 'image/png',
  sizeBytes: BYTES.length,
  etag: 'abc',
  lastModified: MODIFIED,
  filename: '',
  read: async function* (start, end) {
    for (let at = start; at < end; at += 30_011) yield BYTES.subarray(at, Math.min(end, at + 30_011));
  },
  ...overrides,
});

let opening: (id: string, context?: CallContext) => Promise<Content>;

async function* answer({ id }: DownloadMediaRequest): AsyncGenerator<DownloadMediaResponse> {
  yield { media: undefined, chunk: Buffer.from(id) };
}

const add = (server: Services): void => {
  const downloadMedia = Object.assign(answer, {
    content: async ({ id }: DownloadMediaRequest, context: CallContext) => await opening(id, context),
  });
  server.addService({ downloadMedia: MediaServiceService.downloadMedia }, { downloadMedia });
};
const link: LinkedContent = {
  path: '/media/:id',
  open: async ({ id = '' }, query) => {
    if (query.get('signature') !== 's3cret') throw notFound('media', id);
    return await opening(id);
  },
};

beforeEach(() => {
  opening = async () => content();
});

describe('content over HTTP', () => {
  let edge: RestEdge;
  let http: HttpClient;
  beforeAll(async () => {
    edge = await startRestEdge(add, { rest: { links: [link] } });
    http = new HttpClient(edge.address, edge.ca, FIELDS);
  });
  afterAll(async () => {
    http.close();
    await edge.stop();
  });

  it('returns the bytes with the headers that a browser needs', async () => {
    const { status, headers, body } = await http.get(ONE);
    expect([status, body.equals(BYTES)]).toEqual([200, true]);
    expect(headers).toMatchObject({
      'content-type': 'image/png',
      'content-length': '200000',
      etag: '"abc"',
      'last-modified': DATE,
      'accept-ranges': 'bytes',
      'content-disposition': 'inline',
      'cache-control': 'private, max-age=3600',
      'x-content-type-options': 'nosniff',
      'content-security-policy': "default-src 'none'; frame-ancestors 'none'; sandbox",
      'cross-origin-resource-policy': 'same-origin',
      'x-request-id': expect.any(String) as string,
    });
    expect(edge.log.of('rpc.request').at(-1)).toMatchObject({
      http: 200,
      code: 'OK',
      method: '/media.v1.MediaService/DownloadMedia',
    });
  });

  it('answers HEAD without the bytes', async () => {
    const { status, headers, body } = await http.send('HEAD', ONE, { headers: { range: 'bytes=0-1' } });
    expect([status, headers['content-length'], headers['etag'], body.length]).toEqual([200, '200000', '"abc"', 0]);
  });

  it('streams messages at the gRPC path', async () => {
    const { headers, body } = await http.send('POST', '/media.v1.MediaService/DownloadMedia', { body: { id: 'two' } });
    expect([headers['content-type'], body.toString()]).toEqual(['application/x-ndjson', '{"chunk":"dHdv"}\n']);
  });

  it.each([
    ['bytes=0-0', 0, 1],
    ['bytes=199999-', 199_999, 200_000],
    ['bytes=100-40000', 100, 40_001],
    ['bytes=-5', 199_995, 200_000],
    ['bytes=150000-900000', 150_000, 200_000],
    ['bytes=0-10,5-20', 0, 21],
  ])('returns the range %s', async (range, start, end) => {
    const { status, headers, body } = await http.get(ONE, { range });
    expect([status, headers['content-range'], headers['content-length']]).toEqual([
      206,
      `bytes ${start}-${end - 1}/200000`,
      String(end - start),
    ]);
    expect(body.equals(BYTES.subarray(start, end))).toBe(true);
  });

  it.each(['items=0-5', 'bytes=x', 'bytes=5', 'nonsense', 'bytes=0-1,10-11'])(
    'returns the complete content for %s',
    async (range) => {
      const { status, headers, body } = await http.get(ONE, { range });
      expect([status, headers['content-range'], body.length]).toEqual([200, undefined, 200_000]);
    },
  );

  it('rejects a range past the end, also for empty content', async () => {
    const answer = await http.get(ONE, { range: 'bytes=200000-' });
    expect(parseHttpError(answer)).toMatchObject({ status: 416, code: 'range_not_satisfiable', grpc: 'OUT_OF_RANGE' });
    expect([answer.headers['content-range'], answer.headers['etag']]).toEqual(['bytes */200000', undefined]);
    opening = async () => content({ sizeBytes: 0 });
    expect((await http.get(ONE, { range: 'bytes=0-' })).status).toBe(416);
    expect(await http.get(ONE)).toMatchObject({ status: 200, headers: { 'content-length': '0' } });
  });

  it.each([
    [{ 'if-range': '"abc"' }, 206],
    [{ 'if-range': '"old"' }, 200],
    [{ 'if-range': 'W/"abc"' }, 200],
    [{ 'if-range': DATE }, 206],
    [{ 'if-range': 'Fri, 01 May 2026 11:59:59 GMT' }, 200],
  ])('returns the range only when the content is unchanged: %j', async (headers, status) => {
    expect((await http.get(ONE, { range: 'bytes=0-9', ...headers })).status).toBe(status);
  });

  it.each([
    [{ 'if-none-match': '"abc"' }, 304],
    [{ 'if-none-match': '"x", W/"abc"' }, 304],
    [{ 'if-none-match': '*' }, 304],
    [{ 'if-none-match': '"x"' }, 200],
    [{ 'if-none-match': '"x"', 'if-modified-since': DATE }, 200],
    [{ 'if-modified-since': DATE }, 304],
    [{ 'if-modified-since': 'Fri, 01 May 2026 11:59:59 GMT' }, 200],
    [{ 'if-modified-since': 'nonsense' }, 200],
    [{ 'if-none-match': '"abc"', range: 'bytes=0-9' }, 304],
  ])('answers 304 to a client that has the current content: %j', async (given, status) => {
    const { headers, body, ...answer } = await http.get(ONE, given);
    expect([answer.status, body.length]).toEqual([status, status === 304 ? 0 : 200_000]);
    expect([headers['etag'], headers['cache-control'], headers['last-modified']]).toEqual([
      '"abc"',
      'private, max-age=3600',
      DATE,
    ]);
    expect(headers['content-type']).toBe(status === 304 ? undefined : 'image/png');
  });

  it.each([
    ['plan.png', `inline; filename="plan.png"; filename*=UTF-8''plan.png`],
    ['Zähler "2" %.png', `inline; filename="Z_hler _2_ _.png"; filename*=UTF-8''Z%C3%A4hler%20%222%22%20%25.png`],
    ["it's\r\nx: y(*)", `inline; filename="it's__x: y(*)"; filename*=UTF-8''it%27s%0D%0Ax%3A%20y%28%2A%29`],
    ['\ud800', `inline; filename="_"; filename*=UTF-8''%EF%BF%BD`],
  ])('encodes the file name %j in Content-Disposition', async (filename, disposition) => {
    opening = async () => content({ filename });
    expect((await http.get(ONE)).headers['content-disposition']).toBe(disposition);
  });

  it('returns failures in the standard error format', async () => {
    opening = async (id) => await Promise.reject(notFound('media', id));
    expect(parseHttpError(await http.get(ONE))).toMatchObject({ status: 404, code: 'media_not_found' });
    expect(parseHttpError(await http.get(ONE, { 'x-organization-id': '' }))).toMatchObject({ status: 401 });
    expect(parseHttpError(await http.get('/api/v2/media/a%20b/content'))).toMatchObject({
      status: 400,
      fields: ['id'],
    });
    expect(parseHttpError(await http.get(ONE, { 'if-match': '"abc"' }))).toMatchObject({
      status: 400,
      fields: ['If-Match'],
    });
  });

  it('returns an error status or aborts when reading fails, and never sends a truncated body as complete', async () => {
    opening = async () => content({ read: () => unreadable(0) });
    expect(parseHttpError(await http.get(ONE))).toMatchObject({ status: 500, code: 'internal' });
    for (const read of [() => unreadable(1), () => pieces(1), () => pieces(5)]) {
      opening = async () => content({ sizeBytes: 100_000, read });
      const logged = edge.log.of('rpc.failed').length;
      await expect(http.get(ONE)).rejects.toThrow(/aborted|hang up|ECONNRESET/);
      await edge.log.until('rpc.failed', logged + 1);
      expect(edge.log.of('rpc.request').at(-1)).toMatchObject({ code: 'INTERNAL', http: 200 });
    }
  });

  it('releases the content when the reader disconnects', async () => {
    let signal: AbortSignal | undefined;
    const closed = new Promise<void>((resolve) => {
      opening = async (_, context) => {
        signal = context?.signal;
        return content({ sizeBytes: 1e9, read: () => endless(resolve) });
      };
    });
    const clientRequest = plainRequest(`http://${edge.address}${ONE}`, { headers: FIELDS, agent: false });
    clientRequest
      .on('error', () => {})
      .on('response', (answer: IncomingMessage) =>
        answer.on('error', () => {}).once('data', () => clientRequest.destroy()),
      )
      .end();
    await closed;
    expect(signal?.reason).toMatchObject({ reason: 'cancelled' });
    expect(edge.log.of('rpc.request').at(-1)).toMatchObject({ code: 'CANCELLED', http: 499 });
  });

  describe('by a link', () => {
    let stranger: HttpClient;
    beforeAll(() => (stranger = new HttpClient(edge.address, edge.ca)));
    afterAll(() => stranger.close());

    it('requires no key and allows embedding in pages of other origins', async () => {
      const { status, headers, body } = await stranger.get(LINK);
      expect([status, body.equals(BYTES)]).toEqual([200, true]);
      expect(headers).toMatchObject({
        'cross-origin-resource-policy': 'cross-origin',
        etag: '"abc"',
        'content-type': 'image/png',
        'x-content-type-options': 'nosniff',
      });
      expect((await stranger.send('HEAD', LINK)).headers['content-length']).toBe('200000');
      expect((await stranger.get(LINK, { range: 'bytes=5-9' })).body).toEqual(BYTES.subarray(5, 10));
      expect((await stranger.get(LINK, { 'if-none-match': '"abc"' })).status).toBe(304);
    });

    it('logs one line without the signature', async () => {
      const before = edge.log.of('http.content').length;
      await stranger.get(LINK, { 'x-request-id': 'r-7' });
      expect(edge.log.of('http.content').slice(before)).toEqual([
        expect.objectContaining({ verb: 'GET', path: '/media/one', http: 200, request_id: 'r-7', peer: '127.0.0.1' }),
      ]);
      await stranger.get('/media/one?signature=wr0ng');
      expect(edge.log.of('http.rejected').at(-1)).toMatchObject({
        path: '/media/one',
        http: 404,
        reason: 'media_not_found',
      });
      expect(JSON.stringify(edge.log.lines)).not.toMatch(/s3cret|wr0ng/);
    });

    it('returns failures in the standard error format', async () => {
      expect(parseHttpError(await stranger.get('/media/one'))).toMatchObject({ status: 404, code: 'media_not_found' });
      expect(parseHttpError(await stranger.get(`${LINK}&x-api-key=plr_x`))).toMatchObject({ status: 400 });
      expect(parseHttpError(await stranger.get(LINK, { range: 'bytes=200000-' }))).toMatchObject({ status: 416 });
      const posted = await stranger.send('POST', LINK, { body: {} });
      expect([parseHttpError(posted).status, posted.headers['allow']]).toEqual([405, 'GET, HEAD, OPTIONS']);
      opening = async () => content({ read: () => unreadable(0) });
      expect(parseHttpError(await stranger.get(LINK))).toMatchObject({ status: 500, code: 'internal' });
    });

    it('accepts a link that resembles a key by chance and rejects one that contains a complete key', async () => {
      const key = `plr_${'4kQz7Bt'.repeat(7)}`;
      for (const chance of ['plr_4kQz7B', `_plr_${'x'.repeat(38)}`, `${key}-`, `A${key}`, `${key}A`])
        expect((await stranger.get(`${LINK}&more=${chance}`)).status).toBe(200);
      for (const query of [`more=${key}`, `more=Bearer%20${key}`, `${key}=1`, `more=(${key})`]) {
        const refused = await stranger.get(`${LINK}&${query}`);
        expect([refused.status, refused.body.includes(key)]).toEqual([400, false]);
      }
    });

    it('aborts when the content cannot be read to the end', async () => {
      opening = async () => content({ read: () => unreadable(1) });
      await expect(stranger.get(LINK)).rejects.toThrow(/aborted|hang up|ECONNRESET/);
      expect(edge.log.of('http.content').at(-1)).toMatchObject({ reason: 'broken_off' });
    });
  });

  it('finishes while the server stops', async () => {
    const own = await startRestEdge(add);
    const { promise, resolve } = Promise.withResolvers<void>();
    opening = async () =>
      content({
        read: async function* () {
          yield BYTES.subarray(0, 100_000);
          await promise;
          yield BYTES.subarray(100_000);
        },
      });
    const clientRequest = plainRequest(`http://${own.address}${ONE}`, { headers: FIELDS, agent: false });
    const answer = await new Promise<IncomingMessage>((resolve) => clientRequest.on('response', resolve).end());
    const stopped = own.stop(5000);
    resolve();
    expect((await buffer(answer)).equals(BYTES)).toBe(true);
    await stopped;
  });
});

describe('content over HTTP/2', () => {
  it('returns the same response and resets the stream when reading fails', async () => {
    const edge = await startRestEdge(add, { isSecure: true, rest: { links: [link] } });
    const session = connect(`https://${edge.address}`, { ca: readFileSync(edge.ca as string) });
    const get = async (
      headers: Record<string, string> = {},
    ): Promise<{ headers: IncomingHttpHeaders; body: Buffer }> => {
      const stream = session.request({ ':path': ONE, ...FIELDS, ...headers });
      const answered = new Promise<IncomingHttpHeaders>((resolve) => stream.on('response', resolve));
      return { body: await buffer(stream), headers: await answered };
    };
    expect(await get()).toMatchObject({ headers: { ':status': 200, 'content-length': '200000' }, body: BYTES });
    expect(await get({ range: 'bytes=1-3' })).toMatchObject({
      headers: { ':status': 206 },
      body: BYTES.subarray(1, 4),
    });
    opening = async () => content({ read: () => unreadable(1) });
    await expect(get()).rejects.toThrow(/INTERNAL_ERROR/);
    session.close();
    await edge.stop();
  });
});

async function* pieces(count: number): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < count; at += 1) yield BYTES.subarray(0, 30_000);
}

async function* unreadable(count: number): AsyncGenerator<Uint8Array> {
  yield* pieces(count);
  throw new Error('the disk is broken');
}

async function* endless(closed: () => void): AsyncGenerator<Uint8Array> {
  try {
    for (;;) yield BYTES;
  } finally {
    closed();
  }
}

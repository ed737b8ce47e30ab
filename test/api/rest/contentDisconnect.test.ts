import { readFileSync } from 'node:fs';
import { connect, constants, type ClientHttp2Session } from 'node:http2';
import { request as plainRequest } from 'node:https';
import { MediaServiceService } from '../../../src/gen/media/v1/media_service';
import { DomainError } from '../../../src/kernel/errors';
import type { Content, LinkedContent, ServerStreamHandler } from '../../../src/api/pipeline/handlers';
import { FIELDS, startRestEdge, type RestEdge } from './restEdge';

const BY_KEY = '/api/v2/media/one/content';
const BY_LINK = '/media/one';
const revoked = new DomainError('unauthenticated', 'api_key_revoked', 'the key was revoked; use another');

/** A download that pauses at a given moment until its reader has disconnected. */
interface Paused {
  readonly reached: Promise<void>;
  /** Resolves when the content was released. */
  readonly released: Promise<void>;
  resume(): void;
}

let opening: () => Promise<Content>;

function pausedAt(moment: string): Paused {
  const [reached, released, resumed] = [
    Promise.withResolvers<void>(),
    Promise.withResolvers<void>(),
    Promise.withResolvers<void>(),
  ];
  const at = async (current: string): Promise<void> => {
    if (current !== moment) return;
    reached.resolve();
    await resumed.promise;
  };
  async function* read(): AsyncGenerator<Uint8Array> {
    try {
      await at('its first byte');
      yield Buffer.alloc(50_000);
      await at('its last byte');
      yield Buffer.alloc(50_000);
    } finally {
      released.resolve();
    }
  }
  opening = async () => {
    await at('its opening');
    return { contentType: 'image/png', sizeBytes: 100_000, etag: 'a', lastModified: 0, filename: '', read };
  };
  return { reached: reached.promise, released: released.promise, resume: () => resumed.resolve() };
}

describe('content whose reader disconnects', () => {
  let edge: RestEdge;
  let ca: Buffer;
  let session: ClientHttp2Session;

  beforeAll(async () => {
    const downloadMedia = Object.assign(async function* () {} as ServerStreamHandler<unknown, never>, {
      content: async () => await opening(),
    });
    const link: LinkedContent = { path: '/media/:id', open: async () => await opening() };
    edge = await startRestEdge(
      (server) => server.addService({ downloadMedia: MediaServiceService.downloadMedia }, { downloadMedia }),
      { isSecure: true, keyRecheckMs: 20, rest: { links: [link] } },
    );
    ca = readFileSync(String(edge.ca));
    session = connect(`https://${edge.address}`, { ca });
  });
  afterEach(() => edge.keys.ended.clear());
  afterAll(async () => {
    session.destroy();
    await edge.stop();
  });

  /** Sends a request and returns a function that disconnects. */
  const sendRequest = (path: string, isHttp2: boolean): (() => void) => {
    if (isHttp2) {
      const stream = session
        .request({ ':path': path, ...FIELDS })
        .on('error', () => {})
        .resume();
      return () => stream.close(constants.NGHTTP2_CANCEL);
    }
    const clientRequest = plainRequest(`https://${edge.address}${path}`, { headers: FIELDS, ca, agent: false });
    clientRequest
      .on('error', () => {})
      .on('response', (answer) => answer.on('error', () => {}).resume())
      .end();
    return () => clientRequest.destroy();
  };

  describe.each([
    ['HTTP/2', true],
    ['HTTP/1.1', false],
  ])('over %s', (_, isHttp2) => {
    it.each(['its opening', 'its first byte', 'its last byte'])('is released at %s', async (moment) => {
      const [paused, logged] = [pausedAt(moment), edge.log.of('rpc.request').length];
      const disconnect = sendRequest(BY_KEY, isHttp2);
      await paused.reached;
      disconnect();
      await edge.log.until('rpc.request', logged + 1);
      paused.resume();
      await paused.released;
      expect(edge.log.of('rpc.request').at(-1)).toMatchObject({ http: 499, code: 'CANCELLED', peer: '127.0.0.1' });
    });

    it('is released when its key is revoked before the first byte', async () => {
      const [paused, logged] = [pausedAt('its first byte'), edge.log.of('rpc.request').length];
      sendRequest(BY_KEY, isHttp2);
      await paused.reached;
      edge.keys.ended.set('key', revoked);
      await edge.log.until('rpc.request', logged + 1);
      paused.resume();
      await paused.released;
      expect(edge.log.of('rpc.request').at(-1)).toMatchObject({ http: 401, reason: 'api_key_revoked' });
    });
  });

  it.each(['its opening', 'its first byte', 'its last byte'])(
    'by a link is released at %s without logging a failure',
    async (moment) => {
      const [paused, logged] = [pausedAt(moment), edge.log.of('http.content').length];
      const disconnect = sendRequest(BY_LINK, true);
      await paused.reached;
      disconnect();
      await new Promise((resolve) => session.ping(resolve)); // the server has processed the cancellation by now
      paused.resume();
      await paused.released;
      await edge.log.until('http.content', logged + 1);
      expect(edge.log.lines.findLast(({ event }) => event === 'http.content')).toMatchObject({
        level: 'info',
        fields: { http: 499, reason: 'cancelled', peer: '127.0.0.1' },
      });
      expect(edge.log.of('http.content').at(-1)).not.toHaveProperty('err');
    },
  );
});

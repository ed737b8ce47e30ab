import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { connect, constants, type ClientHttp2Session, type ClientHttp2Stream } from 'node:http2';
import { connect as connectTls } from 'node:tls';
import {
  ActuatorCommandServiceService,
  type WatchExecutionsRequest,
  type WatchExecutionsResponse,
} from '../../../src/gen/actuator_command/v2/actuator_command_service';
import {
  DigitalDeviceServiceService,
  type DigitalDevice,
} from '../../../src/gen/digitaldevice/v2/digital_device_service';
import { MediaServiceService } from '../../../src/gen/media/v1/media_service';
import type { Content } from '../../../src/api/pipeline/handlers';
import { FIELDS, startRestEdge, type RestEdge } from './restEdge';

const WATCH = '/api/v2/actuator-executions:watch';
const LARGE = '/api/v2/devices/large';
const SMALL = '/api/v2/devices/small';
const DOWNLOAD = '/api/v2/media/one/content';
const LARGE_TEXT = 'x'.repeat(16 * 1024 * 1024); // more than the buffers of a connection hold
const event = (resumeToken: string): WatchExecutionsResponse => ({
  execution: undefined,
  event: undefined,
  resumeToken,
});

describe('responses that clients do not read', () => {
  let edge: RestEdge;
  let ca: Buffer;
  let yielded: number;
  let closed: PromiseWithResolvers<void>;
  let resume: PromiseWithResolvers<void>;
  const sessions: ClientHttp2Session[] = [];

  async function* watch({ executionId }: WatchExecutionsRequest): AsyncGenerator<WatchExecutionsResponse> {
    if (executionId === 'quiet') {
      yield event('1');
      await resume.promise;
      yield event('2');
      return;
    }
    try {
      for (;;) {
        yielded += 1;
        yield event('x'.repeat(65_536));
      }
    } finally {
      closed.resolve();
    }
  }

  async function* readContent(): AsyncGenerator<Uint8Array> {
    try {
      for (let at = 0; at < LARGE_TEXT.length; at += 65_536) {
        yielded += 1;
        yield Buffer.alloc(65_536);
      }
    } finally {
      closed.resolve();
    }
  }
  const content: Content = {
    contentType: 'image/png',
    sizeBytes: LARGE_TEXT.length,
    etag: '1',
    lastModified: 0,
    filename: '',
    read: readContent,
  };

  beforeAll(async () => {
    edge = await startRestEdge(
      (server) => {
        const downloadMedia = Object.assign(async function* (): AsyncGenerator<never> {}, {
          content: async () => await Promise.resolve(content),
        });
        server.addService({ downloadMedia: MediaServiceService.downloadMedia }, { downloadMedia });
        server.addService(
          { watchExecutions: ActuatorCommandServiceService.watchExecutions },
          { watchExecutions: watch },
        );
        server.addService(
          { getDigitalDevice: DigitalDeviceServiceService.getDigitalDevice },
          {
            getDigitalDevice: async ({ id }) =>
              ({
                id,
                name: id === 'large' ? LARGE_TEXT : id,
                sensors: [],
                images: [],
                etag: '"1"',
              }) as unknown as DigitalDevice,
          },
        );
      },
      {
        isSecure: true,
        rest: { limits: { unreadMs: 300 }, streamTimes: { openMs: 1000, commentMs: 50, lingerMs: 30_000 } },
      },
    );
    ca = readFileSync(String(edge.ca));
  });
  beforeEach(() => {
    yielded = 0;
    [closed, resume] = [Promise.withResolvers(), Promise.withResolvers()];
  });
  afterEach(() => sessions.splice(0).forEach((session) => session.destroy()));
  afterAll(async () => await edge.stop());

  /** Opens a stream of a session that reads only this many bytes of each stream. */
  const openStream = (
    path: string,
    initialWindowSize: number,
    headers: Record<string, string> = {},
  ): ClientHttp2Stream => {
    const session = connect(`https://${edge.address}`, { ca, settings: { initialWindowSize } });
    sessions.push(session.on('error', () => {}));
    return session.request({ ':path': path, ...FIELDS, ...headers }).on('error', () => {});
  };

  /** Waits twice as long as it takes until a connection is cut. */
  const waitPastCut = async (): Promise<void> => {
    for (let n = 0; n < 2; n += 1) await new Promise<void>((resolve) => openStream(SMALL, 0).once('close', resolve));
  };

  it.each([
    ['a stream', WATCH],
    ['a download', DOWNLOAD],
    ['one response', SMALL],
  ])('are reset over HTTP/2: %s', async (_, path) => {
    const unread = openStream(path, 0);
    await new Promise<void>((resolve) => unread.once('close', resolve));
    expect(unread.rstCode).toBe(constants.NGHTTP2_CANCEL);
    if (path === SMALL) return;
    await closed.promise;
    expect(yielded).toBeLessThan(8); // the handlers produce only a few before the first one is read
  });

  it.each([
    ['a stream', WATCH],
    ['one response', LARGE],
  ])('close their connection over HTTP/1.1: %s', async (_, path) => {
    const port = Number(edge.address.split(':').at(-1));
    const socket = connectTls({ host: '127.0.0.1', port, ca, servername: 'localhost', ALPNProtocols: ['http/1.1'] });
    await once(socket, 'secureConnect');
    const headerLines = Object.entries({ host: 'x', ...FIELDS })
      .map(([name, value]) => `${name}: ${value}\r\n`)
      .join('');
    socket
      .on('error', () => {})
      .pause()
      .write(`GET ${path} HTTP/1.1\r\n${headerLines}\r\n`);
    if (path === WATCH) await closed.promise;
    else await waitPastCut();
    const ended = new Promise((resolve) => socket.once('close', resolve));
    let received = 0;
    socket.on('data', (chunk: Buffer) => (received += chunk.length)).resume();
    await ended;
    expect(received).toBeLessThan(LARGE_TEXT.length);
  });

  it.each(['application/x-ndjson', 'text/event-stream'])('do not include idle streams: %s', async (accept) => {
    const quiet = openStream(`${WATCH}?executionId=quiet`, 65_535, { accept });
    let text = '';
    quiet.on('data', (chunk: Buffer) => (text += chunk.toString()));
    await once(quiet, 'data');
    await waitPastCut();
    resume.resolve();
    await once(quiet, 'end');
    expect(text).toMatch(/"1"[^]*"2"/);
  });
});

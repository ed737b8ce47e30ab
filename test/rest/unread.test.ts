import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { connect, constants, type ClientHttp2Session, type ClientHttp2Stream } from 'node:http2';
import { connect as connectTls } from 'node:tls';
import { ActuatorCommandServiceService, type WatchExecutionsRequest, type WatchExecutionsResponse } from '../../src/gen/actuator_command/v2/actuator_command_service';
import { DigitalDeviceServiceService, type DigitalDevice } from '../../src/gen/digitaldevice/v2/digital_device_service';
import { FIELDS, startRestEdge, type RestEdge } from './restEdge';

const WATCH = '/api/v2/actuator-executions:watch';
const LARGE = '/api/v2/devices/large';
const SMALL = '/api/v2/devices/small';
const LARGE_TEXT = 'x'.repeat(16 * 1024 * 1024); // more than the buffers of a connection hold
const event = (resumeToken: string): WatchExecutionsResponse => ({ execution: undefined, event: undefined, resumeToken });

describe('answers that nobody takes', () => {
  let edge: RestEdge;
  let ca: Buffer;
  let made: number;
  let closed: PromiseWithResolvers<void>;
  let goOn: PromiseWithResolvers<void>;
  const sessions: ClientHttp2Session[] = [];

  async function* watch({ executionId }: WatchExecutionsRequest): AsyncGenerator<WatchExecutionsResponse> {
    if (executionId === 'quiet') {
      yield event('1');
      await goOn.promise;
      yield event('2');
      return;
    }
    try {
      for (;;) {
        made += 1;
        yield event('x'.repeat(65_536));
      }
    } finally {
      closed.resolve();
    }
  }

  beforeAll(async () => {
    edge = await startRestEdge((server) => {
      server.add({ watchExecutions: ActuatorCommandServiceService.watchExecutions }, { watchExecutions: watch });
      server.add({ getDigitalDevice: DigitalDeviceServiceService.getDigitalDevice }, { getDigitalDevice: async ({ id }) => ({ id, name: id === 'large' ? LARGE_TEXT : id, sensors: [], images: [], etag: '"1"' }) as unknown as DigitalDevice });
    }, { isSecure: true, rest: { limits: { unreadMs: 300 }, streamTimes: { openMs: 1000, commentMs: 50, lingerMs: 30_000 } } });
    ca = readFileSync(String(edge.ca));
  });
  beforeEach(() => {
    made = 0;
    [closed, goOn] = [Promise.withResolvers(), Promise.withResolvers()];
  });
  afterEach(() => sessions.splice(0).forEach((session) => session.destroy()));
  afterAll(async () => await edge.stop());

  /** A stream of a session that takes so many bytes of each. */
  const ask = (path: string, initialWindowSize: number, headers: Record<string, string> = {}): ClientHttp2Stream => {
    const session = connect(`https://${edge.address}`, { ca, settings: { initialWindowSize } });
    sessions.push(session.on('error', () => {}));
    return session.request({ ':path': path, ...FIELDS, ...headers }).on('error', () => {});
  };

  /** Twice as long as it takes until one is cut. */
  const aWhile = async (): Promise<void> => {
    for (let n = 0; n < 2; n += 1) await new Promise<void>((resolve) => ask(SMALL, 0).once('close', resolve));
  };

  it.each([['a stream', WATCH], ['one answer', SMALL]])('are reset over HTTP/2: %s', async (_, path) => {
    const unread = ask(path, 0);
    await new Promise<void>((resolve) => unread.once('close', resolve));
    expect(unread.rstCode).toBe(constants.NGHTTP2_CANCEL);
    if (path !== WATCH) return;
    await closed.promise;
    expect(made).toBeLessThan(8); // no more than a few are made before the first of them is taken
  });

  it.each([['a stream', WATCH], ['one answer', LARGE]])('end their connection over HTTP/1.1: %s', async (_, path) => {
    const port = Number(edge.address.split(':').at(-1));
    const socket = connectTls({ host: '127.0.0.1', port, ca, servername: 'localhost', ALPNProtocols: ['http/1.1'] });
    await once(socket, 'secureConnect');
    const asked = Object.entries({ host: 'x', ...FIELDS }).map(([name, value]) => `${name}: ${value}\r\n`).join('');
    socket.on('error', () => {}).pause().write(`GET ${path} HTTP/1.1\r\n${asked}\r\n`);
    if (path === WATCH) await closed.promise;
    else await aWhile();
    const ended = new Promise((resolve) => socket.once('close', resolve));
    let received = 0;
    socket.on('data', (chunk: Buffer) => (received += chunk.length)).resume();
    await ended;
    expect(received).toBeLessThan(LARGE_TEXT.length);
  });

  it.each(['application/x-ndjson', 'text/event-stream'])('are not those that have nothing to say: %s', async (accept) => {
    const quiet = ask(`${WATCH}?executionId=quiet`, 65_535, { accept });
    let text = '';
    quiet.on('data', (chunk: Buffer) => (text += chunk.toString()));
    await once(quiet, 'data');
    await aWhile();
    goOn.resolve();
    await once(quiet, 'end');
    expect(text).toMatch(/"1"[^]*"2"/);
  });
});

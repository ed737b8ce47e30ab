import { readFileSync } from 'node:fs';
import { request as plainRequest, type ClientRequest, type IncomingMessage } from 'node:http';
import { request } from 'node:https';
import { connect, type ClientHttp2Session, type ClientHttp2Stream, type IncomingHttpHeaders } from 'node:http2';
import type { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { DomainError, notFound } from '../../../src/kernel/errors';
import type { ServerStreamHandler } from '../../../src/api/pipeline/handlers';
import {
  ActuatorCommandServiceService,
  type WatchExecutionsRequest,
  type WatchExecutionsResponse,
} from '../../../src/gen/actuator_command/v2/actuator_command_service';
import { HttpClient, parseHttpError } from '../../support/http';
import { FIELDS, startRestEdge, type RestEdge } from './restEdge';

const WATCH = '/api/v2/actuator-executions:watch';
const GRPC_PATH = '/actuator_command.v2.ActuatorCommandService/WatchExecutions';
const EVENTS = { accept: 'text/event-stream' };
const event = (resumeToken: string): WatchExecutionsResponse => ({
  execution: undefined,
  event: undefined,
  resumeToken,
});
const revoked = new DomainError('unauthenticated', 'api_key_revoked', 'the key was revoked; use another');

/** Returns the first bytes of a stream. */
const first = async (stream: Readable): Promise<string> =>
  await new Promise((resolve) => stream.once('data', (bytes: Buffer) => resolve(bytes.toString())));
const lastLine = (body: string): { error: { code: string; requestId: string } } =>
  JSON.parse(body.trimEnd().split('\n').at(-1) as string) as never;

type Watching = ServerStreamHandler<WatchExecutionsRequest, WatchExecutionsResponse>;

describe('streams over HTTP', () => {
  let edge: RestEdge;
  let http: HttpClient;
  let watching: Watching;
  const opened: ClientRequest[] = [];

  beforeAll(async () => {
    edge = await startRestEdge(
      (server) =>
        server.addService(
          { watchExecutions: ActuatorCommandServiceService.watchExecutions },
          { watchExecutions: (request, context) => watching(request, context) },
        ),
      {
        keyRecheckMs: 20,
        rest: { streamTimes: { openMs: 200, commentMs: 20, lingerMs: 30_000 } },
      },
    );
    http = new HttpClient(edge.address, edge.ca, FIELDS);
  });
  afterEach(() => {
    for (const one of opened.splice(0)) one.destroy();
    edge.keys.ended.clear();
  });
  afterAll(async () => {
    http.close();
    await edge.stop();
  });

  /** Opens a stream; resolves with its headers. */
  const open = async (headers: Record<string, string> = {}): Promise<IncomingMessage> => {
    const clientRequest = plainRequest(`http://${edge.address}${WATCH}`, {
      headers: { ...FIELDS, ...headers },
      agent: false,
    });
    opened.push(clientRequest);
    return await new Promise((resolve, reject) => clientRequest.on('response', resolve).on('error', reject).end());
  };
  /**
   * Creates a handler that yields one message and then waits for its abort signal; resolves with the reason for the
   * abort.
   */
  const waits = (): Promise<unknown> =>
    new Promise((resolve) => {
      watching = async function* (_, { signal }) {
        yield event('1');
        await ended(signal);
        resolve(signal.reason);
      };
    });

  it('send lines of JSON, by their route and at the gRPC path', async () => {
    watching = async function* ({ executionId, resumeToken }) {
      yield event(`${executionId}/${resumeToken}`);
      yield event('2');
    };
    const byRoute = await http.get(`${WATCH}?executionId=e&resumeToken=t`);
    const byPath = await http.send('POST', GRPC_PATH, { body: { executionId: 'e', resumeToken: 't' } });
    for (const answer of [byRoute, byPath]) {
      expect(answer.status).toBe(200);
      expect(answer.headers).toMatchObject({
        'content-type': 'application/x-ndjson',
        'cache-control': 'no-store, no-transform',
        'x-accel-buffering': 'no',
      });
      expect(answer.headers['vary']).toMatch(/\baccept\b/);
      expect(answer.body.toString()).toBe('{"resumeToken":"e/t"}\n{"resumeToken":"2"}\n');
    }
  });

  it('send server-sent events where the client prefers them, with the token as their id', async () => {
    watching = async function* () {
      yield event('1');
      yield event('');
    };
    const { headers, body } = await http.get(WATCH, { accept: 'application/x-ndjson;q=0.5, text/event-stream' });
    expect(headers['content-type']).toBe('text/event-stream; charset=utf-8');
    expect(body.toString()).toBe(
      'retry: 3000\n\nevent: message\nid: 1\ndata: {"resumeToken":"1"}\n\nevent: message\ndata: {"resumeToken":""}\n\n',
    );
  });

  it.each([
    [undefined, 'application/x-ndjson'],
    ['*/*', 'application/x-ndjson'],
    ['text/*', 'text/event-stream'],
    ['application/x-ndjson;q=0.1, */*', 'text/event-stream'],
    ['text/event-stream;q=0, */*;q=0.2', 'application/x-ndjson'],
    ['Text/Event-Stream; Q=0.9', 'text/event-stream'],
    ['application/json', 'application/x-ndjson'],
  ])('answer Accept: %s as %s', async (accept, type) => {
    watching = async function* () {};
    const { headers } = await http.get(WATCH, accept === undefined ? {} : { accept });
    expect(headers['content-type']).toContain(type);
  });

  it.each(['text/html', 'text/event-stream;q=0, application/x-ndjson;q=0', 'nonsense'])(
    'reject Accept: %s',
    async (accept) => {
      expect(parseHttpError(await http.get(WATCH, { accept }))).toMatchObject({
        status: 406,
        code: 'not_acceptable',
        grpc: 'INVALID_ARGUMENT',
      });
    },
  );

  it('resume after Last-Event-ID, which takes precedence over the token in the URL', async () => {
    watching = async function* ({ resumeToken }) {
      yield event(resumeToken);
    };
    const { body } = await http.get(`${WATCH}?resumeToken=old`, { ...EVENTS, 'last-event-id': 'new' });
    expect(body.toString()).toContain('data: {"resumeToken":"new"}');
    expect((await http.get(`${WATCH}?resumeToken=old`, { 'last-event-id': 'x'.repeat(1025) })).status).toBe(400);
  });

  it('reject errors before opening with a status', async () => {
    watching = async function* () {
      yield await Promise.reject(notFound('device', 'd'));
    };
    expect(parseHttpError(await http.get(`${WATCH}?id=d`, EVENTS))).toMatchObject({
      status: 404,
      code: 'device_not_found',
    });
    expect(parseHttpError(await http.get(`${WATCH}?id=a%20b`))).toMatchObject({ status: 400, fields: ['id'] });
    expect(parseHttpError(await http.get(WATCH, { 'x-organization-id': '' }))).toMatchObject({
      status: 401,
      code: 'organization_required',
    });
    expect(parseHttpError(await http.get(WATCH, { 'x-api-key': 'nobody', accept: 'text/html' }))).toMatchObject({
      status: 401,
    });
  });

  it('do not support HEAD', async () => {
    const { status, headers, body } = await http.send('HEAD', WATCH);
    expect([status, headers['allow'], body.length]).toEqual([405, 'GET, OPTIONS', 0]);
  });

  it('end with the error as their last record', async () => {
    watching = async function* () {
      yield event('1');
      throw new DomainError('out_of_range', 'resume_token_expired', 'too old;\nbegin again');
    };
    const lines = await http.get(WATCH, { 'x-request-id': 'r-1' });
    expect(lines.status).toBe(200);
    expect(lastLine(lines.body.toString()).error).toMatchObject({
      code: 'resume_token_expired',
      requestId: 'r-1',
      status: 'OUT_OF_RANGE',
    });
    const events = (await http.get(WATCH, EVENTS)).body.toString();
    expect(events).toMatch(/\n\nevent: error\ndata: \{"error":\{"code":"resume_token_expired",.*\}\n\n$/);
    expect(edge.log.of('rpc.request').at(-1)).toMatchObject({
      http: 200,
      code: 'OUT_OF_RANGE',
      reason: 'resume_token_expired',
    });
  });

  it('open even without messages; a later error becomes a record', async () => {
    const { promise, reject } = Promise.withResolvers<never>();
    watching = async function* () {
      yield await promise;
    };
    const answer = await open();
    reject(notFound('device', 'd'));
    expect(answer.statusCode).toBe(200);
    expect(lastLine(await text(answer)).error.code).toBe('device_not_found');
  });

  it('send a comment as a heartbeat', async () => {
    void waits();
    const answer = await open(EVENTS);
    let received = '';
    for await (const bytes of answer) {
      received += String(bytes);
      if (received.includes('\n\n:\n\n')) break;
    }
    expect(received).toMatch(/^retry: 3000\n\nevent: message\nid: 1\ndata: .*\n\n:\n\n/);
  });

  it('notify the handler at once when the client disconnects', async () => {
    const aborted = waits();
    const answer = await open();
    await first(answer);
    answer.destroy();
    expect(await aborted).toMatchObject({ reason: 'cancelled' });
    expect(edge.log.of('rpc.request').at(-1)).toMatchObject({ code: 'CANCELLED', http: 499 });
  });

  it('wait for a slow client and close the handler when it disconnects', async () => {
    let yielded = 0;
    const closed = new Promise<void>((resolve) => {
      watching = async function* () {
        try {
          for (;;) {
            yielded += 1;
            yield event('x'.repeat(65_536));
          }
        } finally {
          resolve();
        }
      };
    });
    const answer = await open();
    await new Promise<void>((resolve) => answer.once('data', () => (answer.pause(), resolve())));
    // Other calls proceed while the client does not read. After many of them the handler must have yielded only as much
    // as the buffers of the connection hold.
    watching = async function* () {};
    const countYielded = async (): Promise<number> => {
      const before = yielded;
      for (let count = 0; count < 50; count += 1) await http.get(WATCH);
      return yielded - before;
    };
    for (let more = 1; more > 0; more = await countYielded()) expect(yielded).toBeLessThan(300);
    answer.destroy();
    await closed;
  });

  it('end when their key is revoked, also before they are open', async () => {
    void waits();
    const answer = await open();
    await first(answer);
    edge.keys.ended.set('key', revoked);
    edge.server.pipeline.calls.keyWatch.recheck('key');
    expect(lastLine(await text(answer)).error.code).toBe('api_key_revoked');
    edge.keys.ended.clear();
    watching = async function* (_, { signal }) {
      edge.keys.ended.set('key', revoked);
      await ended(signal);
      yield event('late');
    };
    expect((await open()).statusCode).toBe(401);
  });

  it('end with an internal error that reveals only the request id', async () => {
    watching = async function* () {
      yield event('1');
      throw new Error('secret');
    };
    const { body } = await http.get(WATCH);
    expect(body.toString()).not.toContain('secret');
    expect(lastLine(body.toString()).error.code).toBe('internal');
  });
});

describe('the stop of the server', () => {
  it('is the last record of a stream, over HTTP/1.1 and HTTP/2', async () => {
    const edge = await startRestEdge(
      (server) =>
        server.addService(
          { watchExecutions: ActuatorCommandServiceService.watchExecutions },
          {
            watchExecutions: async function* (_, { signal }) {
              yield event('1');
              await ended(signal);
            },
          },
        ),
      { isSecure: true },
    );
    const session: ClientHttp2Session = connect(`https://${edge.address}`, { ca: readFileSync(edge.ca as string) });
    const h2: ClientHttp2Stream = session.request({ ':path': WATCH, ...FIELDS, ...EVENTS });
    const headers = await new Promise<IncomingHttpHeaders>((resolve) => h2.once('response', resolve));
    expect(headers).toMatchObject({ ':status': 200, 'content-type': 'text/event-stream; charset=utf-8' });
    const h1 = await new Promise<IncomingMessage>((resolve, reject) =>
      request(`https://${edge.address}${WATCH}`, { ca: readFileSync(edge.ca as string), headers: FIELDS, agent: false })
        .on('response', resolve)
        .on('error', reject)
        .end(),
    );
    await Promise.all([first(h1), first(h2)]);
    const [lines, events] = [text(h1), text(h2)];
    const stopped = edge.stop();
    expect(await events).toMatch(/event: error\ndata: \{"error":\{"code":"shutting_down"/);
    session.close();
    expect(lastLine(await lines).error.code).toBe('shutting_down');
    await stopped;
  });

  it('notifies the handler, as does a reset of HTTP/2', async () => {
    let notify: (reason: unknown) => void;
    const ending = new Promise<unknown>((resolve) => (notify = resolve));
    const edge = await startRestEdge(
      (server) =>
        server.addService(
          { watchExecutions: ActuatorCommandServiceService.watchExecutions },
          {
            watchExecutions: async function* (_, { signal }) {
              yield event('1');
              await ended(signal);
              notify(signal.reason);
            },
          },
        ),
      { isSecure: true },
    );
    const session = connect(`https://${edge.address}`, { ca: readFileSync(edge.ca as string) });
    const stream = session.request({ ':path': WATCH, ...FIELDS });
    expect(await first(stream)).toBe('{"resumeToken":"1"}\n');
    stream.close();
    expect(await ending).toMatchObject({ reason: 'cancelled' });
    session.close();
    await edge.stop();
  });
});

async function ended(signal: AbortSignal): Promise<void> {
  if (!signal.aborted) await new Promise((resolve) => signal.addEventListener('abort', resolve));
}

import { Client, status, type Metadata, type ServiceError } from '@grpc/grpc-js';
import { connect, constants, type ClientHttp2Session } from 'node:http2';
import { gzipSync } from 'node:zlib';
import fc from 'fast-check';
import { ActuatorCommandServiceService, CreateCommandRequest, type Command } from '../../src/gen/actuator_command/v2/actuator_command_service';
import { UserProfileServiceService } from '../../src/gen/userprofile/user_profile_service';
import { headers, seen, startEdge, type SeenError, type TestEdge } from '../support/edge';

const USER = '/userprofile.UserProfileService/GetPersonalUser';
const COMMAND = '/actuator_command.v2.ActuatorCommandService/CreateCommand';
const FIELDS = { 'x-api-key': 'key', 'x-organization-id': 'org-1' };
const GRPC = { ':method': 'POST', 'content-type': 'application/grpc', te: 'trailers' };

const raw = (message: Buffer): Buffer => message;

/** A message as it stands on the wire: the flag for compressed, its length, itself. */
function compressed(packed: Buffer): Buffer {
  const head = Buffer.from([1, 0, 0, 0, 0]);
  head.writeUInt32BE(packed.length, 1);
  return Buffer.concat([head, packed]);
}

describe('what comes over the wire', () => {
  let edge: TestEdge;
  let client: Client;
  let entered: (signal: AbortSignal) => Promise<void>;

  beforeAll(async () => {
    edge = await startEdge((server) => {
      server.add(UserProfileServiceService, {
        getPersonalUser: async (_, { signal }) => {
          await entered(signal);
          return { id: 'u', name: 'n', email: '', createdAt: undefined, updatedAt: undefined, memberships: [] };
        },
      });
      server.add({ createCommand: ActuatorCommandServiceService.createCommand }, { createCommand: async () => ({}) as Command });
    }, { limits: { receiveBytes: 100_000, resetBurst: 20, resetsPerSecond: 1 } });
    edge.keys.add('key');
    client = edge.client(Client);
  });
  beforeEach(() => (entered = async () => {}));
  afterAll(() => edge.stop());

  const send = (path: string, bytes: Buffer, metadata: Metadata = headers(FIELDS), deadline = Date.now() + 20_000): Promise<SeenError | 'ok'> =>
    new Promise((resolve) => {
      client.makeUnaryRequest(path, raw, raw, bytes, metadata, { deadline }, (error: ServiceError | null) => resolve(error ? seen(error) : 'ok'));
    });

  it('answers garbage with validation_failed', async () => {
    expect(await send(COMMAND, Buffer.from([0xff, 0xff, 0xff]))).toMatchObject({ code: status.INVALID_ARGUMENT, reason: 'validation_failed' });
    expect(await send(COMMAND, Buffer.from('\n\x7fshort'))).toMatchObject({ code: status.INVALID_ARGUMENT });
  });

  it('answers whatever bytes with a clean code', async () => {
    await fc.assert(
      fc.asyncProperty(fc.uint8Array({ maxLength: 200 }), async (bytes) => {
        const answer = await send(COMMAND, Buffer.from(bytes));
        expect(answer).toMatchObject({ code: status.INVALID_ARGUMENT, reason: 'validation_failed' });
      }),
      { seed: 20_261, numRuns: 200 },
    );
  });

  it('refuses a key __proto__ in a map or a JSON value', async () => {
    const request = CreateCommandRequest.fromPartial({ id: 'd', organizationId: 'org-1', command: { name: 'n', encodedParamsTemplate: { XXproto__: { a: 1 } } } });
    const bytes = Buffer.from(CreateCommandRequest.encode(request).finish());
    bytes.write('__proto__', bytes.indexOf('XXproto__'), 'latin1');
    expect(await send(COMMAND, bytes)).toMatchObject({ code: status.INVALID_ARGUMENT, message: expect.stringContaining('__proto__') });
  });

  it('refuses JSON that is nested too deep', async () => {
    let nested: unknown = 1;
    for (let depth = 0; depth < 40; depth += 1) nested = { a: nested };
    const request = CreateCommandRequest.fromPartial({ id: 'd', organizationId: 'org-1', command: { name: 'n', encodedParamsTemplate: nested as Record<string, unknown> } });
    expect(await send(COMMAND, Buffer.from(CreateCommandRequest.encode(request).finish()))).toMatchObject({ code: status.INVALID_ARGUMENT, message: expect.stringContaining('deep') });
  });

  it('refuses a message over the limit, with a reason and a request id', async () => {
    expect(await send(COMMAND, Buffer.alloc(100_001))).toMatchObject({ code: status.RESOURCE_EXHAUSTED, reason: 'message_too_large', requestId: expect.any(String), message: expect.stringContaining('100000') });
  });

  it('refuses a message that no request of its method can fill, without looking into it', async () => {
    const before = edge.log.of('rpc.call').length;
    const answer = await send(USER, Buffer.alloc(100_000, 0xff)); // what is looked into is answered with validation_failed
    expect(answer).toMatchObject({ code: status.RESOURCE_EXHAUSTED, reason: 'message_too_large', message: expect.stringContaining('100000 bytes') });
    expect(edge.log.of('rpc.call').slice(before)).toEqual([expect.objectContaining({ reason: 'message_too_large' })]);
  });

  it('refuses metadata over the limit', async () => {
    expect(await send(USER, Buffer.alloc(0), headers({ ...FIELDS, 'x-large': 'x'.repeat(20_000) }))).toMatchObject({ code: status.RESOURCE_EXHAUSTED });
    expect(await send(USER, Buffer.alloc(0))).toBe('ok');
  });

  it('does not have a method that does not exist', async () => {
    const path = '/userprofile.UserProfileService/Nothing';
    const before = edge.log.of('rpc.call').length;
    const answer = await send(path, Buffer.alloc(0), headers({ 'x-request-id': 'asked-1' }));
    expect(answer).toMatchObject({ code: status.UNIMPLEMENTED, reason: 'method_unknown', requestId: 'asked-1', message: expect.stringContaining(path) });
    expect((answer as SeenError).trailers.get('x-request-id')).toEqual(['asked-1']);
    expect(edge.log.of('rpc.call').slice(before)).toEqual([expect.objectContaining({ method: path, code: 'UNIMPLEMENTED', request_id: 'asked-1' })]);
  });

  it.each(['plr_', 'plr%5F', 'plr%255f', 'plr&#95;', '%70lr_'])('tells nobody of a key that stands in a path or a request id after %s', async (before) => {
    const secret = `${before}${'Zq7'.repeat(17)}`;
    const answer = (await send(`/${secret}/x`, Buffer.alloc(0), headers({ 'x-request-id': `for ${secret}` }))) as SeenError;
    expect(answer).toMatchObject({ code: status.UNIMPLEMENTED, reason: 'method_unknown', requestId: expect.stringMatching(/^[0-9a-f-]{36}$/) });
    for (const told of [answer.message, JSON.stringify(edge.log.lines)]) expect(told).not.toContain('Zq7');
  });

  it('ends a call at its deadline and tells the handler', async () => {
    const told = new Promise<unknown>((resolve) => {
      entered = (signal) => new Promise(() => signal.addEventListener('abort', () => resolve(signal.reason)));
    });
    const session = connect(`http://${edge.address}`);
    const stream = session.request({ ...GRPC, ':path': USER, ...FIELDS, 'grpc-timeout': '50m' });
    stream.end(Buffer.alloc(5));
    const trailers = await new Promise<Record<string, unknown>>((resolve) => stream.on('response', resolve));
    expect(trailers).toMatchObject({ 'grpc-status': String(status.DEADLINE_EXCEEDED), 'x-request-id': expect.any(String) });
    expect(await told).toMatchObject({ reason: 'deadline_exceeded' });
    session.close();
  });

  it('calls no handler when the deadline passed while the headers were checked', async () => {
    let calls = 0;
    entered = async () => void (calls += 1);
    const session = connect(`http://${edge.address}`);
    const stream = session.request({ ...GRPC, ':path': USER, ...FIELDS, 'grpc-timeout': '1n' });
    stream.end(Buffer.alloc(5));
    const trailers = await new Promise<Record<string, unknown>>((resolve) => stream.on('response', resolve));
    expect(trailers['grpc-status']).toBe(String(status.DEADLINE_EXCEEDED));
    expect(calls).toBe(0);
    session.close();
  });

  it('takes a deadline of a month for one far away', async () => {
    const session = connect(`http://${edge.address}`);
    const stream = session.request({ ...GRPC, ':path': USER, ...FIELDS, 'grpc-timeout': '2592000S' });
    await new Promise((resolve) => setImmediate(resolve));
    stream.end(Buffer.alloc(5));
    stream.resume();
    const trailers = await new Promise<Record<string, unknown>>((resolve) => (stream.on('trailers', resolve), stream.on('response', (head) => head['grpc-status'] && resolve(head))));
    expect(trailers['grpc-status']).toBe(String(status.OK));
    session.close();
  });

  it('tells the handler when the caller goes away', async () => {
    const started = new Promise<AbortSignal>((resolve) => (entered = (signal) => new Promise(() => resolve(signal))));
    const before = edge.log.of('rpc.call').length;
    const running = client.makeUnaryRequest(USER, raw, raw, Buffer.alloc(0), headers(FIELDS), () => {});
    const signal = await started;
    const told = new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve()));
    running.cancel();
    await told;
    await edge.log.until('rpc.call', before + 1);
    expect(edge.log.of('rpc.call').at(-1)).toMatchObject({ code: 'CANCELLED' });
  });

  it.each([
    ['no message', Buffer.alloc(0), {}, 'holds no message'],
    ['two messages', Buffer.alloc(10), {}, 'second message'],
    ['a broken gzip', Buffer.concat([Buffer.from([1, 0, 0, 0, 4]), Buffer.from('nope')]), { 'grpc-encoding': 'gzip' }, 'decompress'],
    ['a timeout that is none', Buffer.alloc(5), { 'grpc-timeout': 'soon' }, 'grpc-timeout'],
  ])('refuses %s', async (_, body, more, words) => {
    const session = connect(`http://${edge.address}`);
    const stream = session.request({ ...GRPC, ':path': USER, ...FIELDS, ...more });
    stream.end(body);
    const trailers = await new Promise<Record<string, unknown>>((resolve) => stream.on('response', resolve));
    expect(trailers).toMatchObject({ 'grpc-status': String(status.INVALID_ARGUMENT), 'x-request-id': expect.any(String) });
    expect(decodeURI(String(trailers['grpc-message']))).toContain(words);
    session.close();
  });

  it('takes a compressed message, and none that grows over the limit', async () => {
    const session = connect(`http://${edge.address}`);
    const run = async (body: Buffer): Promise<unknown> => {
      const stream = session.request({ ...GRPC, ':path': USER, ...FIELDS, 'grpc-encoding': 'gzip' });
      stream.end(compressed(gzipSync(body)));
      stream.resume();
      return await new Promise((resolve) => {
        stream.on('response', (head) => head['grpc-status'] && resolve(head['grpc-status']));
        stream.on('trailers', (trailers) => resolve(trailers['grpc-status']));
      });
    };
    expect(await run(Buffer.alloc(0))).toBe('0');
    expect(await run(Buffer.alloc(1_000_000))).toBe(String(status.RESOURCE_EXHAUSTED));
    session.close();
  });

  it('closes a connection that opens and resets calls in a flood, and serves the others meanwhile', async () => {
    const flooder: ClientHttp2Session = connect(`http://${edge.address}`);
    const closed = new Promise<string>((resolve) => {
      flooder.on('goaway', (code) => resolve(`goaway ${code}`));
      flooder.on('close', () => resolve('closed'));
      flooder.on('error', () => {});
    });
    for (let count = 0; count < 200; count += 1) {
      const stream = flooder.request({ ...GRPC, ':path': USER, ...FIELDS });
      stream.on('error', () => {});
      stream.close(constants.NGHTTP2_CANCEL);
    }
    const answers = await Promise.all(Array.from({ length: 20 }, () => send(USER, Buffer.alloc(0))));
    expect(new Set(answers)).toEqual(new Set(['ok']));
    expect(await closed).toMatch(/goaway|closed/);
    expect(await send(USER, Buffer.alloc(0))).toBe('ok');
  });
});

import { Client, status, type Metadata, type ServiceError } from '@grpc/grpc-js';
import { EventEmitter, once } from 'node:events';
import { connect, constants, type ClientHttp2Session } from 'node:http2';
import { connect as connectTcp } from 'node:net';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { gzipSync } from 'node:zlib';
import fc from 'fast-check';
import {
  ActuatorCommandServiceService,
  CreateCommandRequest,
  type Command,
} from '../../src/gen/actuator_command/v2/actuator_command_service';
import { UserProfileServiceService } from '../../src/gen/userprofile/user_profile_service';
import { DigitalDeviceServiceService, type DigitalDevice } from '../../src/gen/digitaldevice/v2/digital_device_service';
import { StreamScheduler } from '../../src/api/streamScheduler';
import { headers, parseError, startEdge, type GrpcErrorInfo, type TestEdge } from '../support/edge';
import { holdGrpc } from '../support/heldCall';
import { frame, packed, PREFACE } from '../support/http2Frames';

const USER = '/userprofile.UserProfileService/GetPersonalUser';
const LIST = '/digitaldevice.v2.DigitalDeviceService/ListDigitalDevices';
const COMMAND = '/actuator_command.v2.ActuatorCommandService/CreateCommand';
const FIELDS = { 'x-api-key': 'key', 'x-organization-id': 'org-1' };
const GRPC = { ':method': 'POST', 'content-type': 'application/grpc', te: 'trailers' };

const TIMES = { requestMs: 300, checkMs: 50, lingerMs: 100 };
const LIMITS = { maxReceiveMessageBytes: 100_000, rstStreamBurst: 20, rstStreamsPerSecond: 1, ...TIMES };
const OTHER_KEY = { ...FIELDS, 'x-api-key': 'other' };

const raw = (message: Buffer): Buffer => message;

/** Frames a message for the wire: the flag for compression, its length, its bytes. */
function compressed(packed: Buffer): Buffer {
  const head = Buffer.from([1, 0, 0, 0, 0]);
  head.writeUInt32BE(packed.length, 1);
  return Buffer.concat([head, packed]);
}

describe('the gRPC transport', () => {
  let edge: TestEdge;
  let client: Client;
  let entered: (signal: AbortSignal) => Promise<void>;

  beforeAll(async () => {
    edge = await startEdge(
      (server) => {
        server.addService(UserProfileServiceService, {
          getPersonalUser: async (_, { signal }) => {
            await entered(signal);
            return { id: 'u', name: 'n', email: '', createdAt: undefined, updatedAt: undefined, memberships: [] };
          },
        });
        server.addService(
          { listDigitalDevices: DigitalDeviceServiceService.listDigitalDevices },
          {
            listDigitalDevices: async () => {
              const device = {
                id: 'd',
                name: 'x'.repeat(100_000),
                sensors: [],
                images: [],
              } as unknown as DigitalDevice;
              return { devices: [device], total: 1, nextPageToken: '' };
            },
          },
        );
        server.addService(
          { createCommand: ActuatorCommandServiceService.createCommand },
          { createCommand: async () => ({}) as Command },
        );
      },
      { limits: LIMITS },
    );
    edge.keys.add('key');
    edge.keys.add('other');
    client = edge.client(Client);
  });
  beforeEach(() => (entered = async () => {}));
  afterAll(() => edge.stop());

  const send = (
    path: string,
    bytes: Buffer,
    metadata: Metadata = headers(FIELDS),
    deadline = Date.now() + 150_000,
  ): Promise<GrpcErrorInfo | 'ok'> =>
    new Promise((resolve) => {
      client.makeUnaryRequest(path, raw, raw, bytes, metadata, { deadline }, (error: ServiceError | null) =>
        resolve(error ? parseError(error) : 'ok'),
      );
    });

  it('answers garbage with validation_failed', async () => {
    expect(await send(COMMAND, Buffer.from([0xff, 0xff, 0xff]))).toMatchObject({
      code: status.INVALID_ARGUMENT,
      reason: 'validation_failed',
    });
    expect(await send(COMMAND, Buffer.from('\n\x7fshort'))).toMatchObject({ code: status.INVALID_ARGUMENT });
  });

  it('answers random bytes with a clean code', async () => {
    await fc.assert(
      fc.asyncProperty(fc.uint8Array({ maxLength: 200 }), async (bytes) => {
        const answer = await send(COMMAND, Buffer.from(bytes));
        expect(answer).toMatchObject({ code: status.INVALID_ARGUMENT, reason: 'validation_failed' });
      }),
      { seed: 20_261, numRuns: 200 },
    );
  });

  it('rejects a key __proto__ in a map or a JSON value', async () => {
    const request = CreateCommandRequest.fromPartial({
      id: 'd',
      organizationId: 'org-1',
      command: { name: 'n', encodedParamsTemplate: { XXproto__: { a: 1 } } },
    });
    const bytes = Buffer.from(CreateCommandRequest.encode(request).finish());
    bytes.write('__proto__', bytes.indexOf('XXproto__'), 'latin1');
    expect(await send(COMMAND, bytes)).toMatchObject({
      code: status.INVALID_ARGUMENT,
      message: expect.stringContaining('__proto__'),
    });
  });

  it('rejects text that is not UTF-8 and names its field', async () => {
    const expected = {
      name: 'n\u00e4me',
      expectedSensorStates: [
        { sensorId: 's', valueTemplate: '1' },
        { sensorId: 's', valueTemplate: '\u20ac' },
      ],
    };
    const request = CreateCommandRequest.fromPartial({ id: 'd', organizationId: 'org-1', command: expected });
    const bytes = Buffer.from(CreateCommandRequest.encode(request).finish());
    const broken = Buffer.from(bytes);
    broken[bytes.indexOf('\u20ac')] = 0xff;
    const field = 'command.expectedSensorStates[1].valueTemplate';
    const violations = { [field]: 'must be valid UTF-8' };
    expect(await send(COMMAND, broken)).toMatchObject({ code: status.INVALID_ARGUMENT, violations });
    expect(await send(COMMAND, bytes)).not.toMatchObject({ violations });
  });

  it('rejects JSON that is nested too deep', async () => {
    let nested: unknown = 1;
    for (let depth = 0; depth < 40; depth += 1) nested = { a: nested };
    const request = CreateCommandRequest.fromPartial({
      id: 'd',
      organizationId: 'org-1',
      command: { name: 'n', encodedParamsTemplate: nested as Record<string, unknown> },
    });
    expect(await send(COMMAND, Buffer.from(CreateCommandRequest.encode(request).finish()))).toMatchObject({
      code: status.INVALID_ARGUMENT,
      message: expect.stringContaining('deep'),
    });
  });

  it('rejects a message over the limit, with a reason and a request id', async () => {
    expect(await send(COMMAND, Buffer.alloc(100_001))).toMatchObject({
      code: status.RESOURCE_EXHAUSTED,
      reason: 'message_too_large',
      requestId: expect.any(String),
      message: expect.stringContaining('100000'),
    });
  });

  it('rejects a message larger than any request of its method, without decoding it', async () => {
    const before = edge.log.of('rpc.request').length;
    // A decoded message would be answered with validation_failed.
    const answer = await send(USER, Buffer.alloc(100_000, 0xff));
    expect(answer).toMatchObject({
      code: status.RESOURCE_EXHAUSTED,
      reason: 'message_too_large',
      message: expect.stringContaining('100000 bytes'),
    });
    expect(edge.log.of('rpc.request').slice(before)).toEqual([
      expect.objectContaining({ reason: 'message_too_large' }),
    ]);
  });

  it('rejects metadata over the limit', async () => {
    expect(await send(USER, Buffer.alloc(0), headers({ ...FIELDS, 'x-large': 'x'.repeat(20_000) }))).toMatchObject({
      code: status.RESOURCE_EXHAUSTED,
    });
    expect(await send(USER, Buffer.alloc(0))).toBe('ok');
  });

  it('answers UNIMPLEMENTED for an unknown method', async () => {
    const path = '/userprofile.UserProfileService/Nothing';
    const before = edge.log.of('rpc.request').length;
    const answer = await send(path, Buffer.alloc(0), headers({ 'x-request-id': 'asked-1' }));
    expect(answer).toMatchObject({
      code: status.UNIMPLEMENTED,
      reason: 'method_not_found',
      requestId: 'asked-1',
      message: expect.stringContaining(path),
    });
    expect((answer as GrpcErrorInfo).trailers.get('x-request-id')).toEqual(['asked-1']);
    expect(edge.log.of('rpc.request').slice(before)).toEqual([
      expect.objectContaining({ method: path, code: 'UNIMPLEMENTED', request_id: 'asked-1' }),
    ]);
  });

  it.each(['plr_', 'plr%5F', 'plr%255f', 'plr&#95;', '%70lr_'])(
    'does not reveal a key in a path or a request id after %s',
    async (before) => {
      const secret = `${before}${'Zq7'.repeat(17)}`;
      const answer = (await send(
        `/${secret}/x`,
        Buffer.alloc(0),
        headers({ 'x-request-id': `for ${secret}` }),
      )) as GrpcErrorInfo;
      expect(answer).toMatchObject({
        code: status.UNIMPLEMENTED,
        reason: 'method_not_found',
        requestId: expect.stringMatching(/^[0-9a-f-]{36}$/),
      });
      for (const output of [answer.message, JSON.stringify(edge.log.lines)]) expect(output).not.toContain('Zq7');
    },
  );

  it('ends a call at its deadline and notifies the handler', async () => {
    const aborted = new Promise<unknown>((resolve) => {
      entered = (signal) => new Promise(() => signal.addEventListener('abort', () => resolve(signal.reason)));
    });
    const session = connect(`http://${edge.address}`);
    const stream = session.request({ ...GRPC, ':path': USER, ...FIELDS, 'grpc-timeout': '50m' });
    stream.end(Buffer.alloc(5));
    const trailers = await new Promise<Record<string, unknown>>((resolve) => stream.on('response', resolve));
    expect(trailers).toMatchObject({
      'grpc-status': String(status.DEADLINE_EXCEEDED),
      'x-request-id': expect.any(String),
    });
    expect(await aborted).toMatchObject({ reason: 'deadline_exceeded' });
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

  it('handles a deadline a month away', async () => {
    const session = connect(`http://${edge.address}`);
    const stream = session.request({ ...GRPC, ':path': USER, ...FIELDS, 'grpc-timeout': '2592000S' });
    await new Promise((resolve) => setImmediate(resolve));
    stream.end(Buffer.alloc(5));
    stream.resume();
    const trailers = await new Promise<Record<string, unknown>>(
      (resolve) => (
        stream.on('trailers', resolve),
        stream.on('response', (head) => head['grpc-status'] && resolve(head))
      ),
    );
    expect(trailers['grpc-status']).toBe(String(status.OK));
    session.close();
  });

  it('notifies the handler when the caller disconnects', async () => {
    const started = new Promise<AbortSignal>((resolve) => (entered = (signal) => new Promise(() => resolve(signal))));
    const before = edge.log.of('rpc.request').length;
    const running = client.makeUnaryRequest(USER, raw, raw, Buffer.alloc(0), headers(FIELDS), () => {});
    const signal = await started;
    const aborted = new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve()));
    running.cancel();
    await aborted;
    await edge.log.until('rpc.request', before + 1);
    expect(edge.log.of('rpc.request').at(-1)).toMatchObject({ code: 'CANCELLED' });
  });

  it.each([
    ['no message', Buffer.alloc(0), {}, 'has no message'],
    ['two messages', Buffer.alloc(10), {}, 'second message'],
    [
      'a broken gzip',
      Buffer.concat([Buffer.from([1, 0, 0, 0, 4]), Buffer.from('nope')]),
      { 'grpc-encoding': 'gzip' },
      'decompress',
    ],
    ['an invalid timeout', Buffer.alloc(5), { 'grpc-timeout': 'soon' }, 'grpc-timeout'],
  ])('rejects %s', async (_, body, more, words) => {
    const session = connect(`http://${edge.address}`);
    const stream = session.request({ ...GRPC, ':path': USER, ...FIELDS, ...more });
    stream.end(body);
    const trailers = await new Promise<Record<string, unknown>>((resolve) => stream.on('response', resolve));
    expect(trailers).toMatchObject({
      'grpc-status': String(status.INVALID_ARGUMENT),
      'x-request-id': expect.any(String),
    });
    expect(decodeURI(String(trailers['grpc-message']))).toContain(words);
    session.close();
  });

  it('accepts a compressed message and rejects one that decompresses over the limit', async () => {
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

  it('continues waiting calls when the connection that did not read is closed', async () => {
    const stuck = connect(`http://${edge.address}`, { settings: { initialWindowSize: 0 } });
    await once(stuck, 'remoteSettings');
    const fields = { ...GRPC, ':path': LIST, ...FIELDS };
    for (let n = 0; n < 60; n += 1)
      stuck
        .request(fields)
        .on('error', () => {})
        .end(Buffer.alloc(5));
    await send(LIST, Buffer.alloc(0), headers(OTHER_KEY));
    const before = edge.log.of('rpc.request').length;
    stuck.destroy();
    expect(await send(LIST, Buffer.alloc(0))).toBe('ok');
    await edge.log.until('rpc.request', before + 45);
  });

  it('neither processes nor keeps a call that was reset in the same packet', async () => {
    const socket = connectTcp(Number(edge.address.split(':').at(-1)), '127.0.0.1');
    const fields = packed({ ...GRPC, ':scheme': 'http', ':path': USER, ':authority': 'x', ...FIELDS });
    const calls = [1, 3, 5].flatMap((id) => [frame(1, 4, id, fields), frame(3, 0, id, Buffer.from([0, 0, 0, 8]))]);
    const ping = Buffer.alloc(8, 7);
    const before = edge.keys.lookups;
    socket.write(Buffer.concat([PREFACE, frame(4, 0, 0), ...calls, frame(6, 0, 0, ping)]));
    const received: Buffer[] = [];
    while (!Buffer.concat(received).includes(ping)) received.push(((await once(socket, 'data')) as [Buffer])[0]);
    expect(await send(USER, Buffer.alloc(0))).toBe('ok');
    expect(edge.keys.lookups - before).toBe(1);
    await edge.server.pipeline.calls.whenIdle();
    socket.destroy();
  });

  describe('with many waiting calls', () => {
    let started: string[];
    let port: EventEmitter;
    beforeEach(() => {
      const names: string[] = (started = []); // the calls of an earlier test may still start
      port = new EventEmitter().on('stream', ({ name }: { name: string }) => names.push(name));
      new StreamScheduler().watch(port);
    });
    const open = (session: object, name: string, isReset = false): void => {
      port.emit('stream', Object.assign(new EventEmitter(), { session, name, closed: isReset }), {});
    };

    it('starts the calls of connections in turn', async () => {
      const [busy, quiet] = [{}, {}];
      for (let n = 0; n < 100; n += 1) open(busy, `busy ${n}`);
      open(quiet, 'quiet');
      expect(started).toEqual([]);
      await nextTurn();
      expect(started.length).toBeLessThanOrEqual(64);
      expect(started.slice(0, 3)).toEqual(['busy 0', 'quiet', 'busy 1']);
    });

    it('starts all calls of a connection with few of them before those of busy connections', async () => {
      const busy = Array.from({ length: 100 }, () => ({}));
      for (const session of busy) for (let n = 0; n < 10; n += 1) open(session, `busy ${n}`);
      const quiet = {};
      for (let n = 0; n < 3; n += 1) open(quiet, 'quiet');
      await nextTurn();
      expect(started.filter((name) => name === 'quiet')).toHaveLength(3);
      expect(started.length).toBeGreaterThan(3); // the others get their turn too
    });

    it('does not count calls that were reset', async () => {
      open({}, 'first');
      for (let n = 0; n < 1000; n += 1) open({}, 'reset', true);
      open({}, 'quiet');
      await nextTurn();
      expect(started).toEqual(['first', 'quiet']);
    });
  });

  it('ends a call whose message does not arrive, and closes its stream', async () => {
    const held = holdGrpc(edge.address, USER, FIELDS, Buffer.alloc(0));
    expect(await held.answered).toBe(String(status.DEADLINE_EXCEEDED));
    expect(edge.log.of('rpc.request').at(-1)).toMatchObject({ reason: 'request_timeout' });
  });

  it('closes a connection that floods it with opened and reset calls, and serves the others meanwhile', async () => {
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

import { Metadata, status, type ServiceError } from '@grpc/grpc-js';
import type { Readable } from 'node:stream';
import { DomainError } from '../../src/kernel/errors';
import type { BidiHandler, ServerStreamHandler } from '../../src/api/pipeline/handlers';
import {
  ActuatorCommandServiceClient,
  ActuatorCommandServiceService,
  type WatchExecutionsRequest,
  type WatchExecutionsResponse,
} from '../../src/gen/actuator_command/v2/actuator_command_service';
import {
  type AttachRequest,
  GatewayServiceClient,
  GatewayServiceService,
  GatewayStore,
  type CommandSnapshotStatus,
  type AttachResponse,
} from '../../src/gen/gateway/v1/gateway_service';
import { headers, parseError, startEdge, type GrpcErrorInfo, type TestEdge } from '../support/edge';

const FIELDS = { 'x-api-key': 'key', 'x-organization-id': 'org-1' };
const WATCH: WatchExecutionsRequest = {
  organizationId: '',
  id: undefined,
  executionId: undefined,
  resumeToken: '',
  endsWhenFinal: false,
};
const HELLO: AttachRequest = {
  message: {
    $case: 'hello',
    value: {
      connectionId: 'c',
      gatewayId: 'g',
      bootId: 'b',
      store: GatewayStore.GATEWAY_STORE_DURABLE,
      known: [],
      lowestProtocolVersion: 0,
      highestProtocolVersion: 0,
      software: '',
    },
  },
};
const event = (resumeToken: string): WatchExecutionsResponse => ({
  execution: undefined,
  event: undefined,
  resumeToken,
});
const ack = (uplinkId: string): AttachResponse => ({
  message: { $case: 'uplinkAck', value: { uplinkId, outcome: 1, reason: '' } },
});
const uplink = (uplinkId: string): AttachRequest => ({
  message: {
    $case: 'uplink',
    value: { uplinkId, clientDeviceId: 'd', time: undefined, payload: undefined, fPort: undefined },
  },
});
const revoked = new DomainError('unauthenticated', 'api_key_revoked', 'the key was revoked; use another');

const raw = (bytes: Buffer): Buffer => bytes;

/** Reads a stream to its end. */
async function readAll<Message>(stream: Readable): Promise<{ messages: Message[]; error: GrpcErrorInfo | undefined }> {
  const messages: Message[] = [];
  let error: GrpcErrorInfo | undefined;
  stream.on('data', (message: Message) => void messages.push(message));
  stream.on('error', (found: ServiceError) => (error = parseError(found)));
  await new Promise<void>((resolve) => stream.on('status', () => setImmediate(resolve)));
  return { messages, error };
}

describe('streams', () => {
  let edge: TestEdge;
  let watches: ActuatorCommandServiceClient;
  let gateways: GatewayServiceClient;
  let watching: ServerStreamHandler<WatchExecutionsRequest, WatchExecutionsResponse>;
  let attaching: BidiHandler<AttachRequest, AttachResponse>;

  beforeEach(async () => {
    edge = await startEdge(
      (server) => {
        server.addService(
          { watchExecutions: ActuatorCommandServiceService.watchExecutions },
          { watchExecutions: (request, context) => watching(request, context) },
        );
        server.addService(GatewayServiceService, { attach: (stream, context) => attaching(stream, context) });
      },
      { keyRecheckMs: 20 },
    );
    edge.keys.add('key');
    watches = edge.client(ActuatorCommandServiceClient);
    gateways = edge.client(GatewayServiceClient);
  });
  afterEach(() => edge.stop());

  it('send what the handler yields, then OK', async () => {
    watching = async function* () {
      yield event('1');
      yield event('2');
    };
    const { messages, error } = await readAll<WatchExecutionsResponse>(watches.watchExecutions(WATCH, headers(FIELDS)));
    expect([messages.map((one) => one.resumeToken), error]).toEqual([['1', '2'], undefined]);
  });

  it.each([
    [
      'no organization in the headers',
      { 'x-api-key': 'key' },
      { ...WATCH, organizationId: 'org-1' },
      'organization_required',
    ],
    ['another organization in the message', FIELDS, { ...WATCH, organizationId: 'org-2' }, 'organization_mismatch'],
    ['an invalid field', FIELDS, { ...WATCH, id: 'a b' }, 'validation_failed'],
  ])('reject %s', async (_, fields, request, reason) => {
    watching = async function* () {};
    expect(
      (await readAll(watches.watchExecutions(request, headers(fields as Record<string, string>)))).error,
    ).toMatchObject({ reason });
  });

  it('end with the status of an error that the handler throws, after what it yielded', async () => {
    watching = async function* () {
      yield event('1');
      throw new DomainError('out_of_range', 'resume_token_expired', 'too old; start over');
    };
    const { messages, error } = await readAll(watches.watchExecutions(WATCH, headers(FIELDS)));
    expect(messages).toHaveLength(1);
    expect(error).toMatchObject({ code: status.OUT_OF_RANGE, reason: 'resume_token_expired' });
  });

  it('wait while the reader is slow, and close the handler when the reader disconnects', async () => {
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
    const stream = watches.watchExecutions(WATCH, headers(FIELDS));
    await new Promise<void>((resolve) => stream.once('data', () => (stream.pause(), resolve())));
    // Other calls proceed while the client does not read. After many of them the handler must have yielded only as much
    // as the flow-control windows hold.
    watching = async function* () {};
    for (let count = 0; count < 50; count += 1) await readAll(watches.watchExecutions(WATCH, headers(FIELDS)));
    expect(yielded).toBeLessThan(100);
    stream.on('error', () => {});
    stream.cancel();
    await closed;
  });

  it('deliver messages in both directions, one after the other, until the caller finishes', async () => {
    attaching = async (stream) => {
      for await (const { message } of stream.requests) await stream.send(ack(message?.$case ?? 'none'));
    };
    const stream = gateways.attach(headers(FIELDS));
    stream.write(HELLO);
    stream.write(uplink('1'));
    stream.end();
    const { messages, error } = await readAll<AttachResponse>(stream);
    expect(error).toBeUndefined();
    expect(messages.map((one) => one.message?.$case === 'uplinkAck' && one.message.value.uplinkId)).toEqual([
      'hello',
      'uplink',
    ]);
  });

  it('end with INVALID_ARGUMENT when a message breaks its rules, but pass uplinks to their handler', async () => {
    const got: string[] = [];
    attaching = async (stream) => {
      for await (const { message } of stream.requests) got.push(message?.$case ?? 'none');
    };
    const stream = gateways.attach(headers(FIELDS));
    stream.write(uplink('bad\0id'));
    stream.write({
      message: {
        $case: 'hello',
        value: {
          gatewayId: 'g',
          bootId: 'b',
          store: GatewayStore.GATEWAY_STORE_DURABLE,
          connectionId: '',
          known: [{ executionId: '', status: 99 as CommandSnapshotStatus, code: '', message: '', time: undefined }],
          lowestProtocolVersion: 0,
          highestProtocolVersion: 0,
          software: '',
        },
      },
    });
    const { error } = await readAll(stream);
    expect(got).toEqual(['uplink']);
    expect(error).toMatchObject({
      code: status.INVALID_ARGUMENT,
      reason: 'validation_failed',
      fields: ['hello.connectionId', 'hello.known[0].executionId', 'hello.known[0].status'],
    });
  });

  it('end with INVALID_ARGUMENT when a message is garbage', async () => {
    attaching = async (stream) => {
      for await (const _ of stream.requests);
    };
    const stream = gateways.makeBidiStreamRequest('/gateway.v1.GatewayService/Attach', raw, raw, headers(FIELDS));
    stream.write(Buffer.from([0xff]));
    expect((await readAll(stream)).error).toMatchObject({ code: status.INVALID_ARGUMENT, reason: 'validation_failed' });
  });

  it('notify the handler when the caller disconnects, and reject later messages', async () => {
    const after = new Promise<unknown[]>((resolve) => {
      attaching = async (stream, { signal }) => {
        try {
          for await (const _ of stream.requests) await stream.send(ack('1'));
        } catch (error) {
          resolve([
            signal.aborted,
            (error as DomainError).reason,
            await stream.send(ack('2')).catch((rejection: DomainError) => rejection.reason),
          ]);
        }
      };
    });
    const stream = gateways.attach(headers(FIELDS));
    stream.on('error', () => {});
    stream.write(HELLO);
    stream.once('data', () => stream.cancel());
    expect(await after).toEqual([true, 'cancelled', 'cancelled']);
  });

  it.each(['in this process', 'elsewhere'])(
    'end when their key was revoked %s, regardless of their handler',
    async (where) => {
      attaching = async (stream) => {
        await stream.send(ack('1'));
        await new Promise(() => {});
      };
      const stream = gateways.attach(headers(FIELDS));
      await new Promise<void>((resolve) => stream.once('data', () => resolve()));
      edge.keys.ended.set('key', revoked);
      if (where === 'in this process') edge.server.pipeline.calls.keyWatch.recheck('key');
      expect((await readAll(stream)).error).toMatchObject({ code: status.UNAUTHENTICATED, reason: 'api_key_revoked' });
    },
  );

  it('stay open while the key cannot be checked', async () => {
    attaching = async (stream) => {
      for await (const _ of stream.requests) await stream.send(ack('1'));
    };
    const stream = gateways.attach(headers(FIELDS));
    stream.write(HELLO);
    await new Promise<void>((resolve) => stream.once('data', () => resolve()));
    edge.keys.ended.set('key', new DomainError('unavailable', 'database_unavailable', 'not there'));
    await edge.log.until('auth.key_revalidation_failed', 2);
    stream.end();
    expect((await readAll(stream)).error).toBeUndefined();
  });

  it('do not reveal an unknown error', async () => {
    attaching = () => {
      throw new Error('secret');
    };
    const { error } = await readAll(gateways.attach(headers(FIELDS)));
    expect(error).toMatchObject({ code: status.INTERNAL, reason: 'internal' });
    expect(error?.message).not.toContain('secret');
  });

  it('log an error that a handler throws after the end', async () => {
    attaching = async (stream, { signal }) => {
      await stream.send(ack('1'));
      await new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve()));
      throw new TypeError('a fault');
    };
    const stream = gateways.attach(headers(FIELDS));
    stream.on('error', () => {});
    stream.once('data', () => stream.cancel());
    await edge.log.until('rpc.handler_failed_after_close');
    expect(edge.log.of('rpc.handler_failed_after_close')).toEqual([
      expect.objectContaining({ err: new TypeError('a fault') }),
    ]);
  });

  it('check the key first', async () => {
    attaching = async () => {};
    edge.keys.add('reader', { scopes: new Set(['devices:read']) });
    expect((await readAll(gateways.attach(new Metadata()))).error).toMatchObject({ reason: 'api_key_missing' });
    expect((await readAll(gateways.attach(headers({ 'x-api-key': 'reader' })))).error).toMatchObject({
      code: status.PERMISSION_DENIED,
      reason: 'insufficient_scope',
    });
  });
});

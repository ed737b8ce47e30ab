import { randomUUID } from 'node:crypto';
import type { ClientWritableStream } from '@grpc/grpc-js';
import type { CallOptions } from '../options';
import { PlantroomError } from '../plantroomError';
import type { Channel } from './channel';
import type { MethodDefinition, ServiceClient, ServiceDefinition } from './definitions';
import { getFullName, isRepeatable, takesIdempotencyKey } from './repeatable';
import { openServerStream } from './serverStream';

type Requests = AsyncIterable<unknown> | Iterable<unknown>;

/** Creates the client methods of a service. */
export function createServiceClient<Definition extends ServiceDefinition>(
  channel: Channel,
  definition: Definition,
): ServiceClient<Definition> {
  const methods = Object.entries(definition.methods).map(([name, method]) => [
    name,
    createMethod(channel, definition, method),
  ]);
  return Object.fromEntries(methods) as ServiceClient<Definition>;
}

/**
 * Creates the function of one method: for a stream of responses, a stream of requests, or a single request and
 * response.
 */
function createMethod(channel: Channel, service: ServiceDefinition, method: MethodDefinition): unknown {
  const path = `/${getFullName(service, method)}`;
  const decode = (bytes: Buffer): unknown => method.responseType.decode(bytes);
  if (method.responseStream) {
    return (request: unknown, options: CallOptions = {}) =>
      openServerStream(channel, path, () => encode(method, request), decode, options);
  }
  if (method.requestStream) {
    return (requests: Requests, options: CallOptions = {}) =>
      callClientStream(channel, path, method, requests, options);
  }
  const mode = isRepeatable(service, method) ? 'repeated' : 'once';
  return async (request: unknown, options: CallOptions = {}): Promise<unknown> => {
    const bytes = encode(method, request);
    // All attempts have the same key.
    const idempotencyKey = takesIdempotencyKey(method) ? (options.idempotencyKey ?? randomUUID()) : undefined;
    return await channel.callUnary(mode, options, ({ client, metadata, options: grpcOptions }, done) => {
      if (idempotencyKey !== undefined) metadata.set('idempotency-key', idempotencyKey);
      return client.makeUnaryRequest(path, passThrough, decode, bytes, metadata, grpcOptions, done);
    });
  };
}

/** Calls a method with a stream of requests. An error of the source cancels the call and is thrown unchanged. */
async function callClientStream(
  channel: Channel,
  path: string,
  method: MethodDefinition,
  requests: Requests,
  options: CallOptions,
): Promise<unknown> {
  let sourceError: { readonly error: unknown } | undefined; // an object, because a source can throw undefined
  try {
    return await channel.callUnary('streamed', options, ({ client, metadata, options: grpcOptions }, done) => {
      const call = client.makeClientStreamRequest(
        path,
        passThrough,
        (bytes: Buffer) => method.responseType.decode(bytes),
        metadata,
        grpcOptions,
        done,
      );
      sendAll(call, method, requests).catch((error: unknown) => {
        sourceError ??= { error };
        call.cancel();
      });
      return call;
    });
  } catch (error) {
    throw sourceError ? sourceError.error : error;
  }
}

/**
 * Sends all requests with backpressure, and closes the source when the call ends early. Throws what the source throws.
 */
async function sendAll(
  call: ClientWritableStream<Buffer>,
  method: MethodDefinition,
  requests: Requests,
): Promise<void> {
  const source = Symbol.asyncIterator in requests ? requests[Symbol.asyncIterator]() : requests[Symbol.iterator]();
  const ended = new Promise<undefined>((resolve) => call.on('status', () => resolve(undefined)));
  let isExhausted = false;
  try {
    for (;;) {
      // The call may end while the source still waits for its next request.
      const next = await Promise.race([source.next(), ended]);
      isExhausted = next?.done === true;
      if (!next || next.done === true) break;
      if (!call.write(encode(method, next.value)))
        await Promise.race([new Promise<void>((resolve) => call.once('drain', resolve)), ended]);
    }
  } finally {
    if (!isExhausted) closeSource(source);
  }
  if (isExhausted) call.end();
}

/** Closes a source. Its errors are ignored, because the call has already ended. */
function closeSource(source: Iterator<unknown> | AsyncIterator<unknown>): void {
  void (async () => await source.return?.())().catch(() => {});
}

/** Encodes a request. Throws PlantroomError `request_invalid` for values that do not fit the message type. */
function encode({ name, requestType }: MethodDefinition, request: unknown): Buffer {
  try {
    return Buffer.from(requestType.encode(requestType.fromPartial(request as never) as never).finish());
  } catch (error) {
    const description = `the request of ${name} cannot be encoded (${error instanceof Error ? error.message : String(error)}); use the field types of the request`;
    throw PlantroomError.invalid('request_invalid', [{ field: '', description }], { cause: error });
  }
}

const passThrough = (bytes: Buffer): Buffer => bytes;

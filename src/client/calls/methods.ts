import type { ClientWritableStream } from '@grpc/grpc-js';
import type { CallOptions } from '../options';
import { PlantroomError } from '../plantroomError';
import type { Channel } from './channel';
import type { MethodDefinition, ServiceClient, ServiceDefinition } from './definitions';
import { fullName, isRepeatable } from './repeatable';
import { serverStream } from './serverStream';

type Requests = AsyncIterable<unknown> | Iterable<unknown>;

/** The methods of a service. */
export function serviceOf<Definition extends ServiceDefinition>(channel: Channel, definition: Definition): ServiceClient<Definition> {
  const methods = Object.entries(definition.methods).map(([name, method]) => [name, methodOf(channel, definition, method)]);
  return Object.fromEntries(methods) as ServiceClient<Definition>;
}

function methodOf(channel: Channel, service: ServiceDefinition, method: MethodDefinition): unknown {
  const path = `/${fullName(service, method)}`;
  const decode = (bytes: Buffer): unknown => method.responseType.decode(bytes);
  if (method.responseStream) return (request: unknown, options: CallOptions = {}) => serverStream(channel, path, () => encode(method, request), decode, options);
  if (method.requestStream) return (requests: Requests, options: CallOptions = {}) => clientStream(channel, path, method, requests, options);
  const way = isRepeatable(service, method) ? 'repeated' : 'once';
  return async (request: unknown, options: CallOptions = {}): Promise<unknown> => {
    const bytes = encode(method, request);
    return await channel.answer(way, options, ({ client, metadata, options: given }, done) => client.makeUnaryRequest(path, same, decode, bytes, metadata, given, done));
  };
}

async function clientStream(channel: Channel, path: string, method: MethodDefinition, requests: Requests, options: CallOptions): Promise<unknown> {
  let sourceFault: { readonly error: unknown } | undefined;
  try {
    return await channel.answer('streamed', options, ({ client, metadata, options: given }, done) => {
      const call = client.makeClientStreamRequest(path, same, (bytes: Buffer) => method.responseType.decode(bytes), metadata, given, done);
      sendAll(call, method, requests).catch((error: unknown) => {
        sourceFault ??= { error };
        call.cancel();
      });
      return call;
    });
  } catch (error) {
    throw sourceFault ? sourceFault.error : error;
  }
}

/** Reads on only when the connection takes more, and leaves the source when the call has ended. Throws what the source throws. */
async function sendAll(call: ClientWritableStream<Buffer>, method: MethodDefinition, requests: Requests): Promise<void> {
  const source = Symbol.asyncIterator in requests ? requests[Symbol.asyncIterator]() : requests[Symbol.iterator]();
  const ended = new Promise<undefined>((resolve) => call.on('status', () => resolve(undefined)));
  let isRead = false;
  try {
    for (;;) {
      // The server may have said why already, while the source has nothing yet.
      const next = await Promise.race([source.next(), ended]);
      isRead = next?.done === true;
      if (!next || next.done === true) break;
      if (!call.write(encode(method, next.value))) await Promise.race([new Promise<void>((resolve) => call.once('drain', resolve)), ended]);
    }
  } finally {
    if (!isRead) leave(source);
  }
  if (isRead) call.end();
}

/** Tells a source that nobody reads on. What it says to that helps nobody any more. */
function leave(source: Iterator<unknown> | AsyncIterator<unknown>): void {
  void (async () => await source.return?.())().catch(() => {});
}

/** The bytes of a request. Throws PlantroomError `request_invalid` for what has no place in the message. */
function encode({ name, requestType }: MethodDefinition, request: unknown): Buffer {
  try {
    return Buffer.from(requestType.encode(requestType.fromPartial(request as never) as never).finish());
  } catch (error) {
    const description = `the request of ${name} cannot be written (${error instanceof Error ? error.message : String(error)}); give the fields as their types say`;
    throw PlantroomError.invalid('request_invalid', [{ field: '', description }], { cause: error });
  }
}

const same = (bytes: Buffer): Buffer => bytes;

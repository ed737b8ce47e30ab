import type { ClientReadableStream } from '@grpc/grpc-js';
import type { CallOptions } from '../options';
import type { Channel } from './channel';

/**
 * Opens a stream of responses. The call is sent when the first response is requested, and cancelled when the caller
 * leaves the loop. `encode` encodes the request at that time. Only a few responses are read ahead.
 */
export function openServerStream(
  channel: Channel,
  path: string,
  encode: () => Buffer,
  decode: (bytes: Buffer) => unknown,
  options: CallOptions,
): AsyncIterableIterator<unknown> {
  let call: ClientReadableStream<unknown> | undefined;
  let isClosed = false;
  const responses = (async function* (): AsyncGenerator<unknown, undefined> {
    const { client, metadata, options: grpcOptions } = channel.prepareStream(options);
    const opened = client.makeServerStreamRequest(path, passThrough, decode, encode(), metadata, grpcOptions);
    call = opened;
    opened.on('error', ignore); // An error after the caller left the loop.
    const release = channel.cancelOnAbortOrClose(opened, options.signal);
    try {
      yield* opened;
      return undefined;
    } catch (error) {
      if (isClosed) return undefined;
      throw channel.toCallerError(error, metadata, options.signal);
    } finally {
      release();
      opened.cancel();
    }
  })();
  return {
    next: async () => await responses.next(),
    // Cancels the call first: while next() waits for a response, the generator cannot end.
    return: async () => {
      isClosed = true;
      call?.cancel();
      return await responses.return(undefined);
    },
    throw: async (error: unknown) => await responses.throw(error),
    [Symbol.asyncIterator]() {
      return this;
    },
  };
}

const passThrough = (bytes: Buffer): Buffer => bytes;
const ignore = (): void => {};

import type { ClientReadableStream } from '@grpc/grpc-js';
import type { CallOptions } from '../options';
import type { Channel } from './channel';

/** A stream of answers. The call is made when the first one is asked for; at most a few are read ahead of the caller. */
export function serverStream(channel: Channel, path: string, encode: () => Buffer, decode: (bytes: Buffer) => unknown, options: CallOptions): AsyncIterableIterator<unknown> {
  let call: ClientReadableStream<unknown> | undefined;
  let isLeft = false;
  const answers = (async function* (): AsyncGenerator<unknown, undefined> {
    const { client, metadata, options: given } = channel.stream(options);
    const opened = (call = client.makeServerStreamRequest(path, same, decode, encode(), metadata, given));
    opened.on('error', nothing); // one that comes after the caller left
    const release = channel.hold(opened, options.signal);
    try {
      yield* opened;
      return undefined;
    } catch (error) {
      if (isLeft) return undefined;
      throw channel.failure(error, metadata, options.signal);
    } finally {
      release();
      opened.cancel();
    }
  })();
  return {
    next: async () => await answers.next(),
    // A next() that still waits would keep the generator from ending.
    return: async () => {
      isLeft = true;
      call?.cancel();
      return await answers.return(undefined);
    },
    throw: async (error: unknown) => await answers.throw(error),
    [Symbol.asyncIterator]() {
      return this;
    },
  };
}

const same = (bytes: Buffer): Buffer => bytes;
const nothing = (): void => {};

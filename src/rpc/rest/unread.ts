import type { IncomingMessage, ServerResponse } from 'node:http';
import { constants, type Http2ServerResponse } from 'node:http2';

/**
 * Cuts an answer of which bytes are ready and none was taken for so long: else a caller that never reads keeps them, and all that they
 * come from, for ever. One that has nothing to say lives on.
 */
export function cutUnread({ socket }: IncomingMessage, response: ServerResponse, afterMs: number): void {
  const { stream } = response as unknown as Partial<Http2ServerResponse>;
  // The timeouts of node begin anew with every byte that goes out, also within one large write.
  if (stream) {
    stream.setTimeout(afterMs);
    stream.on('timeout', () => (stream.writableLength > 0 ? stream.close(constants.NGHTTP2_CANCEL) : stream.setTimeout(afterMs)));
  } else {
    socket.setTimeout(afterMs); // until the answer is out: node sets that of idle connections then
    response.on('timeout', () => (socket.writableLength > 0 ? socket.destroy() : socket.setTimeout(afterMs)));
  }
}

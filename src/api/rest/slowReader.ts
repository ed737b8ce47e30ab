import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Http2ServerResponse } from 'node:http2';
import { closeUnread } from '../unread';

/**
 * Closes a response if bytes are ready and the client has read none of them for `afterMs`, milliseconds. Otherwise, a
 * client that never reads would keep the bytes and their source in memory indefinitely. A response with nothing to send
 * stays open.
 */
export function destroySlowReader({ socket }: IncomingMessage, response: ServerResponse, afterMs: number): void {
  const { stream } = response as unknown as Partial<Http2ServerResponse>;
  if (stream) {
    closeUnread(stream, afterMs);
  } else {
    socket.setTimeout(afterMs); // until the response is sent; Node.js then sets the timeout of idle connections
    // Node.js does not destroy the socket itself if there is a listener.
    response.on('timeout', () => (socket.writableLength > 0 ? socket.destroy() : socket.setTimeout(afterMs)));
  }
}

import { constants, type ServerHttp2Stream } from 'node:http2';

/**
 * Closes an HTTP/2 stream if the client reads none of its pending bytes for `afterMs` milliseconds. A stream without
 * pending bytes stays open. `onUnread`: called before the stream is closed.
 */
export function closeUnread(stream: ServerHttp2Stream, afterMs: number, onUnread = (): void => {}): void {
  // Node.js restarts the timeout with every byte that is sent, even within one large write.
  stream.setTimeout(afterMs);
  stream.on('timeout', () => {
    if (stream.writableLength === 0) {
      stream.setTimeout(afterMs);
      return;
    }
    onUnread();
    stream.close(constants.NGHTTP2_CANCEL);
  });
}

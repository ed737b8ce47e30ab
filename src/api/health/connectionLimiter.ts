import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { Logger } from '../../kernel/logger';

const LOG_INTERVAL_MS = 60_000;

/**
 * Limits the open sockets of a server, so that idle clients cannot block it. Above `maxSockets`, the socket that has
 * been idle longest is closed, or the new one if none is idle. This is logged at most once a minute.
 */
export function limitIdleConnections(server: Server, maxSockets: number, log: Logger): void {
  /** Idle connections, in the order of their last activity. */
  const idleSockets = new Set<Socket>();
  let loggedAt = -Infinity;
  let openCount = 0;
  server.on('connection', (socket: Socket) => {
    openCount += 1;
    idleSockets.add(socket);
    socket.once('close', () => {
      openCount -= 1;
      idleSockets.delete(socket);
    });
    if (openCount <= maxSockets) return;
    const [longestIdle = socket] = idleSockets;
    longestIdle.destroy();
    if (performance.now() - loggedAt < LOG_INTERVAL_MS) return;
    loggedAt = performance.now();
    log.warn(
      {
        connections: maxSockets,
        message:
          'Too many connections to the metrics port: idle ones are closed. Find the clients that open them, and allow only Prometheus to connect.',
      },
      'metrics.connection_limit_reached',
    );
  });
  server.on('request', ({ socket }: IncomingMessage, response: ServerResponse) => {
    idleSockets.delete(socket); // and added again at the end when the response is complete
    response.once('close', () => {
      if (!socket.destroyed) idleSockets.add(socket);
    });
  });
}

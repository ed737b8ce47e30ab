import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { Logger } from '../../kernel/logger';

const SAID_EVERY_MS = 60_000;

/**
 * Keeps a port open for those who ask, however many connect and say nothing: of more than `most` connections the one that has been silent
 * for longest is closed; where all of them are being answered, the new one. Says so at most once a minute.
 */
export function limitCrowd(server: Server, most: number, log: Logger): void {
  /** In the order in which they were last heard of. */
  const silent = new Set<Socket>();
  let saidAt = -Infinity;
  let open = 0;
  server.on('connection', (socket: Socket) => {
    open += 1;
    silent.add(socket);
    socket.once('close', () => {
      open -= 1;
      silent.delete(socket);
    });
    if (open <= most) return;
    const [oldest = socket] = silent;
    oldest.destroy();
    if (performance.now() - saidAt < SAID_EVERY_MS) return;
    saidAt = performance.now();
    log.warn({ connections: most, message: 'so many connections are open at the port of the numbers that silent ones are closed; see who opens them, and let only Prometheus reach it' }, 'metrics.crowded');
  });
  server.on('request', ({ socket }: IncomingMessage, response: ServerResponse) => {
    silent.delete(socket);
    response.once('close', () => socket.destroyed || silent.add(socket));
  });
}

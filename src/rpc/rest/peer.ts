import type { FastifyRequest } from 'fastify';
import { isIP } from 'node:net';

/**
 * The address of the client without its port: that of the connection, or, where that is a trusted proxy, the last one that no trusted
 * proxy has. What stands before it in X-Forwarded-For was said by the client itself.
 */
export function peerOf(request: FastifyRequest): string {
  const own = request.raw.socket.remoteAddress ?? 'unknown';
  const { ip = own } = request as { ip?: string };
  return bare(ip === own ? own : (findAddress(ip) ?? own));
}

// Some proxies write the port too.
function findAddress(text: string): string | undefined {
  const address = /^\[([^\]]+)\](?::\d+)?$/.exec(text)?.[1] ?? /^([\d.]+):\d+$/.exec(text)?.[1] ?? text;
  return isIP(address) === 0 ? undefined : address;
}

function bare(address: string): string {
  return address.startsWith('::ffff:') ? address.slice(7) : address;
}
